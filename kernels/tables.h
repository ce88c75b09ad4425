// Internal: what the instruction sets hand to dispatch.cc, and what their per-type files hand to their table.cc.
#ifndef VENEER_KERNELS_TABLES_H_
#define VENEER_KERNELS_TABLES_H_

#include "kernels/kernels.h"

namespace veneer::kernels {

// The kernels of one stored type. dot_rows_q8 is nullptr for types that fast mode multiplies with f32 activations.
struct TypeKernels {
  Table::Dequantize dequantize;
  Table::DotRows dot_rows;
  Table::DotRowsQ8 dot_rows_q8;
  Table::MultiplyTile multiply_tile = nullptr;
};

inline void SetType(Table& table, int type, const TypeKernels& kernels) {
  table.dequantize[type] = kernels.dequantize;
  table.dot_rows[type] = kernels.dot_rows;
  table.dot_rows_q8[type] = kernels.dot_rows_q8;
  table.multiply_tile[type] = kernels.multiply_tile;
}

const Table& ScalarTable() noexcept;

// On x86-64 only.
const Table& Avx2Table() noexcept;    // needs AVX2, FMA, F16C and an operating system that saves YMM state
const Table& Avx512Table() noexcept;  // needs that, AVX512F, BW, DQ, VL and VNNI, and an operating system that saves ZMM and mask state

}  // namespace veneer::kernels

#endif  // VENEER_KERNELS_TABLES_H_
