// The plugin of the design, letter for letter: what a third party writes must go on compiling, in C++17, without a warning.
// clang-format off
#include <cmath>
#include <veneer/overlay.hpp>
using namespace veneer;

struct dora : overlay {                                   // W' = diag(m / |W + s B A|_row) (W + s B A);  bias untouched
  static constexpr const char* id      = "example.dora";
  static constexpr const char* summary = "weight-decomposed low-rank overlay";
  static constexpr const char* schema  =
    R"({"type":"object","required":["scale"],"additionalProperties":false,
        "properties":{"scale":{"type":"number","minimum":-1e4,"maximum":1e4}}})";
  static constexpr uint32_t flags = VNR_KIND_NEEDS_BASE_ROWS;
  static constexpr vnr_role roles[] = {
    role("A", sym('r'), IN), role("B", OUT, sym('r')), role("m", OUT) };

  float s = 0;  uint32_t r = 0;
  buf<float> A, B, g;                                     // host-allocated, counted against the budget

  void bind(const vnr_site&, const source& src) {
    s = float(src.number("/scale", 1.0));
    r = uint32_t(src.get("A").dims[0]);
    if (r == 0 || r > 4096) throw error{VNR_E_UNSUPPORTED, "rank must be 1..4096"};
  }
  uint64_t resident_bytes (const vnr_site& st) const { return 4 * (r * st.in + st.out * r + st.out); }
  uint64_t transient_bytes(const vnr_site& st) const { return 4 * (st.out + st.in); }

  program stage(const stager& st) {
    A = st.load("A");  B = st.load("B");  g = st.alloc(st.site->out);
    buf<float> m = st.load("m");
    st.each_base_row([&](uint64_t o, float* w) {          // effective rows: base plus every earlier overlay
      delta(*st.site, o, w);
      const float n = std::sqrt(dot(w, w, st.site->in));
      if (!(n > 0) || !std::isfinite(n)) throw error{VNR_E_NUMERIC, "zero or non-finite row norm"};
      g[o] = m[o] / n;
    });
    program p;
    p.prepare_units = r;
    p.prepared_bytes_per_token = 4ull * r;
    return p;
  }
  void prepare(const vnr_site& st, const io& v, uint32_t u0, uint32_t u1) const noexcept {
    for (uint32_t t = 0; t < v.T(); t++)
      for (uint32_t u = u0; u < u1; u++) v.prep(t)[u] = dot(&A[u * st.in], v.x(t), st.in);
  }
  void apply(const vnr_site&, const io& v, uint64_t o0, uint64_t o1) const noexcept {
    for (uint32_t t = 0; t < v.T(); t++)
      for (uint64_t o = o0; o < o1; o++)
        v.y(t)[o] = g[o] * (v.y(t)[o] + s * dot(&B[o * r], v.prep(t), r));
  }
  void weight_row(const vnr_site& st, uint64_t o, float* w) const {
    delta(st, o, w);
    for (uint64_t k = 0; k < st.in; k++) w[k] *= g[o];
  }
 private:
  void delta(const vnr_site& st, uint64_t o, float* w) const noexcept {
    for (uint32_t u = 0; u < r; u++) axpy(w, s * B[o * r + u], &A[u * st.in], st.in);
  }
};
VENEER_OVERLAY(dora, "example-dora", "1.0.0")
