// Replacement tensors in a PEFT checkpoint: modules_to_save, saved copies of embedding and head, trained biases, trainable tokens.
#ifndef VENEER_CORE_ADAPTER_PEFT_REPLACEMENTS_H_
#define VENEER_CORE_ADAPTER_PEFT_REPLACEMENTS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/adapter/adapter.h"
#include "core/adapter/peft_config.h"
#include "core/adapter/replacement.h"
#include "core/model/base.h"

namespace veneer {

// Source: PEFT's utils/save_and_load.py and utils/other.py (adapter-formats a.4, a.5).
class PeftReplacements {
 public:
  static Result<PeftReplacements> Parse(const PeftConfig& config, const Base& base);

  // Takes the tensor when its name says that it replaces something of the base; `name` is plain. E419 for one that the configuration
  // does not account for, E404 for another shape.
  Result<bool> Take(std::string_view name, const TensorView& tensor);

  // Everything the configuration promises is there (E405). Copies that equal the base are left out, with a note for each; the others
  // are noted as replacements, one for a site (E216). Sorted by site.
  Result<std::vector<Replacement>> Finish(std::vector<IgnoredTensor>& ignored, std::vector<std::string>& notes) &&;

 private:
  PeftReplacements(const PeftConfig& config, const Base& base) : config_(&config), base_(&base) {}
  Status TakeRows(const Site& site, const TensorView& tensor);
  [[nodiscard]] const Json* TokenListOf(std::string_view site) const;  // nullptr when there is none
  Result<std::vector<std::uint64_t>> TokensOf(const Site& site) const;
  [[nodiscard]] Status CheckExpected(const Site& site, std::string_view module, std::string_view name, bool is_copy) const;
  void TieRows();
  [[nodiscard]] Status CheckTokenLists() const;

  const PeftConfig* config_;
  const Base* base_;
  std::optional<ModuleList> saved_;  // modules_to_save
  bool has_biases_ = false;          // bias = "all" or "lora_only"
  std::vector<Replacement> taken_;
};

}  // namespace veneer

#endif  // VENEER_CORE_ADAPTER_PEFT_REPLACEMENTS_H_
