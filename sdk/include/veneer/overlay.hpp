// C++17 wrapper over the plugin ABI, header only: write a class, declare its roles, get a plugin. See sdk/ABI.md for the contract.
//
//   struct my_kind : veneer::overlay { ... };
//   VENEER_OVERLAY("example-plugin", "1.0.0", my_kind)
//
// A kind class has (statics) id, version, summary, schema, roles[] and, when they differ from the defaults of `overlay`, flags,
// site_mask and import(); and (members) bind, resident_bytes, stage, weight_row, and what it does at run time: transform, prepare,
// apply, bias. Members may throw veneer::error or standard exceptions in setup calls; nothing unwinds across the C boundary.
#ifndef VENEER_OVERLAY_HPP_
#define VENEER_OVERLAY_HPP_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "veneer/abi.h"
#include "veneer/import.h"

namespace veneer {

// What a setup call failed with; the text reaches the user behind plugin, kind and site.
struct error : std::runtime_error {
  int32_t code;
  error(int32_t c, const std::string& text) : std::runtime_error(text), code(c) {}
};

// ---- declaring roles ----
constexpr uint32_t sym(char letter) { return VNR_DIM(static_cast<unsigned char>(letter)); }
constexpr uint32_t IN = VNR_DIM_IN, OUT = VNR_DIM_OUT;
constexpr uint32_t float_types = VNR_BIT(VNR_F32) | VNR_BIT(VNR_F16) | VNR_BIT(VNR_BF16);

constexpr vnr_role role(const char* name, uint32_t d0, uint32_t flags = 0, uint32_t types = float_types) {
  return {sizeof(vnr_role), flags, 1, types, {d0, 0, 0, 0}, name};
}
constexpr vnr_role role2(const char* name, uint32_t d0, uint32_t d1, uint32_t flags = 0, uint32_t types = float_types) {
  return {sizeof(vnr_role), flags, 2, types, {d0, d1, 0, 0}, name};
}

// ---- numbers ----
inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16, exponent = (half >> 10) & 31u, mantissa = half & 1023u;
  float value;
  if (exponent == 0) {
    value = static_cast<float>(mantissa) * 0x1.0p-24f;  // subnormal, exact
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    bits |= sign;
    std::memcpy(&value, &bits, 4);
    return value;
  }
  const uint32_t bits = sign | (exponent == 31 ? 0x7F800000u : (exponent + 112u) << 23) | mantissa << 13;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline float bf16_to_float(uint16_t half) {
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
// Element i of a plain float tensor.
inline float element(const vnr_tensor& t, uint64_t i) {
  const auto* bytes = static_cast<const unsigned char*>(t.data);
  if (t.dtype == VNR_F32) {
    float value;
    std::memcpy(&value, bytes + 4 * i, 4);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, bytes + 2 * i, 2);
  return t.dtype == VNR_F16 ? half_to_float(half) : bf16_to_float(half);
}
inline uint64_t elements(const vnr_tensor& t) {
  uint64_t n = 1;
  for (uint32_t i = 0; i < t.rank; i++) n *= t.dims[i];
  return n;
}

// Sum over eight interleaved lanes, then a fixed tree: the same bits on every machine and for every caller.
inline float dot(const float* a, const float* b, uint64_t n) noexcept {
  float lane[8] = {};
  for (uint64_t i = 0; i < n; i++) lane[i & 7] = std::fma(a[i], b[i], lane[i & 7]);
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}
inline void axpy(float* y, float scale, const float* x, uint64_t n) noexcept {
  for (uint64_t i = 0; i < n; i++) y[i] = std::fma(scale, x[i], y[i]);
}

// ---- memory from the host's budgeted allocator, 64-byte aligned ----
template <class T>
class buf {
 public:
  buf() = default;
  buf(const vnr_host* host, uint64_t count) : host_(host), size_(count) {
    data_ = static_cast<T*>(host->alloc(host, count * sizeof(T), 64));
    if (data_ == nullptr) throw error(VNR_E_BUDGET, "the host refused " + std::to_string(count * sizeof(T)) + " bytes");
  }
  ~buf() { reset(); }
  buf(buf&& other) noexcept
      : host_(other.host_), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  buf& operator=(buf&& other) noexcept {
    if (this != &other) {
      reset();
      host_ = other.host_;
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }
  T* data() { return data_; }
  const T* data() const { return data_; }
  uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](uint64_t i) { return data_[i]; }
  const T& operator[](uint64_t i) const { return data_[i]; }

 private:
  void reset() {
    if (data_ != nullptr) host_->free(host_, data_);
    data_ = nullptr;
  }
  const vnr_host* host_ = nullptr;
  T* data_ = nullptr;
  uint64_t size_ = 0;
};

// ---- what bind gets ----
class source {
 public:
  explicit source(const vnr_source* raw) : raw_(raw) {}
  const vnr_tensor* find(const char* name) const {
    for (uint32_t i = 0; i < raw_->n_tensors; i++)
      if (std::strcmp(raw_->roles[i], name) == 0) return raw_->tensors[i];
    return nullptr;
  }
  const vnr_tensor& get(const char* name) const {
    const vnr_tensor* tensor = find(name);
    if (tensor == nullptr) throw error(VNR_E_INVALID, std::string("tensor ") + name + " is missing");
    return *tensor;
  }
  double number(const char* path, double otherwise) const {
    const vnr_param* p = param(path);
    return p == nullptr ? otherwise : p->type == VNR_PARAM_INT ? static_cast<double>(p->i) : p->d;
  }
  int64_t integer(const char* path, int64_t otherwise) const {
    const vnr_param* p = param(path);
    return p == nullptr ? otherwise : p->i;
  }
  std::string text(const char* path, const std::string& otherwise) const {
    const vnr_param* p = param(path);
    return p == nullptr ? otherwise : std::string(p->s.data, p->s.size);
  }
  double strength() const { return number(VNR_PARAM_STRENGTH, 1.0); }

 private:
  const vnr_param* param(const char* path) const {
    for (uint32_t i = 0; i < raw_->n_params; i++)
      if (std::strcmp(raw_->params[i]->path, path) == 0) return raw_->params[i];
    return nullptr;
  }
  const vnr_source* raw_;
};

// ---- what stage gets ----
struct stager {
  const vnr_site* site;
  const vnr_limits* limits;
  const vnr_host* host;
  const vnr_base_rows* base;

  template <class T>
  buf<T> alloc(uint64_t count) const {
    return buf<T>(host, count);
  }
  // A float tensor as f32.
  buf<float> load(const vnr_tensor& tensor) const {
    buf<float> out(host, elements(tensor));
    for (uint64_t i = 0; i < out.size(); i++) out[i] = element(tensor, i);
    return out;
  }
  // Each row of the effective predecessor W_{j-1}: fn(row, float* w).
  template <class F>
  void each_base_row(const F& fn) const {
    buf<float> row(host, site->in);
    for (uint64_t o = 0; o < site->out; o++) {
      if (host->cancelled(host) != 0) throw error(VNR_E_CANCELLED, "cancelled");
      if (base->read(base->ctx, o, 1, row.data(), site->in) != VNR_OK) throw error(VNR_E_INTERNAL, "base rows could not be read");
      fn(o, row.data());
    }
  }
};

// ---- what hot calls get ----
class io {
 public:
  explicit io(const vnr_io* raw) : raw_(raw) {}
  uint32_t tokens() const { return raw_->tokens; }
  const float* x(uint32_t t) const { return raw_->x + t * raw_->x_stride; }
  float* x_out(uint32_t t) const { return raw_->x_out + t * raw_->x_out_stride; }
  float* y(uint32_t t) const { return raw_->y + t * raw_->y_stride; }
  float* prepared(uint32_t t) const {
    return reinterpret_cast<float*>(static_cast<unsigned char*>(raw_->prepared) + t * raw_->prepared_stride);
  }
  int32_t id(uint32_t t) const { return raw_->ids[t]; }
  void* scratch() const { return raw_->scratch; }
  const vnr_io& raw() const { return *raw_; }

 private:
  const vnr_io* raw_;
};

// ---- the base of a kind class; override what the kind does ----
struct overlay {
  static constexpr const char* version = "1.0.0";
  static constexpr uint32_t flags = 0;
  static constexpr uint32_t site_mask = VNR_BIT(VNR_SITE_LINEAR);
  static const vnr_import* import() { return nullptr; }

  // The defaults of a program: additive, order-independent of tiles and tokens, no preparation.
  static vnr_program program(uint32_t program_flags = VNR_ADDS_Y) {
    vnr_program p{};
    p.struct_size = sizeof p;
    p.flags = program_flags;
    p.det_level = 2;
    p.lane_quantum = 1;
    p.token_block_max = UINT32_MAX;
    p.transform_unit = 1;
    p.amplification = 1;
    return p;
  }
  uint64_t transient_bytes(const vnr_site&) const { return 0; }  // beside resident_bytes while staging
  uint64_t opaque_bytes(const vnr_site&, const vnr_limits&) const { return 0; }
  void bias(const vnr_site&, float*, uint64_t) const {}
  void transform(const vnr_site&, const io&, uint32_t, uint32_t) const noexcept {}
  void prepare(const vnr_site&, const io&, uint32_t, uint32_t) const noexcept {}
  void apply(const vnr_site&, const io&, uint64_t, uint64_t) const noexcept {}
  std::string describe(const vnr_site&) const { return "{}"; }
};

namespace detail {

inline int32_t report(vnr_err* err, int32_t code, const char* text) noexcept {
  if (err == nullptr) return code;
  err->code = code;
  err->length = 0;
  if (err->text == nullptr || err->capacity == 0) return code;
  const size_t n = std::strlen(text);
  err->length = static_cast<uint32_t>(n < err->capacity ? n : err->capacity - 1);
  std::memcpy(err->text, text, err->length);
  err->text[err->length] = '\0';
  return code;
}

// Every exception becomes a code and a text.
template <class F>
int32_t guard(vnr_err* err, const F& fn) noexcept {
  try {
    fn();
    return VNR_OK;
  } catch (const error& e) {
    return report(err, e.code, e.what());
  } catch (const std::bad_alloc&) {
    return report(err, VNR_E_NOMEM, "out of memory");
  } catch (const std::exception& e) {
    return report(err, VNR_E_INTERNAL, e.what());
  } catch (...) {
    return report(err, VNR_E_INTERNAL, "unknown exception");
  }
}

template <class T>
T* host_new(const vnr_host* host) {
  void* memory = host->alloc(host, sizeof(T), 64);
  if (memory == nullptr) throw error(VNR_E_BUDGET, "the host refused " + std::to_string(sizeof(T)) + " bytes");
  return new (memory) T();
}
template <class T>
void host_delete(const vnr_host* host, T* object) {
  object->~T();
  host->free(host, object);
}

struct artifact_state {
  const vnr_host* host = nullptr;
};

template <class T>
struct binding_state {
  const vnr_host* host = nullptr;
  vnr_site site{};
  bool is_staged = false;
  T object;
};

template <class T>
struct glue {
  using state = binding_state<T>;
  static state* of(vnr_binding* b) { return reinterpret_cast<state*>(b); }
  static const state* of(const vnr_binding* b) { return reinterpret_cast<const state*>(b); }

  static int32_t open(const vnr_kind*, const vnr_host* host, const vnr_source*, vnr_artifact** out, vnr_err* err) {
    return guard(err, [&] {
      auto* artifact = host_new<artifact_state>(host);
      artifact->host = host;
      *out = reinterpret_cast<vnr_artifact*>(artifact);
    });
  }
  static void close(vnr_artifact* a) {
    auto* artifact = reinterpret_cast<artifact_state*>(a);
    host_delete(artifact->host, artifact);
  }
  static int32_t bind(vnr_artifact* a, const vnr_site* site, const vnr_source* raw, vnr_binding** out, vnr_err* err) {
    const vnr_host* host = reinterpret_cast<artifact_state*>(a)->host;
    state* made = nullptr;
    const int32_t code = guard(err, [&] {
      made = host_new<state>(host);
      made->host = host;
      made->site = *site;
      made->object.bind(*site, source(raw));
    });
    if (code != VNR_OK) {
      if (made != nullptr) host_delete(host, made);
      return code;
    }
    *out = reinterpret_cast<vnr_binding*>(made);
    return VNR_OK;
  }
  static void unbind(vnr_binding* b) { host_delete(of(b)->host, of(b)); }
  static int32_t estimate(const vnr_binding* b, const vnr_limits* limits, vnr_cost* cost, vnr_err* err) {
    return guard(err, [&] {
      const state& s = *of(b);
      cost->shared_bytes = sizeof(artifact_state);
      cost->resident_bytes = sizeof(state) + s.object.resident_bytes(s.site);
      cost->stage_peak_bytes = cost->resident_bytes + s.object.transient_bytes(s.site);
      cost->opaque_bytes = s.object.opaque_bytes(s.site, *limits);
    });
  }
  static int32_t stage(vnr_binding* b, const vnr_limits* limits, const vnr_base_rows* base, vnr_program* out, vnr_err* err) {
    return guard(err, [&] {
      state& s = *of(b);
      if (s.is_staged) throw error(VNR_E_STATE, "staged already");
      const vnr_program program = s.object.stage(stager{&s.site, limits, s.host, base});
      const uint32_t known = out->struct_size < sizeof program ? out->struct_size : static_cast<uint32_t>(sizeof program);
      std::memcpy(out, &program, known);
      out->struct_size = known;
      s.is_staged = true;
    });
  }
  static int32_t weight_rows(const vnr_binding* b, uint64_t row, uint64_t n, float* w, uint64_t ld, vnr_err* err) {
    return guard(err, [&] {
      const state& s = *of(b);
      for (uint64_t i = 0; i < n; i++) s.object.weight_row(s.site, row + i, w + i * ld);
    });
  }
  static int32_t bias(const vnr_binding* b, float* values, uint64_t n, vnr_err* err) {
    return guard(err, [&] { of(b)->object.bias(of(b)->site, values, n); });
  }
  static int32_t describe(const vnr_artifact*, const vnr_binding* b, const vnr_sink* sink, vnr_err* err) {
    return guard(err, [&] {
      const std::string text = b == nullptr ? std::string("{}") : of(b)->object.describe(of(b)->site);
      sink->write(sink->ctx, text.data(), text.size());
    });
  }
  static int32_t transform(const vnr_binding* b, const vnr_io* v, uint32_t u0, uint32_t u1) {
    of(b)->object.transform(of(b)->site, io(v), u0, u1);
    return VNR_OK;
  }
  static int32_t prepare(const vnr_binding* b, const vnr_io* v, uint32_t u0, uint32_t u1) {
    of(b)->object.prepare(of(b)->site, io(v), u0, u1);
    return VNR_OK;
  }
  static int32_t apply(const vnr_binding* b, const vnr_io* v, uint64_t lane0, uint64_t lane1) {
    of(b)->object.apply(of(b)->site, io(v), lane0, lane1);
    return VNR_OK;
  }
  static const void* get_extension(const vnr_kind*, const char* id) {
    return std::strcmp(id, VNR_IMPORT_ID) == 0 ? static_cast<const void*>(T::import()) : nullptr;
  }

  static constexpr uint32_t n_roles = sizeof(T::roles) / sizeof(T::roles[0]);
  struct role_pointers {
    const vnr_role* p[n_roles];
  };
  template <size_t... I>
  static constexpr role_pointers point(std::index_sequence<I...>) {
    return {{&T::roles[I]...}};
  }
  static constexpr role_pointers roles = point(std::make_index_sequence<n_roles>());
  static constexpr vnr_kind kind = {sizeof(vnr_kind), T::flags,   T::site_mask, n_roles,  T::id,       T::version, T::summary,
                                    T::schema,        roles.p,    &open,        &close,   &bind,       &unbind,    &estimate,
                                    &stage,           &weight_rows, &bias,      &describe, &transform, &prepare,   &apply,
                                    &get_extension};
};

template <class... Kinds>
struct kind_list {
  static constexpr const vnr_kind* pointers[] = {&glue<Kinds>::kind...};
  static constexpr uint32_t size = sizeof...(Kinds);
};

}  // namespace detail
}  // namespace veneer

// The one exported object of a plugin. In static builds VENEER_STATIC is its name suffix, so that several can be linked together.
#if defined(VENEER_STATIC)
#define VNR_ENTRY_JOIN_(a, b) a##b
#define VNR_ENTRY_JOIN(a, b) VNR_ENTRY_JOIN_(a, b)
#define VNR_ENTRY_NAME VNR_ENTRY_JOIN(veneer_overlay_entry_v1_, VENEER_STATIC)
#else
#define VNR_ENTRY_NAME veneer_overlay_entry_v1
#endif

#define VENEER_OVERLAY(NAME, VERSION, ...)                                                                              \
  extern "C" {                                                                                                          \
  extern __attribute__((visibility("default"))) const vnr_entry VNR_ENTRY_NAME;                                         \
  const vnr_entry VNR_ENTRY_NAME = {sizeof(vnr_entry), VNR_ABI_MAJOR, VNR_ABI_MINOR, 0, NAME, VERSION, __VERSION__,     \
                                    veneer::detail::kind_list<__VA_ARGS__>::pointers,                                   \
                                    veneer::detail::kind_list<__VA_ARGS__>::size, 0};                                   \
  }

#endif  // VENEER_OVERLAY_HPP_
