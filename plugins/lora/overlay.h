// LoRA: a low-rank edit of a linear layer or of an embedding.
//
//   LINEAR     y[t, o] += c * sum_u B[o, u] * (sum_i A[u, i] * x[t, i])          A [r, in], B [out, r]
//              b[o]    += c * b_B[o]                                            optional bias of B
//   EMBEDDING  y[t, k] += c * sum_u B[k, u] * A[u, id[t]]                        A [r, vocab], B [width, r]
//
// c = strength * scale, rounded once to f32; scale is alpha / rank or alpha / sqrt(rank), computed by the importer.
// Error, any order, no underflow: |y - exact| <= g(in + r + 2) * |c| * |B||A||x| + u * |exact|, u = 2^-24, g(n) = n u / (1 - n u)
// (Higham, Accuracy and Stability, 2nd ed., section 3.1). Source: Hu et al. 2021, arXiv:2106.09685, eq. 3.
//
// Both factors stay in the type they are stored in. Where c is zero, or one of the factors, the overlay keeps nothing and leaves y
// alone: adding a zero would turn -0 into +0.
#ifndef VENEER_PLUGINS_LORA_OVERLAY_H_
#define VENEER_PLUGINS_LORA_OVERLAY_H_

#include <cstdint>
#include <string>

#include "kernels/kernels.h"
#include "plugins/lora/expand.h"
#include "plugins/lora/import.h"
#include "plugins/lora/shrink.h"
#include "veneer/overlay.hpp"

namespace veneer_lora {

struct LoraOverlay : veneer::overlay {
  static constexpr const char* id = "lora";
  static constexpr const char* summary = "low-rank additive overlay (LoRA, rsLoRA) on linear layers and embeddings";
  static constexpr const char* schema =
      R"({"type":"object","additionalProperties":false,"properties":{"scale":{"type":"number","minimum":-100000,"maximum":100000}}})";
  static constexpr uint32_t flags = VNR_KIND_ADDITIVE;
  static constexpr uint32_t site_mask = VNR_BIT(VNR_SITE_LINEAR) | VNR_BIT(VNR_SITE_EMBEDDING);
  static constexpr vnr_role roles[] = {veneer::with(veneer::role("A", veneer::sym('r'), veneer::IN), VNR_ROLE_ON_LINEAR),
                                       veneer::with(veneer::role("B", veneer::OUT, veneer::sym('r')), VNR_ROLE_ON_LINEAR),
                                       veneer::with(veneer::role("bias", veneer::OUT), VNR_ROLE_ON_LINEAR | VNR_ROLE_OPTIONAL),
                                       veneer::with(veneer::role("embedding_A", veneer::sym('r'), veneer::OUT), VNR_ROLE_ON_EMBEDDING),
                                       veneer::with(veneer::role("embedding_B", veneer::IN, veneer::sym('r')), VNR_ROLE_ON_EMBEDDING)};
  static constexpr const vnr_import* import = &kImport;
  static constexpr const vnr_import_gguf* import_gguf = &kGgufImport;

  void bind(const vnr_site& site, const veneer::source& source);
  veneer::costs cost(const vnr_site& site, const vnr_limits& limits) const;
  veneer::program stage(const veneer::stager& stager);
  void prepare(const vnr_site& site, const veneer::io& io, uint32_t unit0, uint32_t unit1) const noexcept;
  void apply(const vnr_site& site, const veneer::io& io, uint64_t lane0, uint64_t lane1) const noexcept;
  void weight_row(const vnr_site& site, uint64_t row, float* w) const;
  void bias(const vnr_site& site, float* b, uint64_t n) const;
  std::string describe(const vnr_site& site) const;

 private:
  // A factor as it lies in memory.
  struct Factor {
    uint32_t dtype = VNR_F32;
    veneer::buf<unsigned char> bytes;
    [[nodiscard]] uint64_t width() const { return dtype == VNR_F32 ? 4 : 2; }
    [[nodiscard]] double at(uint64_t index) const;
  };
  [[nodiscard]] uint64_t groups() const { return (lanes_ + kGroup - 1) / kGroup; }
  // oneDNN takes part only in fast mode (D1 is enough) and for several tokens.
  [[nodiscard]] bool shrinks_by_onednn(const vnr_limits& limits) const;
  void DotRows(const veneer::io& io, uint32_t token0, uint32_t token1, uint32_t unit0, uint32_t unit1) const noexcept;
  void StageA(const veneer::stager& stager);
  void StageB(const veneer::stager& stager);

  bool is_embedding_ = false, edits_weight_ = false, edits_bias_ = false;
  uint64_t rank_ = 0, lanes_ = 0, columns_ = 0;  // columns: of A (in, or vocab)
  float scale_ = 0;                              // c
  Factor a_;                                     // LINEAR [r][in]; EMBEDDING [vocab][r], so that one token's column lies together
  Factor b_;                                     // [groups][r][8]: plugins/lora/expand.h
  veneer::buf<float> bias_;                      // b_B
  const veneer::kernels::Table* kernels_ = nullptr;
  Expand expand_ = nullptr;
  Shrink shrink_;
  bool uses_onednn_ = false;
};

}  // namespace veneer_lora

#endif  // VENEER_PLUGINS_LORA_OVERLAY_H_
