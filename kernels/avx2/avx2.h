// Internal: everything that avx2/table.cc lists. Contracts are in kernels/kernels.h; results are those of scalar/, bit for bit.
#ifndef VENEER_KERNELS_AVX2_AVX2_H_
#define VENEER_KERNELS_AVX2_AVX2_H_

#include <cstdint>

#include "kernels/tables.h"

namespace veneer::kernels::avx2 {

extern const TypeKernels kF32, kF16, kBF16;           // floats.cc
extern const TypeKernels kQ4_0, kQ4_1, kQ5_0, kQ5_1;  // nibbles.cc
extern const TypeKernels kQ8_0;                       // q8_0.cc
extern const TypeKernels kQ2_K;                       // q2_k.cc
extern const TypeKernels kQ3_K;                       // q3_k.cc
extern const TypeKernels kQ4_K, kQ5_K;                // q4_k.cc
extern const TypeKernels kQ6_K;                       // q6_k.cc
extern const TypeKernels kIq4Nl;                      // iq4_nl.cc
extern const TypeKernels kNf4, kInt8Row;              // bitsandbytes.cc

void QuantizeActivations(const float* x, std::uint64_t n, std::int8_t* q, float* d, std::int32_t* sum);                // quantize.cc
void ToQ8_0(const float* x, void* out, std::uint64_t n);                                                               // quantize.cc
void PackActivations(const QuantizedActivations& x, std::uint32_t tokens, std::uint64_t blocks, PackedBlock* packed);  // tile.cc

// vectors.cc
float Dot(const float* a, const float* b, std::uint64_t n);
float DotF16(const float* a, const std::uint16_t* b, std::uint64_t n);
void Axpy(float scale, const float* x, float* y, std::uint64_t n);
void AxpyF16(float scale, const std::uint16_t* x, float* y, std::uint64_t n);
void AxpyRows(const Table::RowSum& sum);
void AxpyRowsF16(const Table::RowSum& sum);
void AxpyRowsQ8_0(const Table::RowSum& sum);
void Mul(const float* a, const float* b, float* out, std::uint64_t n);
void Add(const float* a, float* y, std::uint64_t n);
void ToF16(const float* x, std::uint16_t* out, std::uint64_t n);

// layers.cc
void RmsNorm(const float* x, const float* weight, float epsilon, std::uint64_t n, float* out);
void Exp(const float* x, float* out, std::uint64_t n);
void SiluMul(const float* gate, const float* up, float* out, std::uint64_t n);
void Softmax(float* x, std::uint64_t n);
void Rope(float* head, const float* cos, const float* sin, std::uint64_t head_dim);

}  // namespace veneer::kernels::avx2

#endif  // VENEER_KERNELS_AVX2_AVX2_H_
