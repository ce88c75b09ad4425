// LoRA: a low-rank edit of a linear layer or of an embedding.
//
//   LINEAR     y[t, o] += c * sum_u B[o, u] * (sum_i A[u, i] * x[t, i])          A [r, in], B [out, r]
//              b[o]    += c * b_B[o]                                            optional bias of B
//   EMBEDDING  y[t, k] += c * sum_u B[k, u] * A[u, id[t]]                        A [r, vocab], B [width, r]
//
// c = strength * scale, rounded once to f32; scale is alpha / rank or alpha / sqrt(rank), computed by the importer.
// Error, any order, no underflow: |y - exact| <= g(in + r + 2) * |c| * |B||A||x| + u * |exact|, u = 2^-24, g(n) = n u / (1 - n u)
// (Higham, Accuracy and Stability, 2nd ed., section 3.1). Source: Hu et al. 2021, arXiv:2106.09685, eq. 3.
#ifndef VENEER_PLUGINS_LORA_OVERLAY_H_
#define VENEER_PLUGINS_LORA_OVERLAY_H_

#include "kernels/kernels.h"
#include "veneer/overlay.hpp"

namespace veneer_lora {

struct LoraOverlay : veneer::overlay {
  static constexpr const char* id = "lora";
  static constexpr const char* summary = "low-rank additive overlay (LoRA, rsLoRA) on linear layers and embeddings";
  static constexpr const char* schema =
      R"({"type":"object","additionalProperties":false,"properties":{"scale":{"type":"number","minimum":-100000,"maximum":100000}}})";
  static constexpr uint32_t flags = VNR_KIND_ADDITIVE;
  static constexpr uint32_t site_mask = VNR_BIT(VNR_SITE_LINEAR) | VNR_BIT(VNR_SITE_EMBEDDING);
  static constexpr vnr_role roles[] = {
      veneer::role2("A", veneer::sym('r'), veneer::IN, VNR_ROLE_ON_LINEAR),
      veneer::role2("B", veneer::OUT, veneer::sym('r'), VNR_ROLE_ON_LINEAR),
      veneer::role("bias", veneer::OUT, VNR_ROLE_ON_LINEAR | VNR_ROLE_OPTIONAL),
      veneer::role2("embedding_A", veneer::sym('r'), veneer::OUT, VNR_ROLE_ON_EMBEDDING),
      veneer::role2("embedding_B", veneer::IN, veneer::sym('r'), VNR_ROLE_ON_EMBEDDING)};
  static const vnr_import* import();

  void bind(const vnr_site& site, const veneer::source& source);
  uint64_t resident_bytes(const vnr_site& site) const;
  vnr_program stage(const veneer::stager& stager);
  void prepare(const vnr_site& site, const veneer::io& io, uint32_t unit0, uint32_t unit1) const noexcept;
  void apply(const vnr_site& site, const veneer::io& io, uint64_t lane0, uint64_t lane1) const noexcept;
  void weight_row(const vnr_site& site, uint64_t row, float* w) const;
  void bias(const vnr_site& site, float* b, uint64_t n) const;
  std::string describe(const vnr_site& site) const;

 private:
  // B lies in tiles of 64 output lanes, [lanes / 64][r][64], so that the expansion runs along the lanes with the rank outside: one long
  // multiply-add per rank row instead of one short dot product per lane. The last tile is padded with zeros.
  static constexpr uint64_t kTile = 64;
  [[nodiscard]] uint64_t b_elements() const { return (lanes_ + kTile - 1) / kTile * kTile * rank_; }
  [[nodiscard]] float b_at(uint64_t lane, uint64_t u) const;
  [[nodiscard]] float a_at(uint64_t u, uint64_t i) const;

  vnr_tensor a_source_{}, b_source_{}, bias_source_{};
  bool has_bias_ = false, is_embedding_ = false, is_b_half_ = false;
  uint64_t rank_ = 0, lanes_ = 0, columns_ = 0;  // columns: of A (in, or vocab)
  uint32_t a_type_ = VNR_F32;
  float scale_ = 0;                               // c
  const veneer::kernels::Table* kernels_ = nullptr;
  veneer::buf<unsigned char> a_;                  // own type; LINEAR [r][in], EMBEDDING [vocab][r]
  veneer::buf<float> b_;                          // tiles, when B is f32 or bf16
  veneer::buf<uint16_t> b_half_;                  // tiles, when B is f16
  veneer::buf<float> bias_;
};

}  // namespace veneer_lora

#endif  // VENEER_PLUGINS_LORA_OVERLAY_H_
