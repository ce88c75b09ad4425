#include <string>
#include <string_view>

#include "core/format/utf8.h"
#include "core/model/tokenizer.h"

namespace veneer {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

std::string Utf8Stream::Push(std::string_view piece) {
  pending_ += piece;
  std::string text;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const Utf8Step step = StepUtf8(rest);
    if (step.kind == Utf8Step::Kind::kIncomplete) break;
    text += step.kind == Utf8Step::Kind::kValid ? rest.substr(0, step.size) : kReplacement;
    rest.remove_prefix(step.size);
  }
  pending_ = std::string(rest);
  return text;
}

std::string Utf8Stream::Finish() {
  if (pending_.empty()) return "";
  pending_.clear();
  return std::string(kReplacement);
}

}  // namespace veneer
