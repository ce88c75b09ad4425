#include "core/adapter/role_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/base/checked.h"
#include "kernels/kernels.h"

namespace veneer {
namespace {

// As large as the largest adapter file: 4 GiB of f32 is a thousand times what an honest quantized adapter becomes.
constexpr std::uint64_t kMaxConverted = std::uint64_t{4} << 30;

using Bytes = std::vector<std::byte>;

Result<Bytes> Allocate(const TensorView& tensor, std::uint64_t element_bytes, const std::deque<Bytes>& converted) {
  std::uint64_t used = 0;
  for (const Bytes& copy : converted) used += copy.size();
  const auto bytes = CheckedMul(tensor.elements(), element_bytes);
  if (!bytes || *bytes > kMaxConverted - used)
    return Fail(Code::LIMIT, tensor.name,
                fmt::format("the adapter becomes larger than {} bytes in memory; convert it anew as f16", kMaxConverted));
  return Bytes(*bytes);
}

// f32 values of a tensor of any type that there is a kernel for.
Result<Bytes> Dequantize(const TensorView& tensor, const std::deque<Bytes>& converted) {
  // Any table will do: dequantize is bit-equal across them. The scalar one is always there.
  const auto runnable = kernels::Runnable();
  const auto dequantize = runnable.tables[runnable.count - 1]->dequantize[tensor.dtype];
  if (dequantize == nullptr)
    return Fail(Code::FORMAT_UNSUPPORTED, tensor.name,
                fmt::format("type {} is not read here; convert the adapter anew as f32, f16, bf16 or q8_0", InfoOf(tensor.dtype).name));
  VENEER_ASSIGN(Bytes values, Allocate(tensor, sizeof(float), converted));
  dequantize(tensor.bytes.data(), reinterpret_cast<float*>(values.data()), tensor.elements());
  return values;
}

// Where the rows and columns of the role come from in a file that stores [rows, columns], or [columns, rows].
struct Places {
  std::uint64_t rows = 1, columns = 1, row_stride = 1, column_stride = 1;  // in elements
  bool reorders_rows = false, reorders_columns = false;
};

template <class Word>
void Gather(const Places& places, const RowOrder& order, const std::byte* src, std::byte* dst) {
  for (std::uint64_t row = 0; row < places.rows; ++row) {
    const std::uint64_t from_row = (places.reorders_rows ? order.StoredRow(row) : row) * places.row_stride;
    for (std::uint64_t column = 0; column < places.columns; ++column) {
      const std::uint64_t from = from_row + (places.reorders_columns ? order.StoredRow(column) : column) * places.column_stride;
      std::memcpy(dst, src + from * sizeof(Word), sizeof(Word));
      dst += sizeof(Word);
    }
  }
}

Result<Bytes> Rearrange(const TensorView& tensor, const Places& places, const RowOrder& order, const std::deque<Bytes>& converted) {
  const std::uint64_t width = InfoOf(tensor.dtype).block_bytes;
  VENEER_ASSIGN(Bytes copy, Allocate(tensor, width, converted));
  const std::byte* const src = tensor.bytes.data();
  switch (width) {
    case 1:
      Gather<std::uint8_t>(places, order, src, copy.data());
      break;
    case 2:
      Gather<std::uint16_t>(places, order, src, copy.data());
      break;
    case 4:
      Gather<std::uint32_t>(places, order, src, copy.data());
      break;
    default:
      Gather<std::uint64_t>(places, order, src, copy.data());
  }
  return copy;
}

}  // namespace

Result<TensorView> ToRole(const TensorView& stored, const RoleDecl& role, bool is_transposed, const Site& site,
                          std::deque<Bytes>& converted) {
  TensorView tensor = stored;
  std::vector<std::uint64_t>& shape = tensor.shape;
  while (shape.size() > role.dims.size() && shape.front() == 1) shape.erase(shape.begin());
  while (shape.size() < role.dims.size()) shape.insert(shape.begin(), 1);
  if (shape.size() != role.dims.size() || shape.empty() || shape.size() > 2 || tensor.elements() == 0) return tensor;
  Bytes copy;
  if (InfoOf(tensor.dtype).block_elements > 1) {
    VENEER_ASSIGN(copy, Dequantize(tensor, converted));
    tensor.dtype = VNR_F32;
    tensor.bytes = copy;
  }

  Places places;
  if (is_transposed) std::ranges::reverse(shape);
  places.rows = shape.front();
  if (shape.size() == 2) places.columns = shape.back();
  places.row_stride = is_transposed ? 1 : places.columns;
  places.column_stride = is_transposed ? places.rows : 1;
  const auto is_lanes = [&](std::size_t i) { return !site.row_order.is_identity() && role.dims[i] == VNR_DIM_OUT && shape[i] == site.out; };
  places.reorders_rows = is_lanes(0);
  places.reorders_columns = shape.size() == 2 && is_lanes(1);
  if (is_transposed || places.reorders_rows || places.reorders_columns) {
    VENEER_ASSIGN(copy, Rearrange(tensor, places, site.row_order, converted));
  }
  if (!copy.empty()) tensor.bytes = converted.emplace_back(std::move(copy));
  return tensor;
}

}  // namespace veneer
