// Internal: what avx512/table.cc puts in place of the AVX2 table's entries. Contracts are in kernels/kernels.h; results are those of
// scalar/, bit for bit.
#ifndef VENEER_KERNELS_AVX512_AVX512_H_
#define VENEER_KERNELS_AVX512_AVX512_H_

#include <cstdint>

#include "kernels/kernels.h"

namespace veneer::kernels::avx512 {

// The kernels of quantized activations; what else a type has is AVX2's.
struct Q8Kernels {
  Table::DotRowsQ8 dot_rows_q8;
  Table::MultiplyTile multiply_tile;
};

extern const Q8Kernels kQ4_0, kQ4_1, kQ5_0, kQ5_1, kIq4Nl;  // nibbles.cc
extern const Q8Kernels kQ8_0;                               // q8_0.cc
extern const Q8Kernels kQ4_K, kQ5_K;                        // q4_k.cc
extern const Q8Kernels kQ2_K, kQ3_K, kQ6_K;                 // sixteens.cc

extern const Table::DotRows kDotRowsF32, kDotRowsF16, kDotRowsBF16;  // floats.cc

void PackActivations(const QuantizedActivations& x, std::uint32_t tokens, std::uint64_t blocks, PackedBlock* packed);  // tile.cc

}  // namespace veneer::kernels::avx512

#endif  // VENEER_KERNELS_AVX512_AVX512_H_
