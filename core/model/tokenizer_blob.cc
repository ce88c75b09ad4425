#include "core/model/tokenizer_blob.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"

namespace veneer {
namespace {

Result<std::string> ReadName(const GgufFile& file, std::string_view key) {
  VENEER_ASSIGN(std::string name, file.String(key));
  const bool is_clean = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  });
  if (name.empty() || name.size() > 32 || !is_clean)
    return Fail(Code::HEADER_CORRUPT, std::string(key), "must be 1 to 32 letters, digits, '.', '_' or '-'");
  return name;
}

}  // namespace

Result<TokenizerBlob> ReadTokenizerBlob(const GgufFile& file) {
  constexpr std::string_view kModel = "tokenizer.ggml.model", kPre = "tokenizer.ggml.pre";
  TokenizerBlob blob;
  blob.id = "gguf-none";
  if (file.Find(kModel) != nullptr) {
    VENEER_ASSIGN(const std::string model, ReadName(file, kModel));
    blob.id = "gguf-" + model;
    if (file.Find(kPre) != nullptr) {
      VENEER_ASSIGN(const std::string pre, ReadName(file, kPre));
      blob.id += "-" + pre;
    }
  }
  std::vector<const GgufValue*> values;
  for (const GgufValue& value : file.values())
    if (value.key.starts_with("tokenizer.")) values.push_back(&value);
  std::ranges::sort(values, {}, &GgufValue::key);
  for (const GgufValue* const value : values) blob.bytes += AsText(value->record);
  return blob;
}

}  // namespace veneer
