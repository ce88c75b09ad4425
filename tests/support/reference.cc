#include "tests/support/reference.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace reference {
namespace {

const veneer::Site& SiteOf(const veneer::SiteTable& sites, const std::string& id) {
  const veneer::Site* site = sites.Find(id);
  if (site == nullptr) throw std::runtime_error("no site " + id);
  return *site;
}

Vector Dequantized(const veneer::Site& site) {
  const bool is_vector = site.shape_class == veneer::SiteClass::kVector;
  const std::uint64_t rows = is_vector ? 1 : site.out, cols = is_vector ? site.out : site.in;
  std::vector<float> values(rows * cols);
  veneer::ReadRows(site, 0, rows, values.data(), cols);
  return {values.begin(), values.end()};
}

Vector BiasOf(const veneer::Site& site, const veneer::SiteTable& sites) {
  return site.bias ? Dequantized(SiteOf(sites, site.id + ".bias")) : Vector();
}

// D[o, i] of an edit, 0 when it has none.
double DeltaAt(const Edit& edit, std::uint64_t o, std::uint64_t i, std::uint64_t in) {
  if (!edit.d.empty()) return edit.d[o * in + i];
  double sum = 0;
  for (std::uint64_t u = 0; u < edit.rank; ++u) sum += edit.b[o * edit.rank + u] * edit.a[u * in + i];
  return edit.scale * sum;
}

void EditWeight(Vector& w, std::uint64_t out, std::uint64_t in, const Edit& edit) {
  if (!edit.w.empty()) w = edit.w;
  for (const auto& [row, values] : edit.rows) std::ranges::copy(values, w.begin() + static_cast<std::ptrdiff_t>(row * in));
  for (std::uint64_t o = 0; o < out; ++o)
    for (std::uint64_t i = 0; i < in; ++i) {
      double& value = w[o * in + i];
      if (!edit.g.empty()) value *= edit.g[o];
      if (!edit.t.empty()) value *= edit.t[i];
      value += DeltaAt(edit, o, i, in);
    }
}

void EditBias(Vector& b, std::uint64_t out, const Edit& edit) {
  if (!b.empty() && edit.scales_bias)
    for (std::uint64_t o = 0; o < out; ++o) b[o] *= edit.g[o];
  if (edit.bias.empty()) return;
  b.resize(out);
  for (std::uint64_t o = 0; o < out; ++o) b[o] += edit.bias[o];
}

Edit Absolute(Edit edit) {
  for (Vector* part : {&edit.g, &edit.t, &edit.a, &edit.b, &edit.d, &edit.bias, &edit.w})
    for (double& value : *part) value = std::abs(value);
  for (auto& [row, values] : edit.rows)
    for (double& value : values) value = std::abs(value);
  edit.scale = std::abs(edit.scale);
  return edit;
}

double Dot(const double* a, const double* b, std::uint64_t n) {
  double sum = 0;
  for (std::uint64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

Product Multiply(const veneer::Site& site, const veneer::SiteTable& sites, const std::vector<Edit>& edits, std::span<const float> x) {
  Product product;
  product.depth = static_cast<double>(site.in) / 32 + 6;
  Vector w = Dequantized(site), b = BiasOf(site, sites), abs_w = w, abs_b = b;
  for (double& value : abs_w) value = std::abs(value);
  for (double& value : abs_b) value = std::abs(value);
  for (const Edit& edit : edits) {
    EditWeight(w, site.out, site.in, edit);
    EditBias(b, site.out, edit);
    EditWeight(abs_w, site.out, site.in, Absolute(edit));
    EditBias(abs_b, site.out, Absolute(edit));
    product.depth += static_cast<double>(edit.rank) + 3;
  }
  for (std::uint64_t o = 0; o < site.out; ++o) {
    double y = b.empty() ? 0 : b[o], magnitude = abs_b.empty() ? 0 : abs_b[o];
    for (std::uint64_t i = 0; i < site.in; ++i) {
      y += w[o * site.in + i] * static_cast<double>(x[i]);
      magnitude += abs_w[o * site.in + i] * std::abs(static_cast<double>(x[i]));
    }
    product.y.push_back(y);
    product.magnitude.push_back(magnitude);
  }
  return product;
}

Model::Model(const veneer::Base& base, const Edits& edits) : base_(base), edits_(edits), config_(base.config()) {
  embedding_ = Edited("model.embed_tokens");
  head_ = Edited("lm_head");
  norm_ = EditedVector("model.norm");
  for (std::uint32_t l = 0; l < config_.n_layers; ++l) {
    const std::string prefix = "model.layers." + std::to_string(l) + ".";
    Layer& layer = layers_.emplace_back();
    layer.attention_norm = EditedVector(prefix + "input_layernorm");
    layer.ffn_norm = EditedVector(prefix + "post_attention_layernorm");
    layer.q = Edited(prefix + "self_attn.q_proj");
    layer.k = Edited(prefix + "self_attn.k_proj");
    layer.v = Edited(prefix + "self_attn.v_proj");
    layer.o = Edited(prefix + "self_attn.o_proj");
    if (config_.arch == "qwen3") {
      layer.q_norm = EditedVector(prefix + "self_attn.q_norm");
      layer.k_norm = EditedVector(prefix + "self_attn.k_norm");
    }
    layer.gate = Edited(prefix + "mlp.gate_proj");
    layer.up = Edited(prefix + "mlp.up_proj");
    layer.down = Edited(prefix + "mlp.down_proj");
  }
}

Model::Linear Model::Edited(const std::string& id) const {
  const veneer::Site& site = SiteOf(base_.sites(), id);
  Linear linear{site.out, site.in, Dequantized(site), site.bias ? EditedVector(id + ".bias") : Vector()};
  if (const auto found = edits_.find(id); found != edits_.end())
    for (const Edit& edit : found->second) {
      EditWeight(linear.w, site.out, site.in, edit);
      EditBias(linear.b, site.out, edit);
    }
  return linear;
}

Vector Model::EditedVector(const std::string& id) const {
  Vector values = Dequantized(SiteOf(base_.sites(), id));
  if (const auto found = edits_.find(id); found != edits_.end())
    for (const Edit& edit : found->second) EditWeight(values, values.size(), 1, edit);
  return values;
}

Model::Rows Model::Normed(const Rows& x, const Vector& weight) const {
  Rows out = x;
  for (Vector& row : out) {
    const double mean = Dot(row.data(), row.data(), row.size()) / static_cast<double>(row.size());
    const double scale = 1 / std::sqrt(mean + static_cast<double>(config_.rms_epsilon));
    for (std::size_t i = 0; i < row.size(); ++i) row[i] *= scale * weight[i];
  }
  return out;
}

// Every head of head_dim numbers is normed for itself, all with the same weights; rows stay as they are when the model has none.
Model::Rows Model::HeadsNormed(Rows rows, const Vector& weight) const {
  if (weight.empty()) return rows;
  for (Vector& row : rows)
    for (std::size_t head = 0; head < row.size(); head += weight.size()) {
      const auto first = row.begin() + static_cast<std::ptrdiff_t>(head), last = first + static_cast<std::ptrdiff_t>(weight.size());
      std::ranges::copy(Normed({Vector(first, last)}, weight).front(), first);
    }
  return rows;
}

// Pairs (i, i + d/2) turn by theta_i = position * base^(-2i/d) * frequency_scale / factor_i.
void Model::Rotate(Vector& row, std::uint64_t n_heads, std::uint64_t position) const {
  const std::uint64_t d = config_.head_dim;
  for (std::uint64_t head = 0; head < n_heads; ++head)
    for (std::uint64_t i = 0; i < d / 2; ++i) {
      double theta = static_cast<double>(position) *
                     std::pow(static_cast<double>(config_.rope_base), -2.0 * static_cast<double>(i) / static_cast<double>(d)) *
                     static_cast<double>(config_.rope_frequency_scale);
      if (!config_.rope_factors.empty()) theta /= static_cast<double>(config_.rope_factors[i]);
      double& first = row[head * d + i];
      double& second = row[head * d + i + d / 2];
      const double a = first, b = second;
      first = a * std::cos(theta) - b * std::sin(theta);
      second = b * std::cos(theta) + a * std::sin(theta);
    }
}

Model::Rows Model::Attend(Rows q, Rows k, const Rows& v) const {
  const std::uint64_t d = config_.head_dim, group = config_.n_heads / config_.n_kv_heads;
  for (std::size_t t = 0; t < q.size(); ++t) {
    Rotate(q[t], config_.n_heads, t);
    Rotate(k[t], config_.n_kv_heads, t);
  }
  Rows out(q.size(), Vector(config_.n_heads * d));
  for (std::size_t t = 0; t < q.size(); ++t)
    for (std::uint64_t head = 0; head < config_.n_heads; ++head) {
      const std::uint64_t kv = head / group * d;
      Vector weight(t + 1);
      for (std::size_t p = 0; p <= t; ++p) weight[p] = Dot(&q[t][head * d], &k[p][kv], d) / std::sqrt(static_cast<double>(d));
      const double top = *std::max_element(weight.begin(), weight.end());
      double total = 0;
      for (double& value : weight) total += value = std::exp(value - top);
      for (std::size_t p = 0; p <= t; ++p)
        for (std::uint64_t i = 0; i < d; ++i) out[t][head * d + i] += weight[p] / total * v[p][kv + i];
    }
  return out;
}

std::vector<Vector> Model::Logits(std::span<const std::int32_t> tokens) const {
  const auto apply = [](const Linear& linear, const Rows& x) {
    Rows y(x.size(), linear.b.empty() ? Vector(linear.out) : linear.b);
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::uint64_t o = 0; o < linear.out; ++o) y[t][o] += Dot(&linear.w[o * linear.in], x[t].data(), linear.in);
    return y;
  };
  const auto add = [](Rows& x, const Rows& y) {
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t i = 0; i < x[t].size(); ++i) x[t][i] += y[t][i];
  };
  Rows x;
  for (const std::int32_t token : tokens) {
    const double* row = &embedding_.w[static_cast<std::uint64_t>(token) * embedding_.in];
    x.emplace_back(row, row + embedding_.in);
  }
  for (const Layer& layer : layers_) {
    Rows h = Normed(x, layer.attention_norm);
    const Rows q = HeadsNormed(apply(layer.q, h), layer.q_norm), k = HeadsNormed(apply(layer.k, h), layer.k_norm);
    add(x, apply(layer.o, Attend(q, k, apply(layer.v, h))));
    h = Normed(x, layer.ffn_norm);
    Rows gate = apply(layer.gate, h);
    const Rows up = apply(layer.up, h);
    for (std::size_t t = 0; t < gate.size(); ++t)
      for (std::size_t i = 0; i < gate[t].size(); ++i) gate[t][i] *= up[t][i] / (1 + std::exp(-gate[t][i]));
    add(x, apply(layer.down, gate));
  }
  return apply(head_, Normed(x, norm_));
}

}  // namespace reference
