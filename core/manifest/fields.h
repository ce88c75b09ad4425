// Members of a document read with their grammar and limits. What a field may hold is decided here, once, for every document.
#ifndef VENEER_CORE_MANIFEST_FIELDS_H_
#define VENEER_CORE_MANIFEST_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/format/json.h"
#include "core/manifest/composition.h"
#include "core/manifest/decimal.h"

namespace veneer {

// Limits of the documents.
inline constexpr std::size_t kMaxManifestBytes = 1 << 20;
inline constexpr std::size_t kMaxCompositionBytes = 256 << 10;
inline constexpr std::size_t kMaxStatementBytes = 64 << 10;
inline constexpr int kMaxDepth = 8;
inline constexpr std::size_t kMaxItems = 50'000;
inline constexpr std::size_t kMaxAdapters = 64;
inline constexpr std::size_t kMaxTargets = 4096;
inline constexpr std::size_t kMaxParams = 64;

// A value for a message: quoted, escaped, cut after 80 bytes.
std::string Shown(std::string_view text);

struct FieldRule {
  std::string_view name;
  bool required;
};
enum class ExtraFields { kRefused, kAllowed };  // kAllowed: names that begin with "x_"

// The document's `schema` is exactly `schema`; looked at before anything else. E204 no object, E203 absent, E201 another one.
Status CheckSchema(const Json& document, std::string_view schema);
// E204 not an object; E202 for the unknown member that sorts first; E203 for the first required one of `rules` that is absent.
Status CheckFields(const Json& object, std::span<const FieldRule> rules, ExtraFields extra = ExtraFields::kRefused);
bool IsExtraName(std::string_view name);  // x_[a-z0-9_]{1,62}

Result<std::string> ReadName(const Json& value);                             // [a-z0-9][a-z0-9._-]{0,63}, no dot at the end; E205
Result<std::string> ReadId(const Json& value);                               // [A-Za-z0-9][A-Za-z0-9._:+-]{0,127}; E205
Result<std::string> ReadSiteName(const Json& value);                         // [A-Za-z0-9._/-]{1,192}, no segment empty, "." or ".."; E205
Result<Digest> ReadDigest(const Json& value);                                // E209, E210
Result<std::uint64_t> ReadInteger(const Json& value);                        // 0 … 2^53-1; E107
Result<Decimal> ReadWeight(const Json& value);                               // number or string; E208
Result<Decimal> ReadFraction(const Json& value);                             // the same within 0 … 1; E208
Result<std::string> ReadTimestamp(const Json& value);                        // E211
Result<std::string> ReadBaseFormat(const Json& value);                       // gguf | hf; E213
Result<std::string> ReadAdapterFormat(const Json& value);                    // safetensors | gguf; E213
Result<std::string> ReadTiedWeights(const Json& value);                      // separate | forbid; E213
Result<QuantizationClaim> ReadQuantization(const Json& value);               // scheme: symmetric | affine | k | codebook | none, else E213
Result<std::pair<std::string, std::string>> ReadRuntime(const Json& value);  // name, version
Result<std::vector<std::string>> ReadTargets(const Json& value);             // E214 above 4,096, E206 for a name that stands twice
Result<std::vector<ManifestParam>> ReadParams(const Json& value);            // sorted by key; E214 above 64
Result<PluginPin> ReadPlugin(const Json& value);

// The member read with `read`, or nothing when it is absent.
template <class T>
Result<std::optional<T>> ReadOptional(const Json& object, std::string_view name, Result<T> (*read)(const Json&)) {
  const Json* const member = object.Find(name);
  if (member == nullptr) return std::nullopt;
  VENEER_ASSIGN(T value, read(*member));
  return std::optional<T>(std::move(value));
}

template <class T>
Result<T> ReadRequired(const Json& object, std::string_view name, Result<T> (*read)(const Json&)) {
  VENEER_ASSIGN(const Json* member, object.Get(name));
  return read(*member);
}

}  // namespace veneer

#endif  // VENEER_CORE_MANIFEST_FIELDS_H_
