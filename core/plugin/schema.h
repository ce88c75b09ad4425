// The parameters a kind accepts: a closed subset of JSON Schema, one flat object of typed members with bounds.
//
// Understood: at the top "type": "object", "properties", "required", "additionalProperties": false; per member "type" (number,
// integer, string, boolean), "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "maxLength", "enum", "default"; "title"
// and "description" on both levels. Any other keyword is refused: a rule that is not enforced must not look as if it were.
#ifndef VENEER_CORE_PLUGIN_SCHEMA_H_
#define VENEER_CORE_PLUGIN_SCHEMA_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/format/json.h"
#include "veneer/abi.h"

namespace veneer {

struct ParamValue {  // typed by VNR_PARAM_*
  std::string path;  // "/scale"
  std::uint32_t type = VNR_PARAM_NUMBER;
  std::int64_t i = 0;
  double d = 0;
  std::string s;
};

inline ParamValue NumberParam(std::string path, double value) {
  ParamValue param;
  param.path = std::move(path);
  param.d = value;
  return param;
}

struct ParamRule {
  std::string path;  // JSON pointer
  std::uint32_t type = VNR_PARAM_NUMBER;
  bool is_required = false;
  std::optional<double> minimum, maximum;
  bool excludes_minimum = false, excludes_maximum = false;
  std::uint64_t max_length = 4096;  // bytes of a string
  std::vector<ParamValue> choices;  // empty: any value within the bounds
};

class ParamSchema {
 public:
  // E417 for anything outside the subset, `at` being the place of the schema.
  static Result<ParamSchema> Parse(std::string_view text, std::string_view at);

  [[nodiscard]] const std::vector<ParamRule>& rules() const { return rules_; }
  [[nodiscard]] const ParamRule* Find(std::string_view path) const;
  // Every value known, typed, in bounds and given once (E213); everything required present (E203). The reserved number `/strength` is
  // accepted under every schema.
  [[nodiscard]] Status Check(std::span<const ParamValue> params, std::string_view at) const;
  // `value` as the type that the schema gives `path`; E213 for an unknown path, another type or a value out of bounds.
  [[nodiscard]] Result<ParamValue> Typed(std::string_view path, const Json& value, std::string_view at) const;

 private:
  std::vector<ParamRule> rules_;
};

// Parse and Check in one.
Status CheckParams(std::string_view schema, std::span<const ParamValue> params, std::string_view at);

}  // namespace veneer

#endif  // VENEER_CORE_PLUGIN_SCHEMA_H_
