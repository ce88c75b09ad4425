#include "core/store/refs.h"

#include <fmt/format.h>

#include <utility>

#include "core/format/json.h"
#include "core/manifest/canonical.h"
#include "core/store/crc32c.h"

namespace veneer {
namespace {

constexpr std::string_view kHeader = "veneer-ref 1\n";
constexpr std::size_t kMaxName = 64;

void CollectDigests(const Json& json, std::vector<Digest>& digests) {
  if (json.is_string()) {
    if (const auto digest = ParseDigest(json.text, "")) digests.push_back(*digest);
  }
  for (const Json& element : json.elements) CollectDigests(element, digests);
  for (const auto& member : json.members) CollectDigests(member.second, digests);
}

}  // namespace

Status CheckRefName(std::string_view name) {
  constexpr std::string_view kFirst = "abcdefghijklmnopqrstuvwxyz0123456789";
  constexpr std::string_view kRest = "abcdefghijklmnopqrstuvwxyz0123456789._-";
  const bool valid = !name.empty() && name.size() <= kMaxName && kFirst.find(name.front()) != std::string_view::npos &&
                     name.find_first_not_of(kRest) == std::string_view::npos && name.back() != '.';
  if (valid) return {};
  return Fail(
      Code::NAME_INVALID, "/name",
      fmt::format("{} is no name; allowed are 1 to 64 of a-z 0-9 . _ -, a letter or digit first and no dot at the end", JsonQuote(name)));
}

Status CheckRef(const Ref& ref) {
  VENEER_TRY(CheckRefName(ref.name));
  VENEER_ASSIGN(const Json json, ParseJson(ref.record, kRefLimits));
  if (!json.is_object()) return Fail(Code::FIELD_TYPE, "", "the record of a name is a JSON object");
  VENEER_ASSIGN(const std::string canonical, CanonicalText(json));
  VENEER_TRY(CheckCanonicalBytes(ref.record, canonical));
  if (ref.kind == RefKind::kComposition && !CompositionOf(ref.record))
    return Fail(Code::FIELD_MISSING, "/composition", "the record of a composition names its id");
  return {};
}

std::string PrintRef(std::string_view record) { return WithCrcLine(fmt::format("{}{}\n", kHeader, record)); }

std::optional<std::string> ParseRef(std::string_view text) {
  const auto body = CheckCrcLine(text);
  if (!body || !body->starts_with(kHeader)) return std::nullopt;
  return std::string(body->substr(kHeader.size(), body->size() - kHeader.size() - 1));
}

std::vector<Digest> DigestsIn(std::string_view record) {
  std::vector<Digest> digests;
  if (const auto json = ParseJson(record, kRefLimits)) CollectDigests(*json, digests);
  return digests;
}

std::optional<Digest> CompositionOf(std::string_view record) {
  const auto json = ParseJson(record, kRefLimits);
  if (!json) return std::nullopt;
  const Json* const member = json->Find("composition");
  if (member == nullptr || !member->is_string()) return std::nullopt;
  const auto digest = ParseDigest(member->text, "/composition");
  return digest ? std::optional(*digest) : std::nullopt;
}

Status WriteRef(const StoreContext& store, const Ref& ref) {
  VENEER_TRY(CheckRef(ref));
  return ReplaceFile(*store.sys, store.ref_dir(ref.kind), ref.name, PrintRef(ref.record), kPrivatePermissions);
}

Result<bool> RemoveRef(const StoreContext& store, RefKind kind, const std::string& name) {
  VENEER_TRY(CheckRefName(name));
  const Dir& dir = store.ref_dir(kind);
  VENEER_ASSIGN(const auto text, ReadSmallFile(*store.sys, dir, name, kMaxRefBytes + 64));
  if (!text) return false;
  VENEER_TRY(RemoveFile(*store.sys, dir, name));
  VENEER_TRY(SyncVisible(*store.sys, dir, name));
  return true;
}

Result<Ref> ReadRef(const StoreContext& store, RefKind kind, const std::string& name) {
  VENEER_TRY(CheckRefName(name));
  const Dir& dir = store.ref_dir(kind);
  VENEER_ASSIGN(const auto text, ReadSmallFile(*store.sys, dir, name, kMaxRefBytes + 64));
  if (!text) return Fail(Code::BLOB_MISSING, dir.At(name), fmt::format("no {} of the name \"{}\" in the store", RefKindName(kind), name));
  auto record = ParseRef(*text);
  if (!record) return Fail(Code::STATE_CORRUPT, dir.At(name), "its checksum does not fit; give the name again");
  Ref ref{kind, name, *std::move(record)};
  if (const auto valid = CheckRef(ref); !valid) return Fail(Code::STATE_CORRUPT, dir.At(name), valid.error().Text());
  return ref;
}

Result<std::vector<Ref>> ReadRefs(const StoreContext& store, RefKind kind) {
  VENEER_ASSIGN(const auto names, ListNames(*store.sys, store.ref_dir(kind)));
  std::vector<Ref> refs;
  for (const std::string& name : names) {
    if (IsBesideName(name)) continue;  // being written, or left by a crash
    VENEER_ASSIGN(Ref ref, ReadRef(store, kind, name));
    refs.push_back(std::move(ref));
  }
  return refs;
}

}  // namespace veneer
