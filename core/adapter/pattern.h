// Regular expressions of PEFT configurations (Python's re), through PCRE2 with limits, so that a hostile one cannot hang.
#ifndef VENEER_CORE_ADAPTER_PATTERN_H_
#define VENEER_CORE_ADAPTER_PATTERN_H_

#include <memory>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace veneer {

class Pattern {
 public:
  // re.fullmatch(text, path). E103 with PCRE2's reason for an expression that does not compile.
  static Result<Pattern> Full(std::string_view expression, std::string_view at);
  // Keys of rank_pattern and alpha_pattern: re.match("(.*\.)?(KEY)$", path).
  static Result<Pattern> ModuleKey(std::string_view key, std::string_view at);

  // E214 when the match limit was reached.
  [[nodiscard]] Result<bool> Matches(std::string_view path) const;

 private:
  struct Code;
  Pattern(std::shared_ptr<const Code> code, std::string at) : code_(std::move(code)), at_(std::move(at)) {}
  static Result<Pattern> Compile(const std::string& expression, std::string_view at);
  std::shared_ptr<const Code> code_;
  std::string at_;
};

}  // namespace veneer

#endif  // VENEER_CORE_ADAPTER_PATTERN_H_
