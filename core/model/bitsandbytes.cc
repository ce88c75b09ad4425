// Source: bitsandbytes' functional.py (QuantState.as_dict and from_dict) and nn/modules.py (Linear8bitLt).
#include "core/model/bitsandbytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/checked.h"
#include "core/format/json.h"

namespace veneer {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kNf4State = ".quant_state.bitsandbytes__nf4", kFp4State = ".quant_state.bitsandbytes__fp4";
constexpr JsonLimits kStateLimits{.bytes = 4096, .depth = 2, .items = 32};
constexpr std::uint64_t kColumnUnit = 32;  // of the kernels

std::unexpected<Error> Misfit(const TensorView& tensor, std::string detail) {
  return Fail(Code::HEADER_CORRUPT, tensor.name, fmt::format("{}; save the model again", detail));
}

// What the JSON of a quant_state says.
struct Nf4State {
  std::vector<std::uint64_t> shape;
  std::uint64_t block = 0, nested_block = 0;
  std::optional<double> nested_offset;
};

Result<std::uint64_t> BlockSize(const Json& json, std::string_view key) {
  VENEER_ASSIGN(const Json* const value, json.Get(key));
  VENEER_ASSIGN(const std::uint64_t size, value->U64());
  if (size >= 32 && size <= 4096 && std::has_single_bit(size)) return size;
  return Fail(Code::HEADER_CORRUPT, value->at, fmt::format("found {}, must be a power of two from 32 to 4096", size));
}

Result<Nf4State> ParseState(std::string_view text) {
  VENEER_ASSIGN(const Json json, ParseJson(text, kStateLimits));
  Nf4State state;
  constexpr std::string_view kKnown[] = {"quant_type", "blocksize", "dtype", "shape", "nested_blocksize", "nested_dtype", "nested_offset"};
  for (const auto& [key, value] : json.members)
    if (std::ranges::find(kKnown, key) == std::end(kKnown))
      return Fail(Code::FORMAT_UNSUPPORTED, value.at, "a key that this version does not know; a newer layout, use an NF4 model without it");
  VENEER_ASSIGN(const Json* const type, json.Get("quant_type"));
  if (type->text != "nf4") return Fail(Code::FORMAT_UNSUPPORTED, type->at, fmt::format("found {}, only \"nf4\" is read", type->Dump()));
  VENEER_ASSIGN(state.block, BlockSize(json, "blocksize"));
  VENEER_ASSIGN(const Json* const shape, json.Get("shape"));
  for (const Json& one : shape->elements) {
    VENEER_ASSIGN(state.shape.emplace_back(), one.U64());
  }
  if (state.shape.size() != 2) return Fail(Code::HEADER_CORRUPT, shape->at, fmt::format("found {}, must be [out, in]", shape->Dump()));
  if (json.Find("nested_offset") == nullptr) return state;
  VENEER_ASSIGN(state.nested_offset, json.Find("nested_offset")->Number());
  VENEER_ASSIGN(state.nested_block, BlockSize(json, "nested_blocksize"));
  VENEER_ASSIGN(const Json* const dtype, json.Get("nested_dtype"));
  if (dtype->text != "float32")
    return Fail(Code::FORMAT_UNSUPPORTED, dtype->at, fmt::format("found {}, only \"float32\" is read", dtype->Dump()));
  return state;
}

class Joiner {
 public:
  Joiner(std::span<const TensorView> tensors, HfQuantization quantization) : tensors_(tensors), quantization_(quantization) {}

  Result<std::vector<BaseTensor>> Run() {
    std::vector<BaseTensor> joined;
    for (const TensorView& tensor : tensors_) {
      const bool is_weight = tensor.name.ends_with(kWeight);
      if (is_weight && quantization_ == HfQuantization::kNf4 && IsNf4(tensor)) {
        VENEER_ASSIGN(joined.emplace_back(), Nf4(tensor));
      } else if (is_weight && quantization_ == HfQuantization::kInt8 && IsInt8(tensor)) {
        VENEER_ASSIGN(joined.emplace_back(), Int8(tensor));
      } else {
        joined.push_back({tensor, nullptr});
      }
    }
    std::erase_if(joined, [this](const BaseTensor& one) { return state_.contains(one.view.name); });
    return joined;
  }

 private:
  const TensorView* Find(const std::string& name) const {
    const auto found = std::ranges::lower_bound(tensors_, name, {}, &TensorView::name);
    return found == tensors_.end() || found->name != name ? nullptr : &*found;
  }

  // A part of the state; it is no weight of its own any longer.
  Result<const TensorView*> Part(const TensorView& weight, std::string name, DType dtype) {
    const TensorView* const part = Find(name);
    if (part == nullptr)
      return Fail(
          Code::HEADER_CORRUPT, std::move(name),
          fmt::format("missing, {} is of type {} and cannot be read without; old versions of bitsandbytes did not save it: save the "
                      "model again with a newer one",
                      weight.name, InfoOf(weight.dtype).name));
    if (part->dtype != dtype) return Misfit(*part, fmt::format("type {}, must be {}", InfoOf(part->dtype).name, InfoOf(dtype).name));
    state_.insert(part->name);
    return part;
  }

  static Status CheckCount(const TensorView& part, std::uint64_t count, const TensorView& weight) {
    if (part.elements() == count) return {};
    return Misfit(part, fmt::format("{} numbers, {} needs {}", part.elements(), weight.name, count));
  }

  static Status CheckFinite(const TensorView& part) {
    for (std::uint64_t i = 0; i < part.elements(); ++i)
      if (const float value = kernels::StoredFloat(part.bytes.data(), i); !std::isfinite(value))
        return Fail(Code::NOT_FINITE, part.name, fmt::format("number {} is {}; the model is damaged", i, value));
    return {};
  }

  Result<const TensorView*> Floats(const TensorView& weight, std::string_view suffix, std::uint64_t count) {
    VENEER_ASSIGN(const TensorView* const part, Part(weight, weight.name + std::string(suffix), VNR_F32));
    VENEER_TRY(CheckCount(*part, count, weight));
    VENEER_TRY(CheckFinite(*part));
    return part;
  }

  // Any part of a state beside the weight, or a weight of whole numbers.
  bool IsNf4(const TensorView& tensor) const {
    for (const std::string_view suffix : {kNf4State, kFp4State, std::string_view(".absmax"), std::string_view(".quant_map")})
      if (Find(tensor.name + std::string(suffix)) != nullptr) return true;
    return tensor.dtype == VNR_U8 || tensor.dtype == VNR_I8;
  }

  Result<BaseTensor> Nf4(const TensorView& weight) {
    if (const TensorView* const fp4 = Find(weight.name + std::string(kFp4State)))
      return Fail(Code::FORMAT_UNSUPPORTED, fp4->name, "fp4 is not implemented; use an NF4 model, or a GGUF");
    VENEER_ASSIGN(const TensorView* const json, Part(weight, weight.name + std::string(kNf4State), VNR_U8));
    auto state = ParseState(AsText(json->bytes));
    if (!state) return Fail(std::move(state).error().Within(json->name));
    // The packed tensor may have any shape and type over the same bytes; what it means is in the state alone.
    const auto elements = CheckedProduct(state->shape);
    if (!elements || *elements == 0 || (*elements + 1) / 2 != weight.bytes.size())
      return Misfit(*json,
                    fmt::format("shape {}, which the {} bytes of {} are not", ShapeText(state->shape), weight.bytes.size(), weight.name));
    if (state->shape[1] % kColumnUnit != 0)
      return Fail(
          Code::FORMAT_UNSUPPORTED, json->name,
          fmt::format("rows of {} elements, the kernels read multiples of {}; use a GGUF of this model", state->shape[1], kColumnUnit));
    auto scales = std::make_shared<kernels::WeightScales>();
    VENEER_ASSIGN(const TensorView* const map, Floats(weight, ".quant_map", std::size(scales->map)));
    std::memcpy(scales->map, map->bytes.data(), sizeof scales->map);
    scales->block_shift = static_cast<unsigned>(std::countr_zero(state->block));
    const std::uint64_t blocks = (*elements + state->block - 1) / state->block;
    VENEER_TRY(ReadAbsmax(weight, *state, blocks, *scales));
    BaseTensor joined{weight, std::move(scales)};
    joined.view.dtype = VNR_NF4;
    joined.view.shape = state->shape;
    return joined;
  }

  Status ReadAbsmax(const TensorView& weight, const Nf4State& state, std::uint64_t blocks, kernels::WeightScales& scales) {
    if (!state.nested_offset) {
      VENEER_ASSIGN(const TensorView* const absmax, Floats(weight, ".absmax", blocks));
      scales.absmax = absmax->bytes.data();
      return {};
    }
    VENEER_ASSIGN(const TensorView* const codes, Part(weight, weight.name + ".absmax", VNR_U8));
    VENEER_TRY(CheckCount(*codes, blocks, weight));
    VENEER_ASSIGN(const TensorView* const map, Floats(weight, ".nested_quant_map", std::size(scales.nested_map)));
    VENEER_ASSIGN(const TensorView* const absmax, Floats(weight, ".nested_absmax", (blocks + state.nested_block - 1) / state.nested_block));
    scales.is_nested = true;
    scales.absmax = codes->bytes.data();
    std::memcpy(scales.nested_map, map->bytes.data(), sizeof scales.nested_map);
    scales.nested_absmax = absmax->bytes.data();
    scales.nested_shift = static_cast<unsigned>(std::countr_zero(state.nested_block));
    scales.nested_offset = static_cast<float>(*state.nested_offset);
    return {};
  }

  static std::string ModuleOf(const TensorView& weight) { return weight.name.substr(0, weight.name.size() - kWeight.size()); }

  bool IsInt8(const TensorView& tensor) const { return tensor.dtype == VNR_I8 || Find(ModuleOf(tensor) + ".SCB") != nullptr; }

  Result<BaseTensor> Int8(const TensorView& weight) {
    const std::string module = ModuleOf(weight);
    VENEER_ASSIGN(const TensorView* const rows, Part(weight, module + ".SCB", VNR_F32));
    if (weight.dtype != VNR_I8 || weight.shape.size() != 2)
      return Misfit(weight, fmt::format("type {} and shape {}, beside SCB it must be i8 and [out, in]", InfoOf(weight.dtype).name,
                                        ShapeText(weight.shape)));
    VENEER_TRY(CheckCount(*rows, weight.shape[0], weight));
    VENEER_TRY(CheckFinite(*rows));
    if (Find(module + ".weight_format") != nullptr) {
      VENEER_ASSIGN(const TensorView* const format, Part(weight, module + ".weight_format", VNR_U8));
      VENEER_TRY(CheckCount(*format, 1, weight));
      if (const int order = std::to_integer<int>(format->bytes[0]); order != 0)
        return Fail(Code::FORMAT_UNSUPPORTED, format->name,
                    fmt::format("found {}, a tiled order of some GPUs; only 0 (rows) is read: save the model again", order));
    }
    if (weight.shape[1] % kColumnUnit != 0)
      return Fail(
          Code::FORMAT_UNSUPPORTED, weight.name,
          fmt::format("rows of {} elements, the kernels read multiples of {}; use a GGUF of this model", weight.shape[1], kColumnUnit));
    auto scales = std::make_shared<kernels::WeightScales>();
    scales->row_scales = rows->bytes.data();
    BaseTensor joined{weight, std::move(scales)};
    joined.view.dtype = VNR_INT8_ROW;
    return joined;
  }

  std::span<const TensorView> tensors_;
  HfQuantization quantization_;
  std::set<std::string, std::less<>> state_;  // names of tensors that are part of a weight
};

}  // namespace

Result<std::vector<BaseTensor>> JoinQuantized(std::span<const TensorView> tensors, HfQuantization quantization) {
  return Joiner(tensors, quantization).Run();
}

}  // namespace veneer
