#include "kernels/avx2/avx2.h"
#include "kernels/tables.h"
#include "veneer/abi.h"

namespace veneer::kernels {
namespace {

Table Make() {
  using namespace avx2;  // NOLINT: this function only lists its members
  Table table = {};
  table.isa = "avx2";
  SetType(table, VNR_F32, kF32);
  SetType(table, VNR_F16, kF16);
  SetType(table, VNR_BF16, kBF16);
  SetType(table, VNR_Q4_0, kQ4_0);
  SetType(table, VNR_Q4_1, kQ4_1);
  SetType(table, VNR_Q5_0, kQ5_0);
  SetType(table, VNR_Q5_1, kQ5_1);
  SetType(table, VNR_Q8_0, kQ8_0);
  SetType(table, VNR_Q2_K, kQ2_K);
  SetType(table, VNR_Q3_K, kQ3_K);
  SetType(table, VNR_Q4_K, kQ4_K);
  SetType(table, VNR_Q5_K, kQ5_K);
  SetType(table, VNR_Q6_K, kQ6_K);
  SetType(table, VNR_IQ4_NL, kIq4Nl);
  SetType(table, VNR_NF4, kNf4);
  SetType(table, VNR_INT8_ROW, kInt8Row);
  table.quantize_activations = QuantizeActivations;
  table.pack_activations = PackActivations;
  table.dot = Dot;
  table.dot_f16 = DotF16;
  table.axpy = Axpy;
  table.axpy_f16 = AxpyF16;
  table.axpy_rows = AxpyRows;
  table.axpy_rows_f16 = AxpyRowsF16;
  table.axpy_rows_q8_0 = AxpyRowsQ8_0;
  table.mul = Mul;
  table.add = Add;
  table.to_f16 = ToF16;
  table.to_q8_0 = ToQ8_0;
  table.rms_norm = RmsNorm;
  table.silu_mul = SiluMul;
  table.softmax = Softmax;
  table.rope = Rope;
  table.exp = Exp;
  return table;
}

}  // namespace

const Table& Avx2Table() noexcept {
  static const Table table = Make();
  return table;
}

}  // namespace veneer::kernels
