// The oracle of decoding: a Llama, Qwen2 or Qwen3 in double precision with the overlays as edits of its weights, straight from the
// definitions.
//
//   W_j = G_j W_{j-1} T_j + D_j,   b_j = G_j b_{j-1} (where the kind scales biases) + d_j        (DESIGN 5)
//
// Slow and obvious: no cache, no tiles, no quantized activations, every position computed again. It shares with core the reading of
// the base (sites, dequantized rows in Hugging Face order) and nothing of core/decode or of the plugins.
#ifndef VENEER_TESTS_SUPPORT_REFERENCE_H_
#define VENEER_TESTS_SUPPORT_REFERENCE_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/model/base.h"

namespace reference {

using Vector = std::vector<double>;

// One overlay on one site. Empty parts are absent.
struct Edit {
  Vector g, t;               // diagonals: G [out], T [in]
  bool scales_bias = false;  // G acts on the bias too
  std::uint64_t rank = 0;    // D = scale * B A, A [rank, in], B [out, rank]
  double scale = 0;
  Vector a, b;
  Vector d;                              // D [out, in], for edits without factors
  Vector bias;                           // d_j [out]
  Vector w;                              // takes the place of all that came before [out, in]
  std::map<std::uint64_t, Vector> rows;  // or of single rows of it [in]
};
using Edits = std::map<std::string, std::vector<Edit>>;  // by site id, in manifest order

// y = W_k x + b_k of a site, and a bound on the error of any sensible f32 evaluation of it.
struct Product {
  Vector y;
  // sum of the absolute values of all terms of y: |G|…(|W_0||T…x|) + |scale||B||A||x_j| + … + |b|
  Vector magnitude;
  // Each term passes at most `depth` roundings of relative size 2^-24: the 32-lane dot product (in / 32 + 5), the rank, one for each
  // factor. |computed - y| <= depth * 2^-24 * magnitude to first order; callers allow 1 % for the higher orders.
  double depth = 0;
};
Product Multiply(const veneer::Site& site, const veneer::SiteTable& sites, const std::vector<Edit>& edits, std::span<const float> x);

class Model {
 public:
  Model(const veneer::Base& base, const Edits& edits);
  // [tokens.size()][vocab]
  [[nodiscard]] std::vector<Vector> Logits(std::span<const std::int32_t> tokens) const;

 private:
  struct Linear {
    std::uint64_t out = 0, in = 0;
    Vector w, b;  // [out, in], [out] or empty
  };
  struct Layer {
    Vector attention_norm, ffn_norm;
    Vector q_norm, k_norm;  // [head_dim], Qwen3
    Linear q, k, v, o, gate, up, down;
  };
  using Rows = std::vector<Vector>;
  [[nodiscard]] Linear Edited(const std::string& id) const;
  [[nodiscard]] Vector EditedVector(const std::string& id) const;
  [[nodiscard]] Rows Normed(const Rows& x, const Vector& weight) const;
  [[nodiscard]] Rows Attend(Rows q, Rows k, const Rows& v) const;
  [[nodiscard]] Rows HeadsNormed(Rows rows, const Vector& weight) const;
  void Rotate(Vector& row, std::uint64_t n_heads, std::uint64_t position) const;

  const veneer::Base& base_;
  const Edits& edits_;
  veneer::ModelConfig config_;
  Linear embedding_, head_;
  std::vector<Layer> layers_;
  Vector norm_;
};

}  // namespace reference

#endif  // VENEER_TESTS_SUPPORT_REFERENCE_H_
