// Weights whose scales lie in tensors of their own: bitsandbytes NF4 and LLM.int8 (source: its functional.py and nn/modules.py). For
// these types, VNR_NF4 and VNR_INT8_ROW, `rows[r]` of a product and `src` of `dequantize` point at a ScaledRow instead of stored bytes.
// The stored tensors may start at any byte. `cols` is a multiple of 32, so that 32 elements from a multiple of 32 lie in one block.
#ifndef VENEER_KERNELS_SCALED_ROWS_H_
#define VENEER_KERNELS_SCALED_ROWS_H_

#include <cstdint>

namespace veneer::kernels {

// Of one matrix; the pointers lead into the file's own bytes.
struct WeightScales {
  // VNR_INT8_ROW: w = (q * row_scales[row]) * kPerStep, rounded after each product; f32 [out].
  const void* row_scales = nullptr;

  // VNR_NF4: element k of the flat array [out * in] is the nibble k mod 2 of byte k / 2, the high one first;
  // w = map[nibble] * absmax of block k >> block_shift. Blocks do not end where rows end.
  float map[16] = {};
  unsigned block_shift = 0;
  const void* absmax = nullptr;  // per block: f32, or when nested a byte
  // Nested: absmax = nested_map[byte] * nested_absmax[block >> nested_shift] + nested_offset, rounded after each step.
  bool is_nested = false;
  float nested_map[256] = {};
  unsigned nested_shift = 0;
  const void* nested_absmax = nullptr;  // f32
  float nested_offset = 0;
};

struct ScaledRow {
  const void* data;     // of the row's first element
  std::uint64_t row;    // in the stored matrix
  std::uint64_t first;  // flat index of its first element: row * cols
  const WeightScales* scales;
};

inline constexpr float kPerStep = 7.874015718698502e-3f;  // 1 / 127 as bitsandbytes writes it

// Always inlined: an ISA object must hold no function that another object could share.
static inline __attribute__((always_inline)) float StoredFloat(const void* array, std::uint64_t i) {
  float value;
  __builtin_memcpy(&value, static_cast<const std::uint8_t*>(array) + i * sizeof value, sizeof value);
  return value;
}

// absmax of the block that elements 32 b .. 32 b + 31 of an NF4 row lie in.
static inline __attribute__((always_inline)) float BlockAbsmax(const ScaledRow& row, std::uint64_t b) {
  const WeightScales& scales = *row.scales;
  const std::uint64_t block = (row.first + 32 * b) >> scales.block_shift;
  if (!scales.is_nested) return StoredFloat(scales.absmax, block);
  const float product = scales.nested_map[static_cast<const std::uint8_t*>(scales.absmax)[block]] *
                        StoredFloat(scales.nested_absmax, block >> scales.nested_shift);
  return product + scales.nested_offset;
}

}  // namespace veneer::kernels

#endif  // VENEER_KERNELS_SCALED_ROWS_H_
