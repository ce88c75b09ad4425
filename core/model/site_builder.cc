#include "core/model/site_builder.h"
#include "core/model/select_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "kernels/kernels.h"

namespace veneer {
namespace {

constexpr std::size_t kNamesInError = 10;

struct Shape {
  std::uint64_t out, in;
};
enum class Bias { kOptional, kRequired };

std::string NamesOf(std::span<const DType> types) {
  std::string names;
  for (const DType type : types) names += fmt::format("{}{}", names.empty() ? "" : ", ", InfoOf(type).name);
  return names;
}

class Builder {
 public:
  Builder(std::span<const BaseTensor> tensors, const ModelConfig& config, const Architecture& architecture, const SiteFormat& format,
          const kernels::Table& table)
      : tensors_(tensors), config_(config), architecture_(architecture), format_(format), used_(tensors.size(), false) {
    for (std::size_t i = 0; i < tensors.size(); ++i) by_name_.emplace(tensors[i].view.name, i);
    for (const DType type : format.matrix_types)
      if (table.dot_rows[type] != nullptr && table.dequantize[type] != nullptr) matrix_types_.push_back(type);
  }

  Result<std::vector<Site>> Run() && {
    const std::uint64_t hidden = config_.hidden, ffn = config_.ffn, vocab = config_.vocab;
    const std::uint64_t q_out = std::uint64_t{config_.n_heads} * config_.head_dim;
    const std::uint64_t kv_out = std::uint64_t{config_.n_kv_heads} * config_.head_dim;
    const RowOrder plain = RowOrder::Identity();
    const RowOrder heads =
        format_.interleaves_heads && architecture_.has_interleaved_heads ? RowOrder::InterleavedHeads(config_.head_dim) : plain;
    const Bias qkv_bias = architecture_.has_qkv_biases ? Bias::kRequired : Bias::kOptional;

    VENEER_TRY(Matrix(kEmbedTokens, {vocab, hidden}, plain));
    sites_.back().shape_class = SiteClass::kEmbedding;
    for (layer_ = 0; layer_ < config_.n_layers; ++layer_) {
      VENEER_TRY(Norm(kInputNorm, hidden));
      VENEER_TRY(Linear(kQ, {q_out, hidden}, heads, qkv_bias));
      VENEER_TRY(Linear(kK, {kv_out, hidden}, heads, qkv_bias));
      VENEER_TRY(Linear(kV, {kv_out, hidden}, plain, qkv_bias));
      VENEER_TRY(Linear(kO, {hidden, q_out}, plain));
      if (architecture_.has_head_norms) {
        VENEER_TRY(Norm(kQNorm, config_.head_dim));
        VENEER_TRY(Norm(kKNorm, config_.head_dim));
      }
      VENEER_TRY(Norm(kPostAttentionNorm, hidden));
      VENEER_TRY(Linear(kGate, {ffn, hidden}, plain));
      VENEER_TRY(Linear(kUp, {ffn, hidden}, plain));
      VENEER_TRY(Linear(kDown, {hidden, ffn}, plain));
    }
    layer_ = kNoLayer;
    VENEER_TRY(Norm(kFinalNorm, hidden));
    if (config_.tied_head)
      TieHead();
    else
      VENEER_TRY(Matrix(kLmHead, {vocab, hidden}, plain));
    VENEER_TRY(CheckAllUsed());
    return std::move(sites_);
  }

 private:
  std::string TensorName(const ModuleName& module, std::string_view suffix) const {
    return layer_ == kNoLayer ? fmt::format("{}.{}", module.*format_.module, suffix)
                              : fmt::format("{}{}.{}.{}", format_.layer_prefix, layer_, module.*format_.module, suffix);
  }
  std::string SiteId(const ModuleName& module) const {
    return layer_ == kNoLayer ? std::string(module.hf) : fmt::format("model.layers.{}.{}", layer_, module.hf);
  }

  // Marks the tensor as used. nullptr: there is none of that name.
  const BaseTensor* Take(const std::string& name) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return nullptr;
    used_[found->second] = true;
    return &tensors_[found->second];
  }

  Site& Append(std::string id, SiteClass shape_class, Shape shape, const BaseTensor& tensor) {
    Site& site = sites_.emplace_back();
    site.id = std::move(id);
    site.shape_class = shape_class;
    site.out = shape.out;
    site.in = shape.in;
    site.layer = layer_;
    site.storage_group = static_cast<std::uint32_t>(&tensor - tensors_.data());
    site.weight = tensor.view;
    site.scales = tensor.scales;
    return site;
  }

  Status CheckShape(const TensorView& tensor, const std::vector<std::uint64_t>& expected) const {
    if (tensor.shape == expected) return {};
    return Fail(
        Code::SHAPE_MISMATCH, tensor.name,
        fmt::format("shape {}, {} asks for {}; {}", ShapeText(tensor.shape), format_.authority, ShapeText(expected), format_.remedy));
  }

  std::unexpected<Error> Missing(std::string name) const {
    return Fail(Code::HEADER_CORRUPT, std::move(name), fmt::format("the tensor is missing; {}", format_.remedy));
  }

  Result<const BaseTensor*> Required(const ModuleName& module) {
    std::string name = TensorName(module, "weight");
    const BaseTensor* const tensor = Take(name);
    if (tensor == nullptr) return Missing(std::move(name));
    return tensor;
  }

  Status Matrix(const ModuleName& module, Shape shape, RowOrder order) {
    VENEER_ASSIGN(const BaseTensor* const tensor, Required(module));
    VENEER_TRY(CheckShape(tensor->view, {shape.out, shape.in}));
    if (std::ranges::find(matrix_types_, tensor->view.dtype) == matrix_types_.end())
      return Fail(Code::FORMAT_UNSUPPORTED, tensor->view.name,
                  fmt::format("type {} has no kernels in this version; requantize the model to one of {}", InfoOf(tensor->view.dtype).name,
                              NamesOf(matrix_types_)));
    Append(SiteId(module), SiteClass::kLinear, shape, *tensor).row_order = order;
    return {};
  }

  Status Linear(const ModuleName& module, Shape shape, RowOrder order, Bias expected = Bias::kOptional) {
    VENEER_TRY(Matrix(module, shape, order));
    const BaseTensor* const bias = Take(TensorName(module, "bias"));
    if (bias == nullptr && expected == Bias::kRequired) return Missing(TensorName(module, "bias"));
    if (bias == nullptr) return {};
    VENEER_TRY(CheckVector(bias->view, shape.out));
    sites_.back().bias = bias->view;
    Append(SiteId(module) + ".bias", SiteClass::kVector, {shape.out, 1}, *bias).row_order = order;
    return {};
  }

  Status CheckVector(const TensorView& tensor, std::uint64_t size) const {
    VENEER_TRY(CheckShape(tensor, {size}));
    if (std::ranges::find(format_.vector_types, tensor.dtype) != format_.vector_types.end()) return {};
    return Fail(Code::FORMAT_UNSUPPORTED, tensor.name,
                fmt::format("type {}, norms and biases are read as {}; convert the model again", InfoOf(tensor.dtype).name,
                            NamesOf(format_.vector_types)));
  }

  Status Norm(const ModuleName& module, std::uint64_t size) {
    VENEER_ASSIGN(const BaseTensor* const tensor, Required(module));
    VENEER_TRY(CheckVector(tensor->view, size));
    Append(SiteId(module), SiteClass::kVector, {size, 1}, *tensor);
    return {};
  }

  // The output projection is a second site over the embedding's storage.
  void TieHead() {
    Site head = sites_.front();
    sites_.front().is_tied = true;
    head.is_tied = true;
    head.id = kLmHead.hf;
    head.shape_class = SiteClass::kLinear;
    sites_.push_back(std::move(head));
  }

  Status CheckAllUsed() {
    std::string first, names;
    std::size_t count = 0;
    for (std::size_t i = 0; i < used_.size(); ++i) {
      const std::string& name = tensors_[i].view.name;
      if (used_[i] || format_.is_ignored(name)) continue;
      if (count++ == 0) first = name;
      if (count <= kNamesInError) names += fmt::format("{}{}", count == 1 ? "" : ", ", name);
    }
    if (count == 0) return {};
    return Fail(Code::FORMAT_UNSUPPORTED, first,
                fmt::format("{} tensors have no place in architecture {} as this version implements it: {}{}", count, config_.arch, names,
                            count > kNamesInError ? ", ..." : ""));
  }

  std::span<const BaseTensor> tensors_;
  const ModelConfig& config_;
  const Architecture& architecture_;
  const SiteFormat& format_;
  std::vector<DType> matrix_types_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  // keys are views into tensors_
  std::vector<bool> used_;
  std::vector<Site> sites_;
  std::uint32_t layer_ = kNoLayer;
};

}  // namespace

Result<std::vector<Site>> BuildSites(std::span<const BaseTensor> tensors, const ModelConfig& config, const SiteFormat& format) {
  VENEER_ASSIGN(const Architecture* const architecture, FindArchitecture(config.arch));
  VENEER_ASSIGN(const kernels::Table* const table, SelectKernels());
  return Builder(tensors, config, *architecture, format, *table).Run();
}

}  // namespace veneer
