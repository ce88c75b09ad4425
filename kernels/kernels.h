// The compute kernels behind one table of plain function pointers per instruction set. Scalar is the reference; every other
// table gives the same results under the rules written at each member. Kernels know nothing of models, files or overlays.
//
// Conventions: row-major; `rows[r]` points at the stored bytes of one weight row of `cols` elements (cols is a multiple of the
// type's block), or for types with scales in other tensors at a ScaledRow (kernels/scaled_rows.h); strides count elements; tensors and
// outputs do not overlap unless a member says so. Stored rows may start at any byte; f32 and half vectors need no alignment beyond that of
// their element. No kernel allocates, locks or calls the operating system; all of them expect the default rounding mode with subnormals on.
// Every (row, token) result has one order of operations, which does not depend on n_rows, tokens, strides or alignment. NaN payloads and
// signs are outside every promise of equal bits.
#ifndef VENEER_KERNELS_KERNELS_H_
#define VENEER_KERNELS_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "veneer/abi.h"

namespace veneer::kernels {

inline constexpr std::uint32_t kTypes = 32;  // size of the per-type arrays, indexed by VNR_F32 ... VNR_INT8_ROW
inline constexpr std::uint64_t kActivationBlock = 32;

// Activations of `fast` mode: blocks of 32 int8 with one f32 scale, x[i] ~ d[i / 32] * q[i]; sum[b] = sum of q over block b.
// cols is padded to a multiple of 32 with zeros. Token t begins at q + t * q_stride, d + t * block_stride, sum + t * block_stride.
struct QuantizedActivations {
  const std::int8_t* q;
  const float* d;
  const std::int32_t* sum;
  std::uint64_t q_stride, block_stride;
};

// Quantized activations of four tokens, as tiles read them: 32 columns, three cache lines, all in the order of use. A tile multiplies four
// columns a step. Which ones is the table's own choice, so multiply with the table that packed. Two of each half of the block make a sum of
// 16-bit pairs the sum over a half, which types may scale; where products of four columns are one sum, neighbours do.
inline constexpr std::uint32_t kPackedTokens = 4;
struct alignas(64) PackedBlock {
  std::int8_t q[8][kPackedTokens][4];          // q[j][t]: columns 2j, 2j + 1, 16 + 2j, 17 + 2j; avx512: 4j .. 4j + 3
  float d[kPackedTokens];                      // as in QuantizedActivations
  std::int32_t sum[kPackedTokens];             // of all 32 q
  std::int16_t half[kPackedTokens][2];         // columns 0..15; 16..31
  std::int16_t first_steps[kPackedTokens][2];  // columns 0..7; 16..23: what steps j < 4 take of each half
};
static_assert(sizeof(PackedBlock) == 192);

// Scratch of multiply_tile, aligned to 64: weights unpacked to bytes, which should stay in the L2 cache.
inline constexpr std::uint64_t kTileScratchBytes = 208 * 1024;

struct Table {
  const char* isa;  // "scalar", "avx2", "avx512"

  // dst[i] = value of element i, f32, n a multiple of the block. Bit-equal across ISAs.
  using Dequantize = void (*)(const void* src, float* dst, std::uint64_t n);
  Dequantize dequantize[kTypes];

  // y[t * y_stride + r] = sum_i W[r, i] * x[t * x_stride + i]; exact mode. Weights are dequantized in registers to the very values
  // of `dequantize`; the sum runs over 32 interleaved f32 lanes with fused multiply-adds, element i in lane i mod 32, then a fixed
  // tree. Bit-equal across ISAs.
  using DotRows = void (*)(const void* const* rows, std::uint32_t n_rows, std::uint64_t cols, const float* x, std::uint64_t x_stride,
                           std::uint32_t tokens, float* y, std::uint64_t y_stride);
  DotRows dot_rows[kTypes];

  // The same product from quantized activations; fast mode. Exact integers inside an activation block of 32, then in block order
  //   total = fma(integer sum, d_w * d_x, total), and for types with a minimum m also total = fma(sum_x, m_w * d_x, total).
  // Superblocks of 256: scales inside it are integers and part of the integer sum; the minimum is fma(integer sum of min x, -(dmin * d_x)).
  // Bit-equal across ISAs. Rows are read as several streams: a call with (n_rows / 8) odd keeps them off one another's cache sets.
  // nullptr for types that fast mode multiplies with f32 activations (F32, F16, BF16, NF4, int8 rows).
  using DotRowsQ8 = void (*)(const void* const* rows, std::uint32_t n_rows, std::uint64_t cols, const QuantizedActivations& x,
                             std::uint32_t tokens, float* y, std::uint64_t y_stride);
  DotRowsQ8 dot_rows_q8[kTypes];

  // The values of dot_rows_q8, bit for bit, for many tokens: rows are unpacked once for all of them. Worth it from four tokens on or later
  // (README). Tokens 4g .. 4g + 3 lie at x + g * x_stride, cols / 32 packed blocks each. Best with a multiple of 64 rows. nullptr: use
  // dot_rows_q8.
  using MultiplyTile = void (*)(const void* const* rows, std::uint32_t n_rows, std::uint64_t cols, const PackedBlock* x,
                                std::uint64_t x_stride, std::uint32_t tokens, void* scratch, float* y, std::uint64_t y_stride);
  MultiplyTile multiply_tile[kTypes];

  // One token: q [round_up(n, 32)], d and sum [round_up(n, 32) / 32]. d = max|x| / 127, q = x / d to the nearest, ties to even; a block
  // whose d would be zero or subnormal has d = 0, q = 0; a block with an infinity or a NaN has d = NaN, q = 0. Bit-equal across ISAs.
  void (*quantize_activations)(const float* x, std::uint64_t n, std::int8_t* q, float* d, std::int32_t* sum);

  // `blocks` blocks of at most kPackedTokens tokens; those that lack become zeros.
  void (*pack_activations)(const QuantizedActivations& x, std::uint32_t tokens, std::uint64_t blocks, PackedBlock* packed);

  // The rest is bit-equal across ISAs too. Errors: kernels/README.md.
  // sum_i a[i] * b[i] in the order of dot_rows.
  float (*dot)(const float* a, const float* b, std::uint64_t n);
  float (*dot_f16)(const float* a, const std::uint16_t* b, std::uint64_t n);  // b: IEEE half
  void (*axpy)(float scale, const float* x, float* y, std::uint64_t n);       // y += scale * x, one FMA each
  void (*axpy_f16)(float scale, const std::uint16_t* x, float* y, std::uint64_t n);
  // y_t += w[t * w_stride + r] * row r for every y_t = y + t * y_stride of n elements, in ascending r: the bits of axpy row by row, but a
  // row is read once for several y.
  struct RowSum {
    const void* rows;  // row r at byte r * row_bytes
    std::uint64_t row_bytes, n_rows, n;
    const float* w;
    std::uint64_t w_stride;
    float* y;
    std::uint64_t y_stride;
    std::uint32_t n_y;
  };
  void (*axpy_rows)(const RowSum& sum);                                      // rows of f32
  void (*axpy_rows_f16)(const RowSum& sum);                                  // rows of half
  void (*axpy_rows_q8_0)(const RowSum& sum);                                 // rows of Q8_0, n a multiple of 32: axpy of their values
  void (*mul)(const float* a, const float* b, float* out, std::uint64_t n);  // out may be a
  void (*add)(const float* a, float* y, std::uint64_t n);                    // y += a
  void (*to_f16)(const float* x, std::uint16_t* out, std::uint64_t n);       // round to nearest even
  // n / 32 blocks of Q8_0 at any address: d the smallest half not below max|x| / 127, q = x / d to the nearest, ties to even. A block of
  // zeros has d = 0; one with an infinity, a NaN or more than a half scale can hold has d = NaN, q = 0.
  void (*to_q8_0)(const float* x, void* out, std::uint64_t n);
  void (*rms_norm)(const float* x, const float* weight, float epsilon, std::uint64_t n, float* out);
  void (*silu_mul)(const float* gate, const float* up, float* out, std::uint64_t n);  // out = gate / (1 + exp(-gate)) * up
  void (*softmax)(float* x, std::uint64_t n);                                         // in place, max subtracted
  // Rotate-half RoPE in Hugging Face order on one head: pairs (i, i + head_dim/2); cos and sin [head_dim / 2].
  void (*rope)(float* head, const float* cos, const float* sin, std::uint64_t head_dim);
  void (*exp)(const float* x, float* out, std::uint64_t n);  // within 1.03 ulp; out may be x
};

// Tables this CPU can run, best first; the last is always "scalar".
struct TableList {
  const Table* const* tables;
  std::size_t count;
};
TableList Runnable();

// The best runnable table, or the one that the environment variable VENEER_FORCE_ISA names (empty: as unset). nullptr when that name is
// unknown or not runnable here: the caller reports it.
const Table* Select();

// What the AVX2 tables, and code of plugins that is compiled like them, need of a host's permission (vnr_host.cpu_features).
inline constexpr std::uint64_t kAvx2Features = VNR_CPU_AVX2 | VNR_CPU_FMA | VNR_CPU_F16C;
inline bool PermitsAvx2(std::uint64_t cpu_features) { return (cpu_features & kAvx2Features) == kAvx2Features; }
// The best runnable table that such a permission covers; "avx512" also takes VNR_CPU_AVX512.
const Table* Permitted(std::uint64_t cpu_features);

// Exact IEEE conversions, for code outside hot loops.
float HalfToFloat(std::uint16_t half);
std::uint16_t FloatToHalf(float value);
inline float Bf16ToFloat(std::uint16_t value) {
  const std::uint32_t bits = static_cast<std::uint32_t>(value) << 16;
  float result;
  __builtin_memcpy(&result, &bits, sizeof result);
  return result;
}

}  // namespace veneer::kernels

#endif  // VENEER_KERNELS_KERNELS_H_
