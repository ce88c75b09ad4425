#include "plugins/lora/overlay.h"

#include <algorithm>
#include <cstring>

namespace veneer_lora {

void LoraOverlay::bind(const vnr_site& site, const veneer::source& source) {
  is_embedding_ = site.shape_class == VNR_SITE_EMBEDDING;
  a_source_ = source.get(is_embedding_ ? "embedding_A" : "A");
  b_source_ = source.get(is_embedding_ ? "embedding_B" : "B");
  if (const vnr_tensor* bias = source.find("bias")) {
    bias_source_ = *bias;
    has_bias_ = true;
  }
  rank_ = a_source_.dims[0];
  columns_ = a_source_.dims[1];
  lanes_ = b_source_.dims[0];
  a_type_ = a_source_.dtype;
  is_b_half_ = b_source_.dtype == VNR_F16;
  scale_ = static_cast<float>(source.strength() * source.number("/scale", 1.0));  // rounded once
}

uint64_t LoraOverlay::resident_bytes(const vnr_site&) const {
  const uint64_t a = rank_ * columns_ * (a_type_ == VNR_F32 ? 4 : 2);
  const uint64_t b = b_elements() * (is_b_half_ ? 2 : 4);
  return a + b + (has_bias_ ? lanes_ * 4 : 0);
}

vnr_program LoraOverlay::stage(const veneer::stager& stager) {
  kernels_ = veneer::kernels::Select();
  if (kernels_ == nullptr) throw veneer::error(VNR_E_UNSUPPORTED, "no kernels for the instruction set that was asked for");
  const uint64_t size = a_type_ == VNR_F32 ? 4 : 2;
  a_ = stager.alloc<unsigned char>(rank_ * columns_ * size);
  const auto* a = static_cast<const unsigned char*>(a_source_.data);
  if (is_embedding_) {  // transposed: the row of one token lies together
    for (uint64_t u = 0; u < rank_; u++)
      for (uint64_t token = 0; token < columns_; token++)
        std::memcpy(&a_[(token * rank_ + u) * size], a + (u * columns_ + token) * size, size);
  } else {
    std::memcpy(a_.data(), a, a_.size());
  }

  const uint64_t tiles = b_elements();
  if (is_b_half_) {
    b_half_ = stager.alloc<uint16_t>(tiles);
    std::fill_n(b_half_.data(), tiles, uint16_t{0});
  } else {
    b_ = stager.alloc<float>(tiles);
    std::fill_n(b_.data(), tiles, 0.0F);
  }
  for (uint64_t lane = 0; lane < lanes_; lane++) {
    for (uint64_t u = 0; u < rank_; u++) {
      const uint64_t at = (lane / kTile * rank_ + u) * kTile + lane % kTile;
      if (is_b_half_) {
        std::memcpy(&b_half_[at], static_cast<const unsigned char*>(b_source_.data) + 2 * (lane * rank_ + u), 2);
      } else {
        b_[at] = veneer::element(b_source_, lane * rank_ + u);
      }
    }
  }
  if (has_bias_) bias_ = stager.load(bias_source_);

  vnr_program program = overlay::program(VNR_ADDS_Y | (has_bias_ ? uint32_t{VNR_EDITS_BIAS} : 0U));
  program.prepare_units = is_embedding_ ? 1 : static_cast<uint32_t>(rank_);
  program.prepared_bytes_per_token = rank_ * sizeof(float);
  program.amplification = 16;
  return program;
}

// t[u] = sum_i A[u, i] x[i]; one unit is one row of A, in the kernels' fixed order.
void LoraOverlay::prepare(const vnr_site& site, const veneer::io& io, uint32_t unit0, uint32_t unit1) const noexcept {
  if (is_embedding_) {
    for (uint32_t t = 0; t < io.tokens(); t++) {
      const uint64_t token = static_cast<uint64_t>(io.id(t));
      kernels_->dequantize[a_type_](&a_[token * rank_ * (a_type_ == VNR_F32 ? 4 : 2)], io.prepared(t), rank_);
    }
    return;
  }
  constexpr uint32_t kRows = 16;
  const void* rows[kRows];
  const uint64_t row_bytes = site.in * (a_type_ == VNR_F32 ? 4 : 2);
  const vnr_io& raw = io.raw();
  for (uint32_t first = unit0; first < unit1; first += kRows) {
    const uint32_t n = std::min(kRows, unit1 - first);
    for (uint32_t r = 0; r < n; r++) rows[r] = &a_[(first + r) * row_bytes];
    kernels_->dot_rows[a_type_](rows, n, site.in, raw.x, raw.x_stride, raw.tokens, io.prepared(0) + first,
                                raw.prepared_stride / sizeof(float));
  }
}

// y[lane] += c * t[u] * B[lane, u], u outside and ascending: one fused multiply-add per lane and rank.
void LoraOverlay::apply(const vnr_site&, const veneer::io& io, uint64_t lane0, uint64_t lane1) const noexcept {
  for (uint64_t lane = lane0; lane < lane1;) {
    const uint64_t tile = lane / kTile, inside = lane % kTile;
    const uint64_t n = std::min(lane1 - lane, kTile - inside);
    for (uint32_t t = 0; t < io.tokens(); t++) {
      float* y = io.y(t) + lane;
      const float* prepared = io.prepared(t);
      for (uint64_t u = 0; u < rank_; u++) {
        const uint64_t at = (tile * rank_ + u) * kTile + inside;
        if (is_b_half_) {
          kernels_->axpy_f16(scale_ * prepared[u], &b_half_[at], y, n);
        } else {
          kernels_->axpy(scale_ * prepared[u], &b_[at], y, n);
        }
      }
    }
    lane += n;
  }
}

float LoraOverlay::b_at(uint64_t lane, uint64_t u) const {
  const uint64_t at = (lane / kTile * rank_ + u) * kTile + lane % kTile;
  return is_b_half_ ? veneer::half_to_float(b_half_[at]) : b_[at];
}

float LoraOverlay::a_at(uint64_t u, uint64_t i) const {
  vnr_tensor view{};
  view.dtype = a_type_;
  view.data = a_.data();
  return veneer::element(view, is_embedding_ ? i * rank_ + u : u * columns_ + i);
}

void LoraOverlay::weight_row(const vnr_site& site, uint64_t row, float* w) const {
  for (uint64_t i = 0; i < site.in; i++) {
    double sum = 0;
    for (uint64_t u = 0; u < rank_; u++)
      sum += is_embedding_ ? static_cast<double>(b_at(i, u)) * static_cast<double>(a_at(u, row))
                           : static_cast<double>(b_at(row, u)) * static_cast<double>(a_at(u, i));
    w[i] = static_cast<float>(static_cast<double>(w[i]) + static_cast<double>(scale_) * sum);
  }
}

void LoraOverlay::bias(const vnr_site&, float* b, uint64_t n) const {
  if (!has_bias_) return;
  for (uint64_t i = 0; i < n; i++)
    b[i] = static_cast<float>(static_cast<double>(b[i]) + static_cast<double>(scale_) * static_cast<double>(bias_[i]));
}

std::string LoraOverlay::describe(const vnr_site&) const {
  return "{\"rank\":" + std::to_string(rank_) + ",\"scale_at_strength\":" + std::to_string(scale_) + "}";
}

}  // namespace veneer_lora
