#include "kernels/avx512/avx512.h"
#include "kernels/tables.h"
#include "veneer/abi.h"

namespace veneer::kernels {
namespace {

void Replace(Table& table, int type, const avx512::Q8Kernels& kernels) {
  table.dot_rows_q8[type] = kernels.dot_rows_q8;
  table.multiply_tile[type] = kernels.multiply_tile;
}

// Integer products gain from VNNI, those of floats for several tokens from wide vectors; all else is the AVX2 table's.
Table Make() {
  using namespace avx512;  // NOLINT: this function only lists its members
  Table table = Avx2Table();
  table.isa = "avx512";
  Replace(table, VNR_Q4_0, kQ4_0);
  Replace(table, VNR_Q4_1, kQ4_1);
  Replace(table, VNR_Q5_0, kQ5_0);
  Replace(table, VNR_Q5_1, kQ5_1);
  Replace(table, VNR_Q8_0, kQ8_0);
  Replace(table, VNR_Q2_K, kQ2_K);
  Replace(table, VNR_Q3_K, kQ3_K);
  Replace(table, VNR_Q4_K, kQ4_K);
  Replace(table, VNR_Q5_K, kQ5_K);
  Replace(table, VNR_Q6_K, kQ6_K);
  Replace(table, VNR_IQ4_NL, kIq4Nl);
  table.dot_rows[VNR_F32] = kDotRowsF32;
  table.dot_rows[VNR_F16] = kDotRowsF16;
  table.dot_rows[VNR_BF16] = kDotRowsBF16;
  table.pack_activations = PackActivations;
  return table;
}

}  // namespace

const Table& Avx512Table() noexcept {
  static const Table table = Make();
  return table;
}

}  // namespace veneer::kernels
