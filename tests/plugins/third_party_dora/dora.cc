// A third party's kind, written against the installed headers alone: weight-decomposed low-rank overlay (Liu et al. 2024,
// arXiv:2402.09353). The sample of the plugin design with strength and an import declaration added.
//
//   W' = diag(m / |W + s B A|_row) (W + s B A),  bias untouched;  at strength w: W + w (W' - W)
#include <cmath>

#include "veneer/import.hpp"
#include "veneer/overlay.hpp"

namespace {

using namespace veneer;

constexpr vnr_import_rule rules[] = {select("use_dora", "[true]"), accept("r"),
                                     accept("lora_alpha"),         accept("rank_pattern"),
                                     accept("alpha_pattern"),      accept("use_rslora", "[null,true,false]"),
                                     accept("lora_dropout"),       accept("init_lora_weights", R"([null,true,false,"gaussian"])"),
                                     accept("megatron_core"),      accept("qalora_group_size")};
constexpr vnr_import_tensor tensors[] = {tensor(".lora_A.weight", "A", VNR_BIT(VNR_SITE_LINEAR)),
                                         tensor(".lora_B.weight", "B", VNR_BIT(VNR_SITE_LINEAR)),
                                         tensor(".lora_magnitude_vector", "m", VNR_BIT(VNR_SITE_LINEAR)),
                                         tensor(".lora_magnitude_vector.weight", "m", VNR_BIT(VNR_SITE_LINEAR))};
constexpr auto rule_list = pointers(rules);
constexpr auto tensor_list = pointers(tensors);
constexpr vnr_import_scale scale_rule = {
    sizeof(vnr_import_scale), 0, "/scale", "lora_alpha", "alpha_pattern", "r", "rank_pattern", "use_rslora", 8.0, 8.0};
constexpr vnr_import peft = import_of("LORA", R"({"llama":["q_proj","v_proj"]})", "r", &scale_rule, rule_list, tensor_list);

struct dora : overlay {
  static constexpr const char* id = "example.dora";
  static constexpr const char* summary = "weight-decomposed low-rank overlay";
  static constexpr const char* schema =
      R"({"type":"object","required":["scale"],"additionalProperties":false,
          "properties":{"scale":{"type":"number","minimum":-1e4,"maximum":1e4}}})";
  static constexpr uint32_t flags = VNR_KIND_NEEDS_BASE_ROWS;
  static constexpr vnr_role roles[] = {role("A", sym('r'), IN), role("B", OUT, sym('r')), role("m", OUT)};
  static constexpr const vnr_import* import = &peft;

  float s = 0, w = 1;
  uint32_t r = 0;
  buf<float> A, B, g;  // g[o] = m[o] / |W + s B A|_o

  void bind(const vnr_site&, const source& src) {
    s = float(src.number("/scale", 1.0));
    w = float(src.strength());
    r = uint32_t(src.get("A").dims[0]);
    if (r > 4096) throw error{VNR_E_UNSUPPORTED, "rank must be 1..4096"};
  }
  uint64_t resident_bytes(const vnr_site& st) const { return 4 * (r * st.in + st.out * r + st.out); }
  uint64_t transient_bytes(const vnr_site& st) const { return 4 * (st.out + st.in); }

  program stage(const stager& st) {
    A = st.load("A");
    B = st.load("B");
    g = st.alloc(st.site->out);
    const buf<float> m = st.load("m");
    st.each_base_row([&](uint64_t o, float* row) {  // effective rows: base plus every earlier overlay
      for (uint32_t u = 0; u < r; u++) axpy(row, s * B[o * r + u], &A[u * st.site->in], st.site->in);
      const float n = std::sqrt(dot(row, row, st.site->in));
      if (!(n > 0) || !std::isfinite(n)) throw error{VNR_E_NUMERIC, "zero or non-finite row norm"};
      g[o] = m[o] / n;
    });
    program p;
    p.flags = VNR_ADDS_Y | VNR_SCALES_Y;
    p.prepare_units = r;
    p.prepared_bytes_per_token = 4ull * r;
    return p;
  }
  void prepare(const vnr_site& st, const io& v, uint32_t u0, uint32_t u1) const noexcept {
    for (uint32_t t = 0; t < v.T(); t++)
      for (uint32_t u = u0; u < u1; u++) v.prep(t)[u] = dot(&A[u * st.in], v.x(t), st.in);
  }
  void apply(const vnr_site&, const io& v, uint64_t o0, uint64_t o1) const noexcept {
    if (w == 0) return;
    for (uint32_t t = 0; t < v.T(); t++)
      for (uint64_t o = o0; o < o1; o++) v.y(t)[o] = kept(o) * v.y(t)[o] + w * g[o] * s * dot(&B[o * r], v.prep(t), r);
  }
  void weight_row(const vnr_site& st, uint64_t o, float* row) const {
    if (w == 0) return;
    for (uint64_t k = 0; k < st.in; k++) row[k] *= kept(o);
    for (uint32_t u = 0; u < r; u++) axpy(row, w * g[o] * s * B[o * r + u], &A[u * st.in], st.in);
  }

 private:
  float kept(uint64_t o) const noexcept { return 1 + w * (g[o] - 1); }
};

}  // namespace

VENEER_OVERLAY(dora, "example-dora", "1.0.0")
