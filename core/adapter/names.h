// Names of tensors in adapter files: one prefix rule a file, and the errors for names that found no place in the base.
#ifndef VENEER_CORE_ADAPTER_NAMES_H_
#define VENEER_CORE_ADAPTER_NAMES_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/format/safetensors.h"
#include "core/model/base.h"

namespace veneer {

inline constexpr std::string_view kPeftPrefix = "base_model.model.";

// PEFT's prefix, when every tensor of the file has it; else nothing.
std::string_view PrefixOf(const SafetensorsFile& file);

// The name without the prefix, and without the adapter name `default` that some tools leave before the last part
// (`q_proj.lora_A.default.weight`).
std::string PlainName(std::string_view name, std::string_view prefix);

// Whether `matches(path)`, a Result<bool>, holds for the module or for one around it: "a.b.c", "a.b", "a".
template <class Matches>
Result<bool> AnyModuleAround(std::string_view module, Matches&& matches) {
  for (;;) {
    VENEER_ASSIGN(const bool is_match, matches(module));
    const auto dot = module.rfind('.');
    if (is_match || dot == std::string_view::npos) return is_match;
    module = module.substr(0, dot);
  }
}

// Tensors that edit nothing: ignoring one would change what the adapter does.
class Unplaced {
 public:
  void AddStranger(std::string name) { strangers_.push_back(std::move(name)); }  // nothing the kind knows
  void AddHomeless(std::string name) { homeless_.push_back(std::move(name)); }   // of a module that the base does not have
  // E420 at `file` when none of its `total` tensors found a place, else E419 or E405; each shows the first names. `expected` says how
  // a name must look.
  [[nodiscard]] Status Check(std::string_view file, std::size_t total, std::string_view kind, const Base& base,
                             std::string_view expected) const;

 private:
  std::vector<std::string> strangers_, homeless_;
};

}  // namespace veneer

#endif  // VENEER_CORE_ADAPTER_NAMES_H_
