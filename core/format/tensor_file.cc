#include "core/format/tensor_file.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace veneer {
namespace {

// Indexed by the VNR_* value. NF4 counts what one byte holds: its scales are separate tensors and its blocks run over the flat
// array, so no block of it has a size of its own.
constexpr auto kInfos = [] {
  std::array<DTypeInfo, VNR_INT8_ROW + 1> infos{};
  infos[VNR_F32] = {"f32", 1, 4};
  infos[VNR_F16] = {"f16", 1, 2};
  infos[VNR_BF16] = {"bf16", 1, 2};
  infos[VNR_F64] = {"f64", 1, 8};
  infos[VNR_I8] = {"i8", 1, 1};
  infos[VNR_I16] = {"i16", 1, 2};
  infos[VNR_I32] = {"i32", 1, 4};
  infos[VNR_I64] = {"i64", 1, 8};
  infos[VNR_U8] = {"u8", 1, 1};
  infos[VNR_U16] = {"u16", 1, 2};
  infos[VNR_U32] = {"u32", 1, 4};
  infos[VNR_U64] = {"u64", 1, 8};
  infos[VNR_BOOL] = {"bool", 1, 1};
  infos[VNR_Q4_0] = {"q4_0", 32, 18};
  infos[VNR_Q4_1] = {"q4_1", 32, 20};
  infos[VNR_Q5_0] = {"q5_0", 32, 22};
  infos[VNR_Q5_1] = {"q5_1", 32, 24};
  infos[VNR_Q8_0] = {"q8_0", 32, 34};
  infos[VNR_Q2_K] = {"q2_k", 256, 84};
  infos[VNR_Q3_K] = {"q3_k", 256, 110};
  infos[VNR_Q4_K] = {"q4_k", 256, 144};
  infos[VNR_Q5_K] = {"q5_k", 256, 176};
  infos[VNR_Q6_K] = {"q6_k", 256, 210};
  infos[VNR_IQ4_NL] = {"iq4_nl", 32, 18};
  infos[VNR_NF4] = {"nf4", 2, 1};
  infos[VNR_INT8_ROW] = {"int8", 1, 1};
  return infos;
}();

}  // namespace

const DTypeInfo& InfoOf(DType dtype) {
  if (dtype >= kInfos.size() || kInfos[dtype].name.empty()) {
    std::fprintf(stderr, "veneer: internal error: %u is no element type\n", static_cast<unsigned>(dtype));
    std::abort();
  }
  return kInfos[dtype];
}

std::uint64_t TensorView::elements() const {
  std::uint64_t product = 1;
  for (const std::uint64_t dim : shape) product *= dim;
  return product;
}

std::string ShapeText(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) fmt::format_to(std::back_inserter(text), "{}{}", i == 0 ? "" : ", ", shape[i]);
  return text + "]";
}

}  // namespace veneer
