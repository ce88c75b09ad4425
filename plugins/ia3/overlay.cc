#include "plugins/ia3/overlay.h"

#include <algorithm>
#include <cmath>

namespace veneer_ia3 {
namespace {

// out may be a. Independent elements: the compiler vectorises this for the baseline instruction set, and it is bound by memory anyway.
void Multiply(const float* a, const float* b, float* out, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) out[i] = a[i] * b[i];
}

}  // namespace

void Ia3Overlay::bind(const vnr_site&, const veneer::source& source) {
  const vnr_tensor* in = source.find("l_in");
  const vnr_tensor* out = source.find("l_out");
  if ((in == nullptr) == (out == nullptr)) throw veneer::error{VNR_E_INVALID, "needs exactly one of l_in [1, in] and l_out [out, 1]"};
  is_input_ = in != nullptr;
  strength_ = source.strength();
}

uint64_t Ia3Overlay::resident_bytes(const vnr_site& site) const {
  return strength_ == 0 ? 0 : (is_input_ ? site.in : site.out) * sizeof(float);
}

veneer::program Ia3Overlay::stage(const veneer::stager& stager) {
  veneer::program program;
  program.amplification = 1;
  program.transform_unit = kUnit;
  program.flags = strength_ == 0 ? 0U : is_input_ ? uint32_t{VNR_TRANSFORMS_X | VNR_LANEWISE_T} : uint32_t{VNR_SCALES_Y | VNR_EDITS_BIAS};
  if (strength_ == 0) return program;
  l_ = stager.load(is_input_ ? "l_in" : "l_out");
  for (uint64_t i = 0; i < l_.size(); i++) {
    l_[i] = static_cast<float>(1.0 + strength_ * (static_cast<double>(l_[i]) - 1.0));
    if (!std::isfinite(l_[i])) throw veneer::error{VNR_E_NUMERIC, "element " + std::to_string(i) + " is not finite at this strength"};
  }
  return program;
}

void Ia3Overlay::transform(const vnr_site& site, const veneer::io& io, uint32_t unit0, uint32_t unit1) const noexcept {
  const uint64_t begin = uint64_t{unit0} * kUnit, end = std::min(site.in, uint64_t{unit1} * kUnit);
  if (!is_input_ || l_.size() == 0 || begin >= end) return;
  for (uint32_t t = 0; t < io.T(); t++) Multiply(io.x(t) + begin, &l_[begin], io.x_out(t) + begin, end - begin);
}

void Ia3Overlay::apply(const vnr_site&, const veneer::io& io, uint64_t lane0, uint64_t lane1) const noexcept {
  if (is_input_ || l_.size() == 0 || lane0 >= lane1) return;
  for (uint32_t t = 0; t < io.T(); t++) Multiply(io.y(t) + lane0, &l_[lane0], io.y(t) + lane0, lane1 - lane0);
}

void Ia3Overlay::weight_row(const vnr_site& site, uint64_t row, float* w) const {
  if (l_.size() == 0) return;
  for (uint64_t i = 0; i < site.in; i++) w[i] *= l_[is_input_ ? i : row];
}

void Ia3Overlay::bias(const vnr_site&, float* b, uint64_t n) const {
  if (is_input_ || l_.size() == 0) return;
  for (uint64_t i = 0; i < n; i++) b[i] *= l_[i];
}

std::string Ia3Overlay::describe(const vnr_site&) const { return is_input_ ? R"("form":"input")" : R"("form":"output")"; }

}  // namespace veneer_ia3
