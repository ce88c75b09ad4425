#include "plugins/sparse_delta/indices.h"

#include <cmath>
#include <cstring>

#include "plugins/sparse_delta/text.h"

namespace veneer_sparse_delta {
namespace {

constexpr double kExact = 16777216;  // 2^24

template <class T>
T Read(const unsigned char* data, uint64_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

Indices::Indices(const vnr_tensor& tensor, const char* role, uint64_t row)
    : data_(static_cast<const unsigned char*>(tensor.data)), dtype_(tensor.dtype), prefix_(role) {
  if (tensor.rank < 2 || tensor.dims[1] == 0) return;
  data_ += row * tensor.dims[1] * veneer::size_of_type(dtype_);
  prefix_ += "[" + std::to_string(row) + "]";
}

std::string Indices::Name(uint64_t i) const { return prefix_ + "[" + std::to_string(i) + "]"; }

double Indices::Real(uint64_t i) const { return static_cast<double>(Read<float>(data_, i)); }

int64_t Indices::Whole(uint64_t i) const {
  switch (dtype_) {
    case VNR_I32:
      return Read<int32_t>(data_, i);
    case VNR_U32:
      return Read<uint32_t>(data_, i);
    case VNR_I64:
      return Read<int64_t>(data_, i);
    default:
      return static_cast<int64_t>(Real(i));
  }
}

uint64_t Indices::at(uint64_t i, uint64_t limit, const char* what) const {
  if (dtype_ == VNR_F32) {
    const double real = Real(i);
    if (!(std::abs(real) < kExact) || real != std::floor(real))
      throw veneer::error{VNR_E_INVALID, Name(i) + " is " + NumberText(real) +
                                             " in f32, allowed whole numbers below 16777216, beyond which f32 is not exact; store i32"};
  }
  const int64_t whole = Whole(i);
  if (whole < 0 || static_cast<uint64_t>(whole) >= limit)
    throw veneer::error{VNR_E_INVALID,
                        Name(i) + " is " + std::to_string(whole) + ", allowed 0 to " + std::to_string(limit - 1) + " (" + what + ")"};
  return static_cast<uint64_t>(whole);
}

}  // namespace veneer_sparse_delta
