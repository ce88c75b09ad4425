// IA3: learned rescaling of a layer's input (feed-forward modules) or output.
//
//   input form   W <- W diag(l_w)                bias untouched        l_in  [1, in]
//   output form  W <- diag(l_w) W, b <- l_w b    bias scaled too       l_out [out, 1]
//   l_w = 1 + strength * (l - 1), rounded once to f32: linear in weight space, and exactly 1 at strength 0
//
// Error: one rounding per element in each form. Source: Liu et al. 2022, arXiv:2205.05638, section 3.3.
#ifndef VENEER_PLUGINS_IA3_OVERLAY_H_
#define VENEER_PLUGINS_IA3_OVERLAY_H_

#include <cstdint>
#include <string>

#include "plugins/ia3/import.h"
#include "veneer/overlay.hpp"

namespace veneer_ia3 {

struct Ia3Overlay : veneer::overlay {
  static constexpr const char* id = "ia3";
  static constexpr const char* summary = "multiplicative overlay (IA3) on the input or output of linear layers";
  static constexpr const char* schema = R"({"type":"object","additionalProperties":false,"properties":{}})";
  static constexpr vnr_role roles[] = {veneer::with(veneer::role("l_in", 1, veneer::IN), VNR_ROLE_OPTIONAL),
                                       veneer::with(veneer::role("l_out", veneer::OUT, 1), VNR_ROLE_OPTIONAL)};
  static constexpr const vnr_import* import = &kImport;

  void bind(const vnr_site& site, const veneer::source& source);
  uint64_t resident_bytes(const vnr_site& site) const;
  veneer::program stage(const veneer::stager& stager);
  void transform(const vnr_site& site, const veneer::io& io, uint32_t unit0, uint32_t unit1) const noexcept;
  void apply(const vnr_site& site, const veneer::io& io, uint64_t lane0, uint64_t lane1) const noexcept;
  void weight_row(const vnr_site& site, uint64_t row, float* w) const;
  void bias(const vnr_site& site, float* b, uint64_t n) const;
  std::string describe(const vnr_site& site) const;

 private:
  static constexpr uint32_t kUnit = 64;  // elements of x_out one transform unit writes
  bool is_input_ = false;
  double strength_ = 1;
  veneer::buf<float> l_;  // l_w; empty at strength 0
};

}  // namespace veneer_ia3

#endif  // VENEER_PLUGINS_IA3_OVERLAY_H_
