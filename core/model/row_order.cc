// The one place that knows how lanes lie in stored rows (adapter-formats e.6), and the reading of rows through it.
//
// For architecture `llama` the converter reorders the rows of q_proj and k_proj within each head, so that the rotate-half RoPE of
// Hugging Face becomes the adjacent-pair RoPE of ggml. D = head dim:
//   lane h*D + j   is stored in row   h*D + 2*(j mod D/2) + j div (D/2)
//   row  h*D + i   holds lane         h*D + (i mod 2)*(D/2) + i div 2
// D = 8, two heads: the stored rows are lanes 0 4 1 5 2 6 3 7 8 12 9 13 10 14 11 15.
#include <algorithm>
#include <array>

#include "core/model/site.h"
#include "kernels/kernels.h"

namespace veneer {

std::uint64_t RowOrder::StoredRow(std::uint64_t lane) const {
  if (is_identity()) return lane;
  const std::uint64_t half = head_dim_ / 2;
  const std::uint64_t j = lane % head_dim_;
  return lane - j + 2 * (j % half) + j / half;
}

std::uint64_t RowOrder::LaneOf(std::uint64_t stored_row) const {
  if (is_identity()) return stored_row;
  const std::uint64_t half = head_dim_ / 2;
  const std::uint64_t i = stored_row % head_dim_;
  return stored_row - i + (i % 2) * half + i / 2;
}

void RowOrder::StoredRows(std::uint64_t lane, std::uint64_t n, std::uint64_t* rows) const {
  if (is_identity()) {
    for (std::uint64_t i = 0; i < n; ++i) rows[i] = lane + i;
    return;
  }
  const std::uint64_t half = head_dim_ / 2;
  std::uint64_t j = lane % head_dim_, head = lane - j;
  for (std::uint64_t i = 0; i < n; ++i) {
    rows[i] = head + (j < half ? 2 * j : 2 * (j - half) + 1);
    if (++j < head_dim_) continue;
    j = 0;
    head += head_dim_;
  }
}

std::uint64_t RowBytes(DType dtype, std::uint64_t width) {
  const DTypeInfo& info = InfoOf(dtype);
  return width / info.block_elements * info.block_bytes;
}

// Any table will do: dequantize is bit-equal across them. The scalar one is always there.
static kernels::Table::Dequantize Dequantizer(DType dtype) {
  const auto runnable = kernels::Runnable();
  return runnable.tables[runnable.count - 1]->dequantize[dtype];
}

void ReadRows(const Site& site, std::uint64_t row, std::uint64_t n, float* dst, std::uint64_t ld) {
  if (site.shape_class != SiteClass::kVector) return ReadStoredRows(site.stored(), site.in, row, n, dst, ld);
  const auto widen = Dequantizer(site.weight.dtype);
  const std::uint64_t size = InfoOf(site.weight.dtype).block_bytes;
  for (std::uint64_t lane = 0; lane < site.out; ++lane)
    widen(site.weight.bytes.data() + site.row_order.StoredRow(lane) * size, dst + lane, 1);
}

void RowPointers(const StoredWeight& weight, std::uint64_t width, std::uint64_t row_bytes, std::uint64_t lane, std::uint64_t n,
                 const void** rows, kernels::ScaledRow* slots) {
  constexpr std::uint64_t kAtOnce = 64;
  std::array<std::uint64_t, kAtOnce> stored;
  for (std::uint64_t first = 0; first < n; first += kAtOnce) {
    const std::uint64_t count = std::min(kAtOnce, n - first);
    weight.order.StoredRows(lane + first, count, stored.data());
    for (std::uint64_t i = 0; i < count; ++i) rows[first + i] = weight.data + stored[i] * row_bytes;
    if (weight.scales == nullptr) continue;
    for (std::uint64_t i = 0; i < count; ++i) {
      slots[first + i] = {rows[first + i], stored[i], stored[i] * width, weight.scales};
      rows[first + i] = &slots[first + i];
    }
  }
}

void ReadStoredRows(const StoredWeight& weight, std::uint64_t width, std::uint64_t row, std::uint64_t n, float* dst, std::uint64_t ld) {
  const auto dequantize = Dequantizer(weight.dtype);
  const std::uint64_t row_bytes = RowBytes(weight.dtype, width);
  const void* stored;
  kernels::ScaledRow slot;
  for (std::uint64_t i = 0; i < n; ++i) {
    RowPointers(weight, width, row_bytes, row + i, 1, &stored, &slot);
    dequantize(stored, dst + i * ld, width);
  }
}

}  // namespace veneer
