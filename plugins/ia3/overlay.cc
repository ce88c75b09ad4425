#include "plugins/ia3/overlay.h"

#include <algorithm>

namespace veneer_ia3 {

void Ia3Overlay::bind(const vnr_site&, const veneer::source& source) {
  const vnr_tensor* in = source.find("l_in");
  const vnr_tensor* out = source.find("l_out");
  if ((in == nullptr) == (out == nullptr)) throw veneer::error(VNR_E_INVALID, "needs exactly one of l_in and l_out");
  is_input_ = in != nullptr;
  source_ = is_input_ ? *in : *out;
  strength_ = source.strength();
}

vnr_program Ia3Overlay::stage(const veneer::stager& stager) {
  kernels_ = veneer::kernels::Select();
  if (kernels_ == nullptr) throw veneer::error(VNR_E_UNSUPPORTED, "no kernels for the instruction set that was asked for");
  l_ = stager.alloc<float>(veneer::elements(source_));
  for (uint64_t i = 0; i < l_.size(); i++)
    l_[i] = static_cast<float>(1.0 + strength_ * (static_cast<double>(veneer::element(source_, i)) - 1.0));
  vnr_program program = overlay::program(is_input_ ? uint32_t{VNR_TRANSFORMS_X | VNR_LANEWISE_T} : uint32_t{VNR_SCALES_Y | VNR_EDITS_BIAS});
  program.transform_unit = is_input_ ? kUnit : 1;
  return program;
}

void Ia3Overlay::transform(const vnr_site& site, const veneer::io& io, uint32_t unit0, uint32_t unit1) const noexcept {
  const uint64_t begin = uint64_t{unit0} * kUnit, end = std::min(site.in, uint64_t{unit1} * kUnit);
  if (begin >= end) return;
  for (uint32_t t = 0; t < io.tokens(); t++) kernels_->mul(io.x(t) + begin, &l_[begin], io.x_out(t) + begin, end - begin);
}

void Ia3Overlay::apply(const vnr_site&, const veneer::io& io, uint64_t lane0, uint64_t lane1) const noexcept {
  if (is_input_) return;
  for (uint32_t t = 0; t < io.tokens(); t++) kernels_->mul(io.y(t) + lane0, &l_[lane0], io.y(t) + lane0, lane1 - lane0);
}

void Ia3Overlay::weight_row(const vnr_site& site, uint64_t row, float* w) const {
  for (uint64_t i = 0; i < site.in; i++) w[i] *= l_[is_input_ ? i : row];
}

void Ia3Overlay::bias(const vnr_site&, float* b, uint64_t n) const {
  if (is_input_) return;
  for (uint64_t i = 0; i < n; i++) b[i] *= l_[i];
}

std::string Ia3Overlay::describe(const vnr_site&) const { return is_input_ ? R"({"form":"input"})" : R"({"form":"output"})"; }

}  // namespace veneer_ia3
