#include "plugins/residual/overlay.h"

#include <algorithm>
#include <cmath>

namespace veneer_residual {
namespace {

constexpr uint64_t kRowsAtOnce = Product::kRows;  // row pointers on the stack; a tile of the host is one call
constexpr uint64_t kChunk = 256;                  // columns of an embedding row at once, a multiple of Matrix::kBlock

constexpr uint64_t SumsBytes(uint32_t tokens) { return (kRowsAtOnce * tokens * sizeof(float) + 63) / 64 * 64; }

const char* NameOf(uint32_t type) { return type == VNR_F32 ? "f32" : type == VNR_F16 ? "f16" : type == VNR_BF16 ? "bf16" : "i8"; }

}  // namespace

void ResidualOverlay::bind(const vnr_site& site, const veneer::source& source) {
  is_embedding_ = site.shape_class == VNR_SITE_EMBEDDING;
  const bool has_elements = matrix_.Bind(site, source);
  strength_ = static_cast<float>(source.strength());
  if (!std::isfinite(strength_)) throw veneer::error{VNR_E_NUMERIC, "the strength is not finite in f32"};
  edits_ = has_elements && strength_ != 0;
}

bool ResidualOverlay::multiplies_by_onednn(const vnr_limits& limits) const {
  return edits_ && !is_embedding_ && limits.min_det == 1 && matrix_.rows() >= Product::kRows &&
         Product::IsFaster(matrix_.columns(), limits.max_token_block);
}

veneer::costs ResidualOverlay::cost(const vnr_site&, const vnr_limits& limits) const {
  veneer::costs cost;
  if (edits_) cost.resident = matrix_.bytes();
  if (multiplies_by_onednn(limits)) cost.opaque = Product::OpaqueBytes(matrix_.columns());
  return cost;
}

veneer::program ResidualOverlay::stage(const veneer::stager& stager) {
  veneer::program program;
  program.flags = edits_ ? uint32_t{VNR_ADDS_Y} : 0U;
  if (!edits_) return program;
  kernels_ = veneer::kernels::Permitted(stager.host->cpu_features);
  matrix_.Stage(stager);
  if (is_embedding_) {
    program.lane_quantum = Matrix::kBlock;
    return program;
  }
  program.thread_scratch_bytes = SumsBytes(stager.limits->max_token_block);
  uses_onednn_ = multiplies_by_onednn(*stager.limits) && product_.Create(matrix_.columns());
  if (uses_onednn_) {
    program.flags |= VNR_ALLOCATES_FOR_TOKENS;
    program.det_level = 1;
    program.thread_scratch_bytes += product_.scratch_bytes();
  }
  return program;
}

void ResidualOverlay::apply(const vnr_site&, const veneer::io& io, uint64_t lane0, uint64_t lane1) const noexcept {
  if (!edits_ || lane0 >= lane1) return;
  is_embedding_ ? AddRows(io, lane0, lane1) : AddProduct(io, lane0, lane1);
}

// The scratch holds sums [tokens][kRowsAtOnce], then what product_ needs.
void ResidualOverlay::AddProduct(const veneer::io& io, uint64_t lane0, uint64_t lane1) const noexcept {
  const void* rows[kRowsAtOnce];
  auto* sums = io.scratch<float>();
  const bool may_use_onednn = uses_onednn_ && io.T() >= Product::kTokens;
  for (uint64_t first = lane0; first < lane1; first += kRowsAtOnce) {
    const uint64_t n = std::min(kRowsAtOnce, lane1 - first);
    const bool is_done = may_use_onednn && n == Product::kRows &&
                         product_.Run(matrix_, first, kernels_->dequantize[matrix_.type()], io.x(0), io.raw->x_stride, io.T(), sums,
                                      kRowsAtOnce, io.scratch<unsigned char>() + SumsBytes(io.T()));
    if (!is_done) {
      for (uint64_t r = 0; r < n; r++) rows[r] = matrix_.at(first + r, 0);
      kernels_->dot_rows[matrix_.type()](rows, static_cast<uint32_t>(n), matrix_.columns(), io.x(0), io.raw->x_stride, io.T(), sums,
                                         kRowsAtOnce);
    }
    for (uint32_t t = 0; t < io.T(); t++) kernels_->axpy(strength_, sums + t * kRowsAtOnce, io.y(t) + first, n);
  }
}

void ResidualOverlay::AddRows(const veneer::io& io, uint64_t lane0, uint64_t lane1) const noexcept {
  float values[kChunk];
  for (uint32_t t = 0; t < io.T(); t++) {
    for (uint64_t first = lane0; first < lane1; first += kChunk) {
      const uint64_t n = std::min(kChunk, lane1 - first);
      kernels_->dequantize[matrix_.type()](matrix_.at(static_cast<uint64_t>(io.id(t)), first), values, n);
      kernels_->axpy(strength_, values, io.y(t) + first, n);
    }
  }
}

// In f64 and without the kernels, so that the two ways check each other.
void ResidualOverlay::weight_row(const vnr_site& site, uint64_t row, float* w) const {
  if (!edits_) return;
  for (uint64_t i = 0; i < site.in; i++)
    w[i] = static_cast<float>(static_cast<double>(w[i]) + static_cast<double>(strength_) * matrix_.value(row, i));
}

std::string ResidualOverlay::describe(const vnr_site&) const {
  return std::string(R"("form":")") + (matrix_.type() == VNR_Q8_0 ? "q8" : "weight") + R"(","dtype":")" + NameOf(matrix_.type()) + "\"";
}

}  // namespace veneer_residual
