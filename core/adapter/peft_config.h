// adapter_config.json: the keys common to all tuners, and the rules that a kind declares for its own.
#ifndef VENEER_CORE_ADAPTER_PEFT_CONFIG_H_
#define VENEER_CORE_ADAPTER_PEFT_CONFIG_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/adapter/pattern.h"
#include "core/base/error.h"
#include "core/format/json.h"
#include "core/model/base.h"
#include "core/plugin/catalog.h"
#include "core/plugin/schema.h"

namespace veneer {

// Which modules a configuration key lists: a regular expression (full match), or a list of names or suffixes.
class ModuleList {
 public:
  enum class Suffix { kDotted, kPlain };  // list entries match exactly or as ".entry"; or as any ending
  static Result<ModuleList> Parse(const Json& value, Suffix suffix);
  [[nodiscard]] Result<bool> Matches(std::string_view module) const;

 private:
  std::optional<Pattern> pattern_;
  std::vector<std::string> names_;
  Suffix suffix_ = Suffix::kDotted;
};

class PeftConfig {
 public:
  // Syntax, the common keys, and the one kind that takes it (`wanted`: only this kind). E401, E415, E416, E418.
  static Result<PeftConfig> Parse(std::string_view text, const Catalog& catalog, std::string_view wanted);

  [[nodiscard]] const KindDecl& kind() const { return *kind_; }
  [[nodiscard]] const ImportDecl& import() const { return *kind_->import; }
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  [[nodiscard]] const Json* Find(std::string_view key) const;  // nullptr for absent and null

  // Ids of the base's sites that the configuration targets, sorted.
  [[nodiscard]] Result<std::vector<std::string>> Targets(const Base& base) const;
  // Whether `key` lists the module, with the declaration's default (JSON object architecture -> list) for an absent key.
  [[nodiscard]] Result<bool> Lists(const std::string& key, const std::string& default_json, const std::string& arch,
                                   std::string_view module) const;
  // The configured rank of a module; nothing for kinds without one.
  [[nodiscard]] Result<std::optional<std::uint64_t>> RankOf(std::string_view module) const;
  // A note for each rank or alpha pattern that matches none of these modules, and so says nothing, as in PEFT.
  [[nodiscard]] Result<std::vector<std::string>> UnmatchedPatterns(const std::vector<std::string>& modules) const;
  // The declaration's computed scale; nothing for kinds without one.
  [[nodiscard]] Result<std::optional<double>> ScaleOf(std::string_view module) const;
  // Parameters copied from configuration keys.
  [[nodiscard]] Result<std::vector<ParamValue>> Params() const;

 private:
  Status CheckCommon();
  Status SelectKind(const Catalog& catalog, std::string_view wanted);
  Status ApplyRules() const;
  struct ModuleNumbers {  // a number with exceptions for some modules, by pattern; the first match wins
    struct Exception {
      std::string key;
      Pattern pattern;
      double number;
    };
    double otherwise = 0;
    std::vector<Exception> exceptions;
    [[nodiscard]] Result<double> Of(std::string_view module) const;
  };
  Status ReadScale();
  [[nodiscard]] Result<ModuleNumbers> ReadNumbers(const std::string& pattern_key, const std::string& key, double otherwise) const;

  std::shared_ptr<const Json> document_;
  const KindDecl* kind_ = nullptr;
  ModuleNumbers numerator_, denominator_;  // of the declaration's scale
  bool takes_root_ = false;
  std::vector<std::string> notes_;
};

}  // namespace veneer

#endif  // VENEER_CORE_ADAPTER_PEFT_CONFIG_H_
