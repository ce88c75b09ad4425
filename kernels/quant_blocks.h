// Stored blocks of quantized weights, byte for byte as a GGUF file holds them (little-endian, no padding, any alignment: every member
// is made of bytes). Source: ggml's block formats. j counts elements within the block; "half" is an IEEE binary16.
#ifndef VENEER_KERNELS_QUANT_BLOCKS_H_
#define VENEER_KERNELS_QUANT_BLOCKS_H_

#include <cstdint>

namespace veneer::kernels {

struct StoredHalf {
  std::uint8_t bytes[2];
};

// y[j] = ((qs[j] & 15) - 8) d, y[j + 16] = ((qs[j] >> 4) - 8) d, j < 16.
struct BlockQ4_0 {
  StoredHalf d;
  std::uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_0) == 18 && alignof(BlockQ4_0) == 1);

// y = q d + m, nibbles as in Q4_0.
struct BlockQ4_1 {
  StoredHalf d, m;
  std::uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_1) == 20 && alignof(BlockQ4_1) == 1);

// Bit j of qh (a little-endian 32-bit word) is the fifth bit of element j; y = (q - 16) d.
struct BlockQ5_0 {
  StoredHalf d;
  std::uint8_t qh[4];
  std::uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_0) == 22 && alignof(BlockQ5_0) == 1);

// Bits as in Q5_0; y = q d + m.
struct BlockQ5_1 {
  StoredHalf d, m;
  std::uint8_t qh[4];
  std::uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_1) == 24 && alignof(BlockQ5_1) == 1);

// y[j] = qs[j] d.
struct BlockQ8_0 {
  StoredHalf d;
  std::int8_t qs[32];
};
static_assert(sizeof(BlockQ8_0) == 34 && alignof(BlockQ8_0) == 1);

// Nibbles as in Q4_0, y = d kIq4NlValues[q].
struct BlockIq4Nl {
  StoredHalf d;
  std::uint8_t qs[16];
};
static_assert(sizeof(BlockIq4Nl) == 18 && alignof(BlockIq4Nl) == 1);
constexpr std::int8_t kIq4NlValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Superblocks of 256 elements. Group g (0..7) holds elements 32 g .. 32 g + 31; h = g / 4, k = g % 4, and l counts within the group.

// s = scales[2 g + l / 16]; y = d (s & 15) (qs[32 h + l] >> 2 k & 3) - dmin (s >> 4).
struct BlockQ2_K {
  std::uint8_t scales[16];
  std::uint8_t qs[64];
  StoredHalf d, dmin;
};
static_assert(sizeof(BlockQ2_K) == 84 && alignof(BlockQ2_K) == 1);

// q = (qs[32 h + l] >> 2 k & 3) + 4 (hmask[l] >> g & 1), y = d (s - 32) (q - 4). Six-bit scale s of n = 2 g + l / 16:
//   low four bits: scales[n % 8], its low half for n < 8, its high half otherwise
//   two high bits: scales[8 + n % 4] >> 2 (n / 4).
struct BlockQ3_K {
  std::uint8_t hmask[32];
  std::uint8_t qs[64];
  std::uint8_t scales[12];
  StoredHalf d;
};
static_assert(sizeof(BlockQ3_K) == 110 && alignof(BlockQ3_K) == 1);

// q = nibble of qs[32 (g / 2) + l], low half for even g; y = d s q - dmin m. Six-bit s and m of group g, with c = scales:
//   g < 4:  s = c[g] & 63,                          m = c[g + 4] & 63
//   g >= 4: s = (c[g + 4] & 15) + (c[g - 4] >> 6) 16, m = (c[g + 4] >> 4) + (c[g] >> 6) 16.
struct BlockQ4_K {
  StoredHalf d, dmin;
  std::uint8_t scales[12];
  std::uint8_t qs[128];
};
static_assert(sizeof(BlockQ4_K) == 144 && alignof(BlockQ4_K) == 1);

// As Q4_K, with q += 16 (qh[l] >> g & 1).
struct BlockQ5_K {
  StoredHalf d, dmin;
  std::uint8_t scales[12];
  std::uint8_t qh[32];
  std::uint8_t qs[128];
};
static_assert(sizeof(BlockQ5_K) == 176 && alignof(BlockQ5_K) == 1);

// Element 32 g + l has
//   low nibble: ql[64 h + 32 (k % 2) + l], its low half for k < 2, its high half otherwise
//   two high bits: qh[32 h + l] >> 2 k
//   y = d scales[2 g + l / 16] (q - 32).
struct BlockQ6_K {
  std::uint8_t ql[128];
  std::uint8_t qh[64];
  std::int8_t scales[16];
  StoredHalf d;
};
static_assert(sizeof(BlockQ6_K) == 210 && alignof(BlockQ6_K) == 1);

}  // namespace veneer::kernels

#endif  // VENEER_KERNELS_QUANT_BLOCKS_H_
