// The matrix R of a residual as it lies in memory: one copy, rows in a type that the kernels read.
//
//   weight [out, in] F32, F16 or BF16    the stored bytes
//   q8 [out, in] I8 and scale [out, in / 32] F16    blocks of 32 columns with their scale in front (VNR_Q8_0): one stream
//                                        instead of two, and the same number of bytes. A value is scale * q8, exact in f32:
//                                        11 bits by 8
#ifndef VENEER_PLUGINS_RESIDUAL_MATRIX_H_
#define VENEER_PLUGINS_RESIDUAL_MATRIX_H_

#include <cstdint>

#include "veneer/overlay.hpp"

namespace veneer_residual {

class Matrix {
 public:
  static constexpr std::uint64_t kBlock = 32;  // columns that share a scale

  // Notes form and shape. Throws INVALID unless exactly one form is there, whole, and its scales fit. True when an element is not zero.
  bool Bind(const vnr_site& site, const veneer::source& source);
  void Stage(const veneer::stager& stager);

  [[nodiscard]] std::uint32_t type() const { return type_; }  // VNR_F32, VNR_F16, VNR_BF16, VNR_Q8_0
  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  [[nodiscard]] std::uint64_t columns() const { return columns_; }
  [[nodiscard]] std::uint64_t row_bytes() const;
  [[nodiscard]] std::uint64_t bytes() const { return rows_ * row_bytes(); }
  // The first column is a multiple of kBlock in VNR_Q8_0.
  [[nodiscard]] const void* at(std::uint64_t row, std::uint64_t first_column) const;
  // In f64 and without the kernels.
  [[nodiscard]] double value(std::uint64_t row, std::uint64_t column) const;

 private:
  std::uint32_t type_ = VNR_BF16;
  std::uint64_t rows_ = 0, columns_ = 0;
  veneer::buf<unsigned char> bytes_;
};

}  // namespace veneer_residual

#endif  // VENEER_PLUGINS_RESIDUAL_MATRIX_H_
