#include "core/adapter/pattern.h"

#include <fmt/format.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace veneer {
namespace {

constexpr std::size_t kMaxExpression = 64 << 10;
// A module path has some forty characters: honest expressions need a few hundred steps. 20'000 steps take about a millisecond.
constexpr std::uint32_t kMatchLimit = 20'000, kDepthLimit = 1'000, kHeapKilobytes = 1'024;

PCRE2_SPTR Bytes(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

struct Pattern::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

Result<Pattern> Pattern::Compile(const std::string& expression, std::string_view at) {
  if (expression.size() > kMaxExpression) return Fail(veneer::Code::LIMIT, std::string(at), "the expression is longer than 64 KiB");
  int error = 0;
  std::size_t offset = 0;
  auto code = std::make_shared<Code>();
  code->code = pcre2_compile(Bytes(expression), expression.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C,
                             &error, &offset, nullptr);
  if (code->code == nullptr) {
    PCRE2_UCHAR text[128];
    pcre2_get_error_message(error, text, sizeof text);
    return Fail(
        veneer::Code::SYNTAX, std::string(at),
        fmt::format("'{}' is no regular expression: {} at {}", expression.substr(0, 80), reinterpret_cast<const char*>(text), offset));
  }
  return Pattern(std::move(code), std::string(at));
}

Result<Pattern> Pattern::Full(std::string_view expression, std::string_view at) { return Compile(fmt::format("(?:{})", expression), at); }
Result<Pattern> Pattern::ModuleKey(std::string_view key, std::string_view at) { return Compile(fmt::format("(?:.*\\.)?(?:{})", key), at); }

Result<bool> Pattern::Matches(std::string_view path) const {
  const std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context(pcre2_match_context_create(nullptr),
                                                                                          pcre2_match_context_free);
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(pcre2_match_data_create(1, nullptr),
                                                                                 pcre2_match_data_free);
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_depth_limit(context.get(), kDepthLimit);
  pcre2_set_heap_limit(context.get(), kHeapKilobytes);
  const int verdict = pcre2_match(code_->code, Bytes(path), path.size(), 0, 0, data.get(), context.get());
  if (verdict >= 0) return true;
  if (verdict == PCRE2_ERROR_NOMATCH) return false;
  return Fail(veneer::Code::LIMIT, at_, fmt::format("the expression takes too long on '{}'; write a simpler one", path));
}

}  // namespace veneer
