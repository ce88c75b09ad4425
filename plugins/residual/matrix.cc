#include "plugins/residual/matrix.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/quant_blocks.h"

namespace veneer_residual {
namespace {

using Block = veneer::kernels::BlockQ8_0;
static_assert(sizeof(Block::qs) == Matrix::kBlock);

constexpr std::uint64_t kPollRows = 256;

bool IsZero(const vnr_tensor& q8, const vnr_tensor& scale) {
  const auto* q = static_cast<const unsigned char*>(q8.data);
  const std::uint64_t n = veneer::element_count(scale);
  for (std::uint64_t i = 0; i < n; i++) {
    if (veneer::element(scale, i) == 0) continue;
    const unsigned char* block = q + i * Matrix::kBlock;
    if (std::any_of(block, block + Matrix::kBlock, [](unsigned char byte) { return byte != 0; })) return false;
  }
  return true;
}

[[noreturn]] void Refuse(const std::string& found) {
  throw veneer::error{VNR_E_INVALID, found + "; give either weight [out, in], or q8 [out, in] with scale [out, in / 32]"};
}

}  // namespace

bool Matrix::Bind(const vnr_site& site, const veneer::source& source) {
  rows_ = site.out;
  columns_ = site.in;
  const vnr_tensor *weight = source.find("weight"), *q8 = source.find("q8"), *scale = source.find("scale");
  if (weight != nullptr && (q8 != nullptr || scale != nullptr)) Refuse(std::string("has weight and ") + (q8 != nullptr ? "q8" : "scale"));
  if (weight != nullptr) {
    type_ = weight->dtype;
    return !veneer::is_zero(*weight);
  }
  if (q8 == nullptr && scale == nullptr) Refuse("has neither weight nor q8");
  if (q8 == nullptr) Refuse("has scale without q8");
  if (scale == nullptr) Refuse("has q8 without scale");
  type_ = VNR_Q8_0;
  if (columns_ % kBlock != 0)
    throw veneer::error{VNR_E_INVALID, "q8 has " + std::to_string(columns_) +
                                           " columns, no multiple of the 32 that share a scale; store this site as weight in bf16"};
  if (scale->dims[1] != columns_ / kBlock)
    throw veneer::error{VNR_E_INVALID, "scale has " + std::to_string(scale->dims[1]) + " columns, q8 with " + std::to_string(columns_) +
                                           " needs " + std::to_string(columns_ / kBlock) + ", one for 32"};
  return !IsZero(*q8, *scale);
}

void Matrix::Stage(const veneer::stager& stager) {
  if (type_ != VNR_Q8_0) {
    bytes_ = stager.copy("weight");
    return;
  }
  const auto* q = static_cast<const unsigned char*>(stager.get("q8").data);
  const auto* scale = static_cast<const unsigned char*>(stager.get("scale").data);
  bytes_ = stager.alloc<unsigned char>(bytes());
  const std::uint64_t blocks = columns_ / kBlock;
  for (std::uint64_t row = 0; row < rows_; row++) {
    if (row % kPollRows == 0) stager.poll();
    for (std::uint64_t b = row * blocks; b < (row + 1) * blocks; b++) {
      unsigned char* to = &bytes_[b * sizeof(Block)];
      std::memcpy(to + offsetof(Block, d), scale + b * sizeof(Block::d), sizeof(Block::d));
      std::memcpy(to + offsetof(Block, qs), q + b * kBlock, kBlock);
    }
  }
}

std::uint64_t Matrix::row_bytes() const {
  return type_ == VNR_Q8_0 ? columns_ / kBlock * sizeof(Block) : columns_ * veneer::size_of_type(type_);
}

const void* Matrix::at(std::uint64_t row, std::uint64_t first_column) const {
  const std::uint64_t offset =
      type_ == VNR_Q8_0 ? first_column / kBlock * sizeof(Block) : first_column * (type_ == VNR_F32 ? sizeof(float) : sizeof(std::uint16_t));
  return bytes_.data() + row * row_bytes() + offset;
}

double Matrix::value(std::uint64_t row, std::uint64_t column) const {
  if (type_ != VNR_Q8_0) {
    vnr_tensor view{};
    view.dtype = type_;
    view.data = bytes_.data();
    return static_cast<double>(veneer::element(view, row * columns_ + column));
  }
  Block block;
  std::memcpy(&block, at(row, column), sizeof block);
  std::uint16_t d;
  std::memcpy(&d, &block.d, sizeof d);
  return static_cast<double>(veneer::from_f16(d)) * static_cast<double>(block.qs[column % kBlock]);
}

}  // namespace veneer_residual
