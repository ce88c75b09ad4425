#include "plugins/residual/overlay.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace veneer_residual {
namespace {

constexpr uint64_t kRowsAtOnce = 128;  // row pointers on the stack; more than a tile of the host, so that a tile is one call
constexpr uint64_t kChunk = 256;       // columns of an embedding row at once, a multiple of Matrix::kBlock

// The best table that the host permits; the last one is scalar.
const veneer::kernels::Table* TableFor(uint64_t cpu_features) {
  constexpr uint64_t kAvx2 = VNR_CPU_AVX2 | VNR_CPU_FMA | VNR_CPU_F16C;
  const veneer::kernels::TableList list = veneer::kernels::Runnable();
  return list.tables[(cpu_features & kAvx2) == kAvx2 ? 0 : list.count - 1];
}

const char* NameOf(uint32_t type) { return type == VNR_F32 ? "f32" : type == VNR_F16 ? "f16" : type == VNR_BF16 ? "bf16" : "i8"; }

}  // namespace

void ResidualOverlay::bind(const vnr_site& site, const veneer::source& source) {
  is_embedding_ = site.shape_class == VNR_SITE_EMBEDDING;
  const bool has_elements = matrix_.Bind(site, source);
  strength_ = static_cast<float>(source.strength());
  if (!std::isfinite(strength_)) throw veneer::error{VNR_E_NUMERIC, "the strength is not finite in f32"};
  edits_ = has_elements && strength_ != 0;
}

uint64_t ResidualOverlay::resident_bytes(const vnr_site&) const { return edits_ ? matrix_.bytes() : 0; }

veneer::program ResidualOverlay::stage(const veneer::stager& stager) {
  veneer::program program;
  program.flags = edits_ ? uint32_t{VNR_ADDS_Y} : 0U;
  if (!edits_) return program;
  kernels_ = TableFor(stager.host->cpu_features);
  matrix_.Stage(stager);
  if (is_embedding_) {
    program.lane_quantum = Matrix::kBlock;
  } else {
    program.thread_scratch_bytes = kRowsAtOnce * stager.limits->max_token_block * sizeof(float);
  }
  return program;
}

void ResidualOverlay::apply(const vnr_site&, const veneer::io& io, uint64_t lane0, uint64_t lane1) const noexcept {
  if (!edits_ || lane0 >= lane1) return;
  is_embedding_ ? AddRows(io, lane0, lane1) : AddProduct(io, lane0, lane1);
}

void ResidualOverlay::AddProduct(const veneer::io& io, uint64_t lane0, uint64_t lane1) const noexcept {
  const void* rows[kRowsAtOnce];
  auto* sums = io.scratch<float>();  // [tokens][kRowsAtOnce]
  for (uint64_t first = lane0; first < lane1; first += kRowsAtOnce) {
    const uint64_t n = std::min(kRowsAtOnce, lane1 - first);
    for (uint64_t r = 0; r < n; r++) rows[r] = matrix_.at(first + r, 0);
    kernels_->dot_rows[matrix_.type()](rows, static_cast<uint32_t>(n), matrix_.columns(), io.x(0), io.raw->x_stride, io.T(), sums,
                                       kRowsAtOnce);
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
