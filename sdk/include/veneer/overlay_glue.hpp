// From a class derived from veneer::overlay to the C table of a kind. Included by veneer/overlay.hpp; not for direct use.
#ifndef VENEER_OVERLAY_GLUE_HPP_
#define VENEER_OVERLAY_GLUE_HPP_

#include "veneer/overlay.hpp"

#if defined(VENEER_STATIC)
#define VENEER_JOIN_(a, b) a##b
#define VENEER_JOIN(a, b) VENEER_JOIN_(a, b)
#define VENEER_ENTRY_SYMBOL VENEER_JOIN(veneer_overlay_entry_v1_, VENEER_STATIC)
#define VENEER_EXPORT
#else
#define VENEER_ENTRY_SYMBOL veneer_overlay_entry_v1
#if defined(_WIN32)
#define VENEER_EXPORT __declspec(dllexport)
#else
#define VENEER_EXPORT __attribute__((visibility("default")))
#endif
#endif

namespace veneer::glue {

// Fills the caller's buffer and returns the code. The text is cut between UTF-8 characters.
inline int32_t report(vnr_err* err, int32_t code, const char* text, uint64_t length) noexcept {
  if (code == VNR_OK) code = VNR_E_INTERNAL;
  if (err == nullptr || !VNR_HAS(err, vnr_err, text)) return code;
  err->code = code;
  err->length = 0;
  if (err->text == nullptr || err->capacity == 0) return code;
  uint64_t n = length < err->capacity - 1 ? length : err->capacity - 1;
  if (n < length)
    while (n > 0 && (static_cast<unsigned char>(text[n]) & 0xC0u) == 0x80u) n--;
  std::memcpy(err->text, text, n);
  err->text[n] = '\0';
  err->length = uint32_t(n);
  return code;
}

// The exception barrier.
template <class Body>
int32_t guard(vnr_err* err, Body&& body) noexcept {
  try {
    body();
    return VNR_OK;
  } catch (const error& e) {
    return report(err, e.code, e.text.data(), e.text.size());
  } catch (const std::bad_alloc&) {
    return report(err, VNR_E_NOMEM, "out of memory", 13);
  } catch (const std::exception& e) {
    return report(err, VNR_E_INTERNAL, e.what(), std::strlen(e.what()));
  } catch (...) {
    return report(err, VNR_E_INTERNAL, "unknown exception", 17);
  }
}

// Structs may be longer or shorter on the other side; the shorter length counts, struct_size of the destination stays.
template <class S>
void copy_struct(S& to, const S& from) noexcept {
  const uint32_t size = to.struct_size, n = size < from.struct_size ? size : from.struct_size;
  std::memcpy(static_cast<void*>(&to), static_cast<const void*>(&from), n < sizeof(S) ? n : sizeof(S));
  to.struct_size = size;
}

inline std::string quoted(const char* text) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string out = "\"";
  for (; *text != '\0'; text++) {
    const auto c = static_cast<unsigned char>(*text);
    if (c < 0x20) {
      out += "\\u00";
      out += hex[c >> 4];
      out += hex[c & 15u];
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += *text;
    }
  }
  return out + "\"";
}

struct artifact_state {
  const vnr_host* host;
};

template <class T, class = void>
struct has_cost : std::false_type {};
template <class T>
struct has_cost<T, std::void_t<decltype(&T::cost)>> : std::true_type {};

template <class T, class Indices>
struct role_list;
template <class T, std::size_t... I>
struct role_list<T, std::index_sequence<I...>> {
  static constexpr const vnr_role* const value[] = {&T::roles[I]...};
};

template <class Plugin, class T>
struct kind_of {
  static constexpr uint32_t n_roles = sizeof(T::roles) / sizeof(T::roles[0]);
  using roles = role_list<T, std::make_index_sequence<n_roles>>;

  enum class phase : uint32_t { bound, staged, failed };
  struct state {  // the site's id lies behind it in the same allocation
    const artifact_state* artifact;
    uint64_t bytes;
    phase at = phase::bound;
    vnr_site site{};
    std::array<vnr_tensor, n_roles> tensors{};
    T object{};
  };
  static state* of(vnr_binding* b) { return reinterpret_cast<state*>(b); }
  static const state* of(const vnr_binding* b) { return reinterpret_cast<const state*>(b); }

  static int32_t open(const vnr_kind*, const vnr_host* host, const vnr_source*, vnr_artifact** out, vnr_err* err) noexcept {
    return guard(err, [&] {
      void* memory = host->alloc(host, sizeof(artifact_state), 64);
      if (memory == nullptr)
        throw error{VNR_E_NOMEM, "the host refused the artifact's " + std::to_string(sizeof(artifact_state)) + " bytes"};
      *out = reinterpret_cast<vnr_artifact*>(new (memory) artifact_state{host});
    });
  }
  static void close(vnr_artifact* artifact) noexcept {
    if (artifact == nullptr) return;
    const vnr_host* host = reinterpret_cast<artifact_state*>(artifact)->host;
    host->free(host, artifact);
  }

  static int32_t bind(vnr_artifact* artifact, const vnr_site* site, const vnr_source* from, vnr_binding** out, vnr_err* err) noexcept {
    return guard(err, [&] {
      const auto* owner = reinterpret_cast<const artifact_state*>(artifact);
      const uint64_t id_size = std::strlen(site->id) + 1, bytes = sizeof(state) + id_size;
      void* memory = owner->host->alloc(owner->host, bytes, 64);
      if (memory == nullptr) throw error{VNR_E_NOMEM, "the host refused the binding's " + std::to_string(bytes) + " bytes"};
      auto* s = new (memory) state{owner, bytes};
      try {
        s->site.struct_size = sizeof(vnr_site);
        copy_struct(s->site, *site);
        char* id = reinterpret_cast<char*>(s + 1);
        std::memcpy(id, site->id, id_size);
        s->site.id = id;
        const source given(*from);
        for (uint32_t i = 0; i < n_roles; i++) {
          s->tensors[i].struct_size = sizeof(vnr_tensor);
          if (const vnr_tensor* tensor = given.find(T::roles[i].name)) copy_struct(s->tensors[i], *tensor);
        }
        s->object.bind(s->site, given);
      } catch (...) {
        destroy(s);
        throw;
      }
      *out = reinterpret_cast<vnr_binding*>(s);
    });
  }
  static void unbind(vnr_binding* binding) noexcept {
    if (binding != nullptr) destroy(of(binding));
  }

  static int32_t estimate(const vnr_binding* binding, const vnr_limits* limits, vnr_cost* out, vnr_err* err) noexcept {
    return guard(err, [&] {
      const state& s = *of(binding);
      costs c;
      if constexpr (has_cost<T>::value) {
        c = s.object.cost(s.site, *limits);
      } else {
        c.resident = s.object.resident_bytes(s.site);
        c.transient = s.object.transient_bytes(s.site);
      }
      vnr_cost cost{};
      cost.struct_size = sizeof(vnr_cost);
      cost.shared_bytes = sizeof(artifact_state);
      cost.resident_bytes = s.bytes + c.resident;
      cost.stage_peak_bytes = cost.resident_bytes + c.transient;
      cost.opaque_bytes = c.opaque;
      const uint64_t needed = cost.shared_bytes + cost.stage_peak_bytes + cost.opaque_bytes;
      if (needed > limits->budget_bytes)
        throw error{VNR_E_BUDGET, "needs " + std::to_string(needed) + " bytes, " + std::to_string(limits->budget_bytes) + " are allowed"};
      copy_struct(*out, cost);
    });
  }

  static int32_t stage(vnr_binding* binding, const vnr_limits* limits, const vnr_base_rows* base, vnr_program* out, vnr_err* err) noexcept {
    state& s = *of(binding);
    if (s.at != phase::bound) return guard(err, [] { throw error{VNR_E_STATE, "stage is allowed once"}; });
    s.at = phase::failed;
    return guard(err, [&] {
      stager st;
      st.site = &s.site;
      st.limits = limits;
      st.host = s.artifact->host;
      st.base = base;
      st.roles = roles::value;
      st.tensors = s.tensors.data();
      st.n_roles = n_roles;
      st.poll();
      program p = s.object.stage(st);
      if (p.flags == program::flags_of_members) p.flags = default_flags();
      if (p.token_block_max == 0) p.token_block_max = limits->max_token_block;
      if (p.det_level < limits->min_det)
        throw error{VNR_E_UNSUPPORTED,
                    "promises determinism level " + std::to_string(p.det_level) + ", the host wants " + std::to_string(limits->min_det)};
      copy_struct(*out, static_cast<const vnr_program&>(p));
      s.at = phase::staged;
    });
  }

  static int32_t weight_rows(const vnr_binding* binding, uint64_t row, uint64_t n, float* w, uint64_t ld, vnr_err* err) noexcept {
    return guard(err, [&] {
      const state& s = staged(binding);
      const uint64_t n_rows = s.site.shape_class == VNR_SITE_VECTOR ? 1 : s.site.out;
      if (row > n_rows || n > n_rows - row)
        throw error{VNR_E_INVALID, "rows " + std::to_string(row) + " + " + std::to_string(n) + " of " + std::to_string(n_rows)};
      for (uint64_t i = 0; i < n; i++) s.object.weight_row(s.site, row + i, w + i * ld);
    });
  }
  static int32_t bias(const vnr_binding* binding, float* b, uint64_t n, vnr_err* err) noexcept {
    return guard(err, [&] {
      const state& s = staged(binding);
      if (n != s.site.out)
        throw error{VNR_E_INVALID, "a bias of " + std::to_string(n) + " elements, the site has " + std::to_string(s.site.out)};
      s.object.bias(s.site, b, n);
    });
  }
  static int32_t describe(const vnr_artifact*, const vnr_binding* binding, const vnr_sink* sink, vnr_err* err) noexcept {
    return guard(err, [&] {
      std::string text = "{\"kind\":" + quoted(T::id);
      if (binding != nullptr) {
        const state& s = *of(binding);
        text += ",\"site\":" + quoted(s.site.id);
        const std::string more = s.object.describe(s.site);
        if (!more.empty()) text += "," + more;
      }
      text += "}";
      sink->write(sink->ctx, text.data(), text.size());
    });
  }

  static int32_t transform(const vnr_binding* binding, const vnr_io* v, uint32_t u0, uint32_t u1) noexcept {
    return guard(nullptr, [&] {
      const state& s = staged(binding);
      s.object.transform(s.site, io{v}, u0, u1);
    });
  }
  static int32_t prepare(const vnr_binding* binding, const vnr_io* v, uint32_t u0, uint32_t u1) noexcept {
    return guard(nullptr, [&] {
      const state& s = staged(binding);
      s.object.prepare(s.site, io{v}, u0, u1);
    });
  }
  static int32_t apply(const vnr_binding* binding, const vnr_io* v, uint64_t lane0, uint64_t lane1) noexcept {
    return guard(nullptr, [&] {
      const state& s = staged(binding);
      s.object.apply(s.site, io{v}, lane0, lane1);
    });
  }
  static const void* get_extension(const vnr_kind*, const char* id) noexcept {
    if (T::import != nullptr && std::strcmp(id, VNR_IMPORT_ID) == 0) return T::import;
    if (T::import_gguf != nullptr && std::strcmp(id, VNR_IMPORT_GGUF_ID) == 0) return T::import_gguf;
    return T::extension(id);
  }

  static constexpr vnr_kind value = {sizeof(vnr_kind), T::flags,  T::site_mask, n_roles,       T::id,  Plugin::version,
                                     T::summary,       T::schema, roles::value, &open,         &close, &bind,
                                     &unbind,          &estimate, &stage,       &weight_rows,  &bias,  &describe,
                                     &transform,       &prepare,  &apply,       &get_extension};

 private:
  static const state& staged(const vnr_binding* binding) {
    const state& s = *of(binding);
    if (s.at != phase::staged) throw error{VNR_E_STATE, "not staged"};
    return s;
  }
  static void destroy(state* s) noexcept {
    const vnr_host* host = s->artifact->host;
    s->~state();
    host->free(host, s);
  }
  // What the overridden members say; a kind that knows better sets program.flags itself.
  static constexpr uint32_t default_flags() {
    uint32_t f = 0;
    if (!std::is_same_v<decltype(&T::apply), decltype(&overlay::apply)>) f |= VNR_ADDS_Y | VNR_SCALES_Y;
    if (!std::is_same_v<decltype(&T::transform), decltype(&overlay::transform)>) f |= VNR_TRANSFORMS_X;
    if (!std::is_same_v<decltype(&T::bias), decltype(&overlay::bias)>) f |= VNR_EDITS_BIAS;
    return f;
  }
};

template <class T>
constexpr bool has_no_shared_role() {
  for (const vnr_role& declared : T::roles)
    if ((declared.flags & VNR_ROLE_SHARED) != 0) return false;
  return true;
}

template <class Plugin, class... Ts>
struct kind_list {
  static constexpr const vnr_kind* const value[] = {&kind_of<Plugin, Ts>::value...};
};

template <class Plugin, class... Ts>
constexpr vnr_entry entry_of() {
  static_assert((std::is_base_of_v<overlay, Ts> && ...), "a kind derives from veneer::overlay");
  static_assert((has_no_shared_role<Ts>() && ...), "shared roles need a kind written against veneer/abi.h");
  static_assert(((alignof(Ts) <= 64) && ...), "host memory is aligned to 64 bytes");
  return {sizeof(vnr_entry),      VNR_ABI_MAJOR,
          VNR_ABI_MINOR,          0,
          Plugin::name,           Plugin::version,
          "C++ wrapper, ABI 1.0", kind_list<Plugin, Ts...>::value,
          sizeof...(Ts),          0};
}

}  // namespace veneer::glue

#endif  // VENEER_OVERLAY_GLUE_HPP_
