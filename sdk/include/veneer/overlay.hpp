// The plugin contract as C++17 classes: derive from `overlay`, override what the kind needs, end with VENEER_OVERLAY(T, name, version).
// Header only, standard headers only, everything inlined and hidden. Rules of the contract: sdk/ABI.md.
//
//   struct my_kind : veneer::overlay {
//     static constexpr const char* id = "example.kind";       summary, schema likewise; flags and site_mask if not the defaults
//     static constexpr vnr_role roles[] = {veneer::role("A", veneer::sym('r'), veneer::IN)};
//     void bind(const vnr_site&, const veneer::source&);      read parameters, check indices; no allocation
//     uint64_t resident_bytes(const vnr_site&) const;         exactly what stage allocates and keeps
//     uint64_t transient_bytes(const vnr_site&) const;        what stage allocates and frees again
//     veneer::program stage(const veneer::stager&);
//     void prepare(…) / apply(…) / transform(…) const noexcept;   the hot calls
//     void weight_row(…) const;  void bias(…) const;              the same edit in weight space
//   };
//
// A function reports failure by throwing `error`; whatever is thrown becomes a code and a text, nothing unwinds into the host.
// Shared roles (VNR_ROLE_SHARED) are not covered: such a kind is written against veneer/abi.h.
#ifndef VENEER_OVERLAY_HPP_
#define VENEER_OVERLAY_HPP_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "veneer/abi.h"
#include "veneer/import.h"

namespace veneer {

struct error {
  int32_t code;  // VNR_E_*
  std::string text;
};

// ---- declarations ----

inline constexpr uint32_t IN = VNR_DIM_IN, OUT = VNR_DIM_OUT;
constexpr uint32_t sym(char letter) { return VNR_DIM(letter); }
inline constexpr uint32_t float_types = VNR_BIT(VNR_F32) | VNR_BIT(VNR_F16) | VNR_BIT(VNR_BF16);

// A role of any float type: role("A", sym('r'), IN). Flags and types can be changed: with(role(…), VNR_ROLE_OPTIONAL).
template <class... Dims>
constexpr vnr_role role(const char* name, Dims... dims) {
  static_assert(sizeof...(Dims) <= 4, "a tensor has at most four dimensions");
  return {sizeof(vnr_role), 0, sizeof...(Dims), float_types, {uint32_t(dims)...}, name};
}
constexpr vnr_role with(vnr_role declared, uint32_t flags, uint32_t dtype_mask = 0) {
  declared.flags |= flags;
  if (dtype_mask != 0) declared.dtype_mask = dtype_mask;
  return declared;
}

// ---- memory from the host, counted against the budget; 64-byte aligned, not initialised ----

template <class T>
class buf {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>, "plain data only");

 public:
  buf() = default;
  buf(const vnr_host* host, uint64_t count) : host_(host), size_(count) {
    if (count == 0) return;
    if (count > UINT64_MAX / sizeof(T)) throw error{VNR_E_NOMEM, "size overflow"};
    data_ = static_cast<T*>(host->alloc(host, count * sizeof(T), 64));
    if (data_ == nullptr) throw error{VNR_E_NOMEM, "the host refused " + std::to_string(count * sizeof(T)) + " bytes"};
  }
  buf(buf&& other) noexcept { swap(other); }
  buf& operator=(buf&& other) noexcept {
    buf(std::move(other)).swap(*this);
    return *this;
  }
  ~buf() {
    if (data_ != nullptr) host_->free(host_, data_);
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  uint64_t size() const { return size_; }
  T& operator[](uint64_t i) { return data_[i]; }
  const T& operator[](uint64_t i) const { return data_[i]; }

 private:
  void swap(buf& other) noexcept {
    std::swap(host_, other.host_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  const vnr_host* host_ = nullptr;
  T* data_ = nullptr;
  uint64_t size_ = 0;
};

// ---- exact conversions to f32 ----

inline float bits_to_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline float from_bf16(uint16_t value) { return bits_to_float(uint32_t(value) << 16); }
inline float from_f16(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000u) << 16, magnitude = half & 0x7FFFu;
  if (magnitude >= 0x7C00u) return bits_to_float(sign | 0x7F800000u | (magnitude & 0x3FFu) << 13);  // infinity, NaN
  if (magnitude >= 0x0400u) return bits_to_float(sign | ((magnitude << 13) + 0x38000000u));         // normal: exponent bias 15 -> 127
  const float tiny = float(magnitude) * 0x1p-24f;                                                   // subnormal, zero
  return sign != 0 ? -tiny : tiny;
}
inline uint64_t size_of_type(uint32_t dtype) {
  switch (dtype) {
    case VNR_I8:
    case VNR_U8:
    case VNR_BOOL:
      return 1;
    case VNR_F16:
    case VNR_BF16:
    case VNR_I16:
    case VNR_U16:
      return 2;
    case VNR_F32:
    case VNR_I32:
    case VNR_U32:
      return 4;
    case VNR_F64:
    case VNR_I64:
    case VNR_U64:
      return 8;
    default:
      throw error{VNR_E_UNSUPPORTED, "element type " + std::to_string(dtype)};
  }
}
// Element i of a tensor of a float type.
inline float element(const vnr_tensor& tensor, uint64_t i) {
  const auto* bytes = static_cast<const unsigned char*>(tensor.data);
  uint16_t half;
  switch (tensor.dtype) {
    case VNR_F32: {
      float value;
      std::memcpy(&value, bytes + 4 * i, 4);
      return value;
    }
    case VNR_F64: {
      double value;
      std::memcpy(&value, bytes + 8 * i, 8);
      return float(value);
    }
    case VNR_F16:
      std::memcpy(&half, bytes + 2 * i, 2);
      return from_f16(half);
    case VNR_BF16:
      std::memcpy(&half, bytes + 2 * i, 2);
      return from_bf16(half);
    default:
      throw error{VNR_E_UNSUPPORTED, "element type " + std::to_string(tensor.dtype) + " is no float type"};
  }
}
inline uint64_t element_count(const vnr_tensor& tensor) {
  uint64_t count = 1;
  for (uint32_t i = 0; i < tensor.rank; i++) count *= tensor.dims[i];  // the host has checked the product against nbytes
  return count;
}
// Whether all elements are +0 or -0. Ends at the first other one.
inline bool is_zero(const vnr_tensor& tensor) {
  const uint64_t n = element_count(tensor);
  for (uint64_t i = 0; i < n; i++)
    if (element(tensor, i) != 0) return false;
  return true;
}

// ---- fixed-order arithmetic: element i goes to lane i mod 8, then a fixed tree. Same bits for any tile, batch or alignment. ----

inline float dot(const float* a, const float* b, uint64_t n) noexcept {
  float lane[8] = {};
  uint64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (uint64_t j = 0; j < 8; j++) lane[j] += a[i + j] * b[i + j];
  for (uint64_t j = 0; i + j < n; j++) lane[j] += a[i + j] * b[i + j];
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}
inline void axpy(float* y, float scale, const float* x, uint64_t n) noexcept {  // y += scale * x
  for (uint64_t i = 0; i < n; i++) y[i] += scale * x[i];
}

// ---- what the host hands over ----

class source {  // valid inside bind
 public:
  explicit source(const vnr_source& from) : from_(&from) {}

  const vnr_tensor* find(const char* role_name) const {
    for (uint32_t i = 0; i < from_->n_tensors; i++)
      if (std::strcmp(from_->roles[i], role_name) == 0) return from_->tensors[i];
    return nullptr;
  }
  const vnr_tensor& get(const char* role_name) const {
    if (const vnr_tensor* tensor = find(role_name)) return *tensor;
    throw error{VNR_E_INVALID, std::string("tensor ") + role_name + " is missing"};
  }
  double number(const char* path, double otherwise) const {
    const vnr_param* param = find_param(path);
    if (param == nullptr) return otherwise;
    if (param->type == VNR_PARAM_NUMBER) return param->d;
    if (param->type == VNR_PARAM_INT) return double(param->i);
    throw error{VNR_E_INVALID, std::string(path) + " is no number"};
  }
  int64_t integer(const char* path, int64_t otherwise) const {
    const vnr_param* param = find_param(path);
    if (param == nullptr) return otherwise;
    if (param->type != VNR_PARAM_INT && param->type != VNR_PARAM_BOOL) throw error{VNR_E_INVALID, std::string(path) + " is no integer"};
    return param->i;
  }
  std::string text(const char* path, const char* otherwise) const {
    const vnr_param* param = find_param(path);
    if (param == nullptr) return otherwise;
    if (param->type != VNR_PARAM_STRING) throw error{VNR_E_INVALID, std::string(path) + " is no string"};
    return std::string(param->s.data, param->s.size);
  }
  double strength() const { return number(VNR_PARAM_STRENGTH, 1.0); }  // merge_weight

 private:
  const vnr_param* find_param(const char* path) const {
    for (uint32_t i = 0; i < from_->n_params; i++)
      if (std::strcmp(from_->params[i]->path, path) == 0) return from_->params[i];
    return nullptr;
  }
  const vnr_source* from_;
};

class stager {  // valid inside stage
 public:
  const vnr_site* site = nullptr;
  const vnr_limits* limits = nullptr;
  const vnr_host* host = nullptr;

  const vnr_tensor* find(const char* role_name) const {
    for (uint32_t i = 0; i < n_roles; i++)
      if (tensors[i].data != nullptr && std::strcmp(roles[i]->name, role_name) == 0) return &tensors[i];
    return nullptr;
  }
  const vnr_tensor& get(const char* role_name) const {
    if (const vnr_tensor* tensor = find(role_name)) return *tensor;
    throw error{VNR_E_INVALID, std::string("tensor ") + role_name + " is missing"};
  }
  template <class T = float>
  buf<T> alloc(uint64_t count) const {
    return buf<T>(host, count);
  }
  // The tensor as f32, whatever float type it is stored in.
  buf<float> load(const char* role_name) const {
    const vnr_tensor& tensor = get(role_name);
    buf<float> out(host, element_count(tensor));
    for (uint64_t i = 0; i < out.size(); i++) out[i] = element(tensor, i);
    poll();
    return out;
  }
  // The tensor's own bytes.
  buf<unsigned char> copy(const char* role_name) const {
    const vnr_tensor& tensor = get(role_name);
    buf<unsigned char> out(host, tensor.nbytes);
    if (tensor.nbytes != 0) std::memcpy(out.data(), tensor.data, tensor.nbytes);
    poll();
    return out;
  }
  // fn(row, w) for every row of the effective predecessor W_{j-1}; w may be written to. Takes one row of transient memory.
  template <class Fn>
  void each_base_row(Fn&& fn) const {
    if (base == nullptr) throw error{VNR_E_STATE, "no base rows: the kind must say VNR_KIND_NEEDS_BASE_ROWS"};
    const bool is_vector = site->shape_class == VNR_SITE_VECTOR;
    const uint64_t n_rows = is_vector ? 1 : site->out, length = is_vector ? site->out : site->in;
    buf<float> row(host, length);
    for (uint64_t o = 0; o < n_rows; o++) {
      poll();
      if (const int32_t code = base->read(base->ctx, o, 1, row.data(), length))
        throw error{code, "reading row " + std::to_string(o) + " of the base failed"};
      fn(o, row.data());
    }
  }
  void poll() const {  // call it at least every few milliseconds
    if (host->cancelled(host) != 0) throw error{VNR_E_CANCELLED, "cancelled"};
  }

  // Set by the wrapper.
  const vnr_base_rows* base = nullptr;
  const vnr_role* const* roles = nullptr;
  const vnr_tensor* tensors = nullptr;  // by role; data is NULL where none was given
  uint32_t n_roles = 0;
};

struct costs {
  uint64_t resident = 0, transient = 0, opaque = 0;  // bytes; opaque: memory that cannot come from the host, a bound
};

// Defaults: flags as the overridden members say, results independent of tiles and batch (D2: say det_level = 1 if not), one lane at a
// time, no preparation, as many tokens a call as the host likes.
struct program : vnr_program {
  static constexpr uint32_t flags_of_members = UINT32_MAX;
  program() : vnr_program{} {
    struct_size = sizeof(vnr_program);
    flags = flags_of_members;
    det_level = 2;
    lane_quantum = 1;
    transform_unit = 64;
    amplification = 16;
  }
};

struct io {  // one hot call
  const vnr_io* raw;

  uint32_t T() const noexcept { return raw->tokens; }
  const float* x(uint32_t t) const noexcept { return raw->x + t * raw->x_stride; }
  float* x_out(uint32_t t) const noexcept { return raw->x_out + t * raw->x_out_stride; }
  float* y(uint32_t t) const noexcept { return raw->y + t * raw->y_stride; }  // y(t)[lane]
  float* prep(uint32_t t) const noexcept { return prepared<float>(t); }
  template <class P>
  P* prepared(uint32_t t) const noexcept {
    return reinterpret_cast<P*>(static_cast<unsigned char*>(raw->prepared) + t * raw->prepared_stride);
  }
  template <class P>
  P* scratch() const noexcept {
    return static_cast<P*>(raw->scratch);
  }
  int32_t id(uint32_t t) const noexcept { return raw->ids[t]; }
};

// Base class of a kind; one object per (artifact, site). A kind hides the members it changes.
struct overlay {
  static constexpr uint32_t flags = 0;  // VNR_KIND_*
  static constexpr uint32_t site_mask = VNR_BIT(VNR_SITE_LINEAR);
  static constexpr const vnr_import* import = nullptr;            // veneer.import/1
  static constexpr const vnr_import_gguf* import_gguf = nullptr;  // veneer.import.gguf/1
  static const void* extension(const char*) noexcept { return nullptr; }

  void bind(const vnr_site&, const source&) {}
  uint64_t resident_bytes(const vnr_site&) const { return 0; }
  uint64_t transient_bytes(const vnr_site&) const { return 0; }
  // Instead of the two above when memory depends on the limits:  costs cost(const vnr_site&, const vnr_limits&) const;
  void weight_row(const vnr_site&, uint64_t, float*) const {}  // row of W_{j-1} -> row of W_j; VECTOR: the whole vector
  void bias(const vnr_site&, float*, uint64_t) const {}        // b_{j-1} -> b_j
  std::string describe(const vnr_site&) const { return {}; }   // members of a JSON object: "rank":16,"scale":2
  void transform(const vnr_site&, const io&, uint32_t, uint32_t) const noexcept {}  // units [u0, u1) of x_out = T_j x
  void prepare(const vnr_site&, const io&, uint32_t, uint32_t) const noexcept {}
  void apply(const vnr_site&, const io&, uint64_t, uint64_t) const noexcept {}  // lanes [l0, l1) of y = G_j y + D_j x
};

}  // namespace veneer

#include "veneer/overlay_glue.hpp"

// Ends a plugin with one kind, or with several: VENEER_OVERLAYS(name, version, T1, T2). Use it once, at namespace scope.
// In static builds VENEER_STATIC is the suffix of the entry's name: -DVENEER_STATIC=lora makes veneer_overlay_entry_v1_lora.
#define VENEER_OVERLAY(T, plugin_name, plugin_version) VENEER_OVERLAYS(plugin_name, plugin_version, T)
#define VENEER_OVERLAYS(plugin_name, plugin_version, ...)                                            \
  namespace {                                                                                        \
  struct veneer_plugin_info {                                                                        \
    static constexpr const char* name = plugin_name;                                                 \
    static constexpr const char* version = plugin_version;                                           \
  };                                                                                                 \
  }                                                                                                  \
  extern "C" {                                                                                       \
  extern VENEER_EXPORT const vnr_entry VENEER_ENTRY_SYMBOL;                                          \
  const vnr_entry VENEER_ENTRY_SYMBOL = ::veneer::glue::entry_of<veneer_plugin_info, __VA_ARGS__>(); \
  }

#endif  // VENEER_OVERLAY_HPP_
