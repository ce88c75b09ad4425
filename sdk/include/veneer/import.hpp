// Builders for constant import declarations (veneer/import.h). Constexpr, C++17.
//
//   inline constexpr vnr_import_rule rules[] = {veneer::accept("lora_dropout"), veneer::refuse("x_config", "[null]", …)};
//   inline constexpr auto rule_list = veneer::pointers(rules);
//   inline constexpr vnr_import decl = veneer::import_of("LORA", rule_list, tensor_list);
#ifndef VENEER_IMPORT_HPP_
#define VENEER_IMPORT_HPP_

#include <array>
#include <cstddef>
#include <utility>

#include "veneer/import.h"

namespace veneer {

constexpr vnr_import_rule rule(uint32_t action, const char* key, const char* values, const char* text) {
  return {sizeof(vnr_import_rule), action, key, values, text};
}
constexpr vnr_import_rule accept(const char* key, const char* values = nullptr) { return rule(VNR_CFG_ACCEPT, key, values, nullptr); }
constexpr vnr_import_rule select(const char* key, const char* values) { return rule(VNR_CFG_SELECT, key, values, nullptr); }
constexpr vnr_import_rule refuse(const char* key, const char* values, const char* text) { return rule(VNR_CFG_REFUSE, key, values, text); }
constexpr vnr_import_rule base_changed(const char* key, const char* values, const char* text) {
  return rule(VNR_CFG_BASE_CHANGED, key, values, text);
}

constexpr vnr_import_tensor tensor(const char* suffix, const char* role, uint32_t site_mask) {
  return {sizeof(vnr_import_tensor), 0, site_mask, 0, suffix, role, nullptr, nullptr};
}
constexpr vnr_import_tensor tensor_when(uint32_t flag, const char* key, const char* otherwise, const char* suffix, const char* role,
                                        uint32_t site_mask) {
  return {sizeof(vnr_import_tensor), flag, site_mask, 0, suffix, role, key, otherwise};
}

// The C structs hold arrays of pointers, so that they can grow.
template <class T, std::size_t N, std::size_t... I>
constexpr std::array<const T*, N> pointers_of(const T (&items)[N], std::index_sequence<I...>) {
  return {&items[I]...};
}
template <class T, std::size_t N>
constexpr std::array<const T*, N> pointers(const T (&items)[N]) {
  return pointers_of(items, std::make_index_sequence<N>());
}

template <std::size_t Rules, std::size_t Tensors>
constexpr vnr_import import_of(const char* peft_type, const char* default_targets, const char* rank_symbol, const vnr_import_scale* scale,
                               const std::array<const vnr_import_rule*, Rules>& rules,
                               const std::array<const vnr_import_tensor*, Tensors>& tensors) {
  return {sizeof(vnr_import), Rules, Tensors, 0, peft_type, default_targets, rank_symbol, scale, rules.data(), tensors.data(), nullptr};
}

constexpr vnr_import_gguf_tensor gguf_tensor(const char* suffix, const char* role, uint32_t site_mask, uint32_t flags = 0) {
  return {sizeof(vnr_import_gguf_tensor), flags, site_mask, 0, suffix, role};
}

template <std::size_t Rules, std::size_t Tensors>
constexpr vnr_import_gguf import_gguf_of(const char* adapter_type, const char* rank_symbol, const char* scale_param,
                                         const char* numerator_key, const std::array<const vnr_import_rule*, Rules>& rules,
                                         const std::array<const vnr_import_gguf_tensor*, Tensors>& tensors) {
  return {sizeof(vnr_import_gguf), Rules, Tensors, 0, adapter_type, rank_symbol, scale_param, numerator_key, rules.data(), tensors.data()};
}

}  // namespace veneer

#endif  // VENEER_IMPORT_HPP_
