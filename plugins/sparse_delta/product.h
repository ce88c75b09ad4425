// The product of a sparse matrix in rows: y[t, lane] += scale * sum_e value[e] * x[t, column[e]], e over the entries of row `lane`.
//
// Order: entry k of a row (from 0) goes to partial sum k mod 4, each partial starts at +0 and takes its entries in ascending order, one
// fused multiply-add each; sum = (p0 + p2) + (p1 + p3); y = fma(scale, sum, y). A row without entries leaves y alone. The order does not
// depend on the range of lanes, the number of tokens or the instruction set, so neither do the bits.
//
// Several tokens share the reading of an entry when one load gives the x of all of them. So AVX2 prepares x once a site: of 16 tokens (then
// of 8, the rest one by one) column c lies together, see TransposeCall. Measured (tests/bench/sparse_bench.cc; one thread, 2048 x 5632, f32
// values, us of one product with its preparation, one core of an AMD EPYC of family 26, other processes running):
//   tokens                 1     8    32    128     512
//   0.1 %, together      6.5    18    64    416    5046
//   0.1 %, one by one           57   239   1659   24992
//   1 %, together         31    91   281   1674   22288
//   1 %, one by one            264  1212   5641   46139
// Repeating one matrix lets the processor learn how long its rows are; within a decoder it cannot, so for one token the first four entries
// of a row are taken without a branch: of a Q4_0 base of 1.1 B with 0.1 % on all sites that was half of the overlay's time. One token by
// gathers of four instead of four loads: 8.6 (0.1 %), 63 (1 %). A prefetch of later entries wins a sixth at 512 tokens of 0.1 % and loses
// as much at 32 of 1 %, so there is none.
#ifndef VENEER_PLUGINS_SPARSE_DELTA_PRODUCT_H_
#define VENEER_PLUGINS_SPARSE_DELTA_PRODUCT_H_

#include <cstdint>

namespace veneer_sparse_delta {

inline constexpr std::uint64_t kGroup = 8;          // lanes written together
inline constexpr std::uint64_t kPartials = 4;       // partial sums of a row
inline constexpr std::uint64_t kPad = kPartials;    // entries that can be read behind the last: column 0, value 0
inline constexpr std::uint32_t kTokens = 16;        // whose x are laid together
inline constexpr std::uint64_t kMaxNarrow = 65536;  // columns that u16 can count

struct ProductCall {
  const std::uint32_t* row_ptr;  // [lanes + 1]
  const void* columns;           // u16 or u32 [entries + kPad]
  const void* values;            // f32, f16 or bf16 [entries + kPad]
  float scale;
  const float* x;  // token i begins at x + i * x_stride
  std::uint64_t x_stride;
  const unsigned char* prepared;  // by Transpose, for the same tokens; unused without it
  std::uint64_t prepared_stride;  // bytes
  float* y;                       // y[i * y_stride + lane]
  std::uint64_t y_stride;
  std::uint32_t tokens;
  std::uint64_t lane0, lane1;  // lane0 is a multiple of kGroup
};
using Product = void (*)(const ProductCall& call);

// x of a group of g tokens (g = 16, then 8 at most once), turned: the g floats of column c begin at byte c / g * g * 4 of the prepared
// memory of token c mod g of the group. So every token's own memory is used, which need not lie beside that of the next token.
struct TransposeCall {
  const float* x;
  std::uint64_t x_stride, columns;
  std::uint32_t tokens;
  unsigned char* prepared;
  std::uint64_t prepared_stride;  // bytes
};
using Transpose = void (*)(const TransposeCall& call);
constexpr std::uint64_t PreparedBytes(std::uint64_t columns) { return (columns + kTokens - 1) / kTokens * kTokens * sizeof(float); }

struct Kernels {
  Product product;
  Transpose transpose;  // nullptr: the product reads x itself
};
// For values stored as `dtype` (VNR_F32, VNR_F16, VNR_BF16) and u16 or u32 columns, for a CPU of which `cpu_features` (VNR_CPU_*) may be
// used.
Kernels SelectKernels(std::uint32_t dtype, bool has_wide_columns, std::uint64_t cpu_features);

namespace scalar {
Product ProductOf(std::uint32_t dtype, bool has_wide_columns);
}  // namespace scalar
namespace avx2 {
Product ProductOf(std::uint32_t dtype, bool has_wide_columns);
void TransposeX(const TransposeCall& call);
}  // namespace avx2

}  // namespace veneer_sparse_delta

#endif  // VENEER_PLUGINS_SPARSE_DELTA_PRODUCT_H_
