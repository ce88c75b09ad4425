#include "core/model/gguf_sites.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "core/model/architecture.h"
#include "core/model/site_names.h"
#include "kernels/kernels.h"

namespace veneer {
namespace {

constexpr std::size_t kNamesInError = 10;

struct Shape {
  std::uint64_t out, in;
};
enum class Bias { kOptional, kRequired };

std::string SupportedTypes(const kernels::Table& table) {
  std::string names;
  for (DType dtype = 0; dtype < kernels::kTypes; ++dtype)
    if (table.dot_rows[dtype] != nullptr) names += fmt::format("{}{}", names.empty() ? "" : ", ", InfoOf(dtype).name);
  return names;
}

class Builder {
 public:
  Builder(const GgufFile& file, const ModelConfig& config, const Architecture& architecture, const kernels::Table& table)
      : file_(file), config_(config), architecture_(architecture), table_(table), used_(file.tensors().size(), false) {}

  Result<std::vector<Site>> Run() && {
    const std::uint64_t hidden = config_.hidden, ffn = config_.ffn, vocab = config_.vocab;
    const std::uint64_t q_out = std::uint64_t{config_.n_heads} * config_.head_dim;
    const std::uint64_t kv_out = std::uint64_t{config_.n_kv_heads} * config_.head_dim;
    const RowOrder plain = RowOrder::Identity();
    const RowOrder heads = architecture_.has_interleaved_heads ? RowOrder::InterleavedHeads(config_.head_dim) : plain;
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
  std::string GgufName(const ModuleName& module, std::string_view suffix) const {
    return layer_ == kNoLayer ? fmt::format("{}.{}", module.gguf, suffix) : fmt::format("blk.{}.{}.{}", layer_, module.gguf, suffix);
  }
  std::string SiteId(const ModuleName& module) const {
    return layer_ == kNoLayer ? std::string(module.hf) : fmt::format("model.layers.{}.{}", layer_, module.hf);
  }

  // Marks the tensor as used. nullptr: the file has none of that name.
  const TensorView* Take(const std::string& name) {
    const TensorView* const tensor = file_.FindTensor(name);
    if (tensor != nullptr) used_[static_cast<std::size_t>(tensor - file_.tensors().data())] = true;
    return tensor;
  }

  Site& Append(std::string id, SiteClass shape_class, Shape shape, const TensorView& tensor) {
    Site& site = sites_.emplace_back();
    site.id = std::move(id);
    site.shape_class = shape_class;
    site.out = shape.out;
    site.in = shape.in;
    site.layer = layer_;
    site.storage_group = static_cast<std::uint32_t>(&tensor - file_.tensors().data());
    site.weight = tensor;
    return site;
  }

  Status CheckShape(const TensorView& tensor, const std::vector<std::uint64_t>& expected) const {
    if (tensor.shape == expected) return {};
    return Fail(Code::SHAPE_MISMATCH, tensor.name,
                fmt::format("shape {}, the metadata asks for {}", ShapeText(tensor.shape), ShapeText(expected)));
  }

  static std::unexpected<Error> Missing(std::string name) {
    return Fail(Code::HEADER_CORRUPT, std::move(name), "the tensor is missing from the file; convert the model again");
  }

  Result<const TensorView*> Required(const ModuleName& module) {
    std::string name = GgufName(module, "weight");
    const TensorView* const tensor = Take(name);
    if (tensor == nullptr) return Missing(std::move(name));
    return tensor;
  }

  Status Matrix(const ModuleName& module, Shape shape, RowOrder order) {
    VENEER_ASSIGN(const TensorView* const tensor, Required(module));
    VENEER_TRY(CheckShape(*tensor, {shape.out, shape.in}));
    if (table_.dot_rows[tensor->dtype] == nullptr || table_.dequantize[tensor->dtype] == nullptr)
      return Fail(Code::FORMAT_UNSUPPORTED, tensor->name,
                  fmt::format("type {} has no kernels in this version; requantize the model to one of {}", InfoOf(tensor->dtype).name,
                              SupportedTypes(table_)));
    Append(SiteId(module), SiteClass::kLinear, shape, *tensor).row_order = order;
    return {};
  }

  Status Linear(const ModuleName& module, Shape shape, RowOrder order, Bias expected = Bias::kOptional) {
    VENEER_TRY(Matrix(module, shape, order));
    const TensorView* const bias = Take(GgufName(module, "bias"));
    if (bias == nullptr && expected == Bias::kRequired) return Missing(GgufName(module, "bias"));
    if (bias == nullptr) return {};
    VENEER_TRY(CheckVector(*bias, shape.out));
    sites_.back().bias = *bias;
    Append(SiteId(module) + ".bias", SiteClass::kVector, {shape.out, 1}, *bias).row_order = order;
    return {};
  }

  Status CheckVector(const TensorView& tensor, std::uint64_t size) const {
    VENEER_TRY(CheckShape(tensor, {size}));
    if (tensor.dtype == VNR_F32) return {};
    return Fail(Code::FORMAT_UNSUPPORTED, tensor.name,
                fmt::format("type {}, norms and biases are read as f32; convert the model again", InfoOf(tensor.dtype).name));
  }

  Status Norm(const ModuleName& module, std::uint64_t size) {
    VENEER_ASSIGN(const TensorView* const tensor, Required(module));
    VENEER_TRY(CheckVector(*tensor, size));
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
    Take("rope_freqs.weight");  // read and checked with the configuration
    std::string first, names;
    std::size_t count = 0;
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (used_[i]) continue;
      const std::string& name = file_.tensors()[i].name;
      if (count++ == 0) first = name;
      if (count <= kNamesInError) names += fmt::format("{}{}", count == 1 ? "" : ", ", name);
    }
    if (count == 0) return {};
    return Fail(Code::FORMAT_UNSUPPORTED, first,
                fmt::format("{} tensors have no place in architecture {} as this version implements it: {}{}", count, config_.arch, names,
                            count > kNamesInError ? ", ..." : ""));
  }

  const GgufFile& file_;
  const ModelConfig& config_;
  const Architecture& architecture_;
  const kernels::Table& table_;
  std::vector<bool> used_;
  std::vector<Site> sites_;
  std::uint32_t layer_ = kNoLayer;
};

}  // namespace

Result<std::vector<Site>> BuildGgufSites(const GgufFile& file, const ModelConfig& config) {
  VENEER_ASSIGN(const Architecture* const architecture, FindArchitecture(config.arch));
  const kernels::Table* const table = kernels::Select();
  if (table == nullptr)
    return Fail(Code::RUNTIME_UNSUPPORTED, "VENEER_FORCE_ISA", "names an instruction set that is unknown or cannot run here; unset it");
  return Builder(file, config, *architecture, *table).Run();
}

}  // namespace veneer
