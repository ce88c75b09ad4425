// Residual: a dense edit of a linear layer or of an embedding, for example merged adapters kept beside a base that stays as it is.
//
//   LINEAR     y[t, o] += w * (sum_i R[o, i] * x[t, i])
//   EMBEDDING  y[t, k] += w * R[id[t], k]
//
// w is the strength, rounded once to f32. The sum runs in the kernels' lane order, then one fused multiply-add y = fma(w, sum, y).
// Error without underflow, u = 2^-24, g(n) = n u / (1 - n u) (Higham, Accuracy and Stability, 2nd ed., section 3.1):
//   LINEAR     |y - exact| <= g(ceil(in / 32) + 7) * |w| |R| |x| + u * |exact|; EMBEDDING g(2) * |w| |R| + u * |exact|
// and where oneDNN takes part (fast mode, several tokens), whose order is its own, g(in + 3) in the place of the first g.
//
// R is kept once, in the type it is stored in (plugins/residual/matrix.h). Where w or all of R is zero the overlay keeps nothing and
// leaves y alone: adding a zero would turn -0 into +0.
#ifndef VENEER_PLUGINS_RESIDUAL_OVERLAY_H_
#define VENEER_PLUGINS_RESIDUAL_OVERLAY_H_

#include <cstdint>
#include <string>

#include "kernels/kernels.h"
#include "plugins/residual/matrix.h"
#include "plugins/residual/product.h"
#include "veneer/overlay.hpp"

namespace veneer_residual {

struct ResidualOverlay : veneer::overlay {
  static constexpr const char* id = "residual";
  static constexpr const char* summary = "dense additive overlay (accumulated residual) on linear layers and embeddings";
  static constexpr const char* schema = R"({"type":"object","additionalProperties":false,"properties":{}})";
  static constexpr uint32_t flags = VNR_KIND_ADDITIVE;
  static constexpr uint32_t site_mask = VNR_BIT(VNR_SITE_LINEAR) | VNR_BIT(VNR_SITE_EMBEDDING);
  static constexpr vnr_role roles[] = {
      veneer::with(veneer::role("weight", veneer::OUT, veneer::IN), VNR_ROLE_OPTIONAL),
      veneer::with(veneer::role("q8", veneer::OUT, veneer::IN), VNR_ROLE_OPTIONAL, VNR_BIT(VNR_I8)),
      veneer::with(veneer::role("scale", veneer::OUT, veneer::sym('g')), VNR_ROLE_OPTIONAL, VNR_BIT(VNR_F16))};

  void bind(const vnr_site& site, const veneer::source& source);
  veneer::costs cost(const vnr_site& site, const vnr_limits& limits) const;
  veneer::program stage(const veneer::stager& stager);
  void apply(const vnr_site& site, const veneer::io& io, uint64_t lane0, uint64_t lane1) const noexcept;
  void weight_row(const vnr_site& site, uint64_t row, float* w) const;
  std::string describe(const vnr_site& site) const;

 private:
  // oneDNN takes part only in fast mode (D1 is enough) and for several tokens.
  [[nodiscard]] bool multiplies_by_onednn(const vnr_limits& limits) const;
  void AddProduct(const veneer::io& io, uint64_t lane0, uint64_t lane1) const noexcept;
  void AddRows(const veneer::io& io, uint64_t lane0, uint64_t lane1) const noexcept;

  bool is_embedding_ = false, edits_ = false;
  float strength_ = 0;  // w
  Matrix matrix_;       // R
  const veneer::kernels::Table* kernels_ = nullptr;
  Product product_;
  bool uses_onednn_ = false;
};

}  // namespace veneer_residual

#endif  // VENEER_PLUGINS_RESIDUAL_OVERLAY_H_
