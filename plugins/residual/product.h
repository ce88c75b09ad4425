// R x for several tokens in fast mode, one tile of rows: chunks of columns become an f32 tile in the thread's scratch, and oneDNN adds
// their products.
//
// Measured against the kernels' dot_rows (one thread, us for 104 rows, R from memory; oneDNN 2.6.3):
//   columns            256    512    768   1024   2048   4096   5632   11008
//   bf16, 32 tokens
//     dot_rows          40     75    103    104    192    369    605    1214
//     oneDNN            23     49     65     78    150    311    454     893
//   bf16, 24 tokens
//     dot_rows          31     60     79     72    140    302    410     915
//     oneDNN            20     44     57     75    137    298    390     771
//   8-bit, 32 tokens
//     dot_rows          41     73    108     89    174    378    608    1166
//     oneDNN            22     45     59     79    142    282    454     841
// With 8 or 16 tokens it wins below 1024 columns only, by a tenth to a fifth. Tiles of 13, 26 or 52 rows, or tokens cut into 8 or 16, lose
// up to five times; a tile whose rows are a multiple of 512 bytes apart loses a tenth to a quarter.
#ifndef VENEER_PLUGINS_RESIDUAL_PRODUCT_H_
#define VENEER_PLUGINS_RESIDUAL_PRODUCT_H_

#include <cstdint>
#include <memory>

#include "kernels/kernels.h"
#include "plugins/residual/matrix.h"

namespace veneer_residual {

class Product {
 public:
  static constexpr std::uint64_t kRows = 104;   // of one call; a tile of the host, or a part of it
  static constexpr std::uint32_t kTokens = 24;  // at least

  static bool IsFaster(std::uint64_t columns, std::uint32_t max_tokens);  // false without oneDNN
  static std::uint64_t OpaqueBytes(std::uint64_t columns);

  Product();
  ~Product();
  // While staging. False when oneDNN refuses.
  bool Create(std::uint64_t columns);
  [[nodiscard]] std::uint64_t scratch_bytes() const;  // a multiple of 64
  // sums[t * sums_stride + r] = sum_i R[first_row + r, i] x[t, i] for kRows rows. False when oneDNN fails: sums are undefined then.
  [[nodiscard]] bool Run(const Matrix& matrix, std::uint64_t first_row, veneer::kernels::Table::Dequantize dequantize, const float* x,
                         std::uint64_t x_stride, std::uint32_t tokens, float* sums, std::uint64_t sums_stride, void* scratch) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace veneer_residual

#endif  // VENEER_PLUGINS_RESIDUAL_PRODUCT_H_
