#include "core/store/index.h"

#include <fmt/format.h>

#include <vector>

#include "core/manifest/canonical.h"
#include "core/store/blobs.h"
#include "core/store/live.h"
#include "core/store/recovery.h"
#include "core/store/refs.h"

namespace veneer {
namespace {

constexpr std::uint64_t kMaxIndexBytes = 16 << 20;
constexpr std::string_view kIndexType = "application/vnd.oci.image.index.v1+json";
constexpr std::string_view kCompositionType = "application/vnd.veneer.composition.v1+json";
constexpr std::string_view kNameAnnotation = "org.opencontainers.image.ref.name";
constexpr std::string_view kGenerationAnnotation = "veneer.generation";

void AddDescriptor(const StoreContext& store, const Digest& composition, std::string_view annotation, std::string_view value,
                   std::vector<std::string>& descriptors) {
  const auto blob = OpenBlobFile(store, {std::string(kIndexName), composition, std::nullopt});
  if (!blob) return;
  descriptors.push_back(CanonicalObject({{"mediaType", CanonicalString(kCompositionType)},
                                         {"digest", CanonicalString(composition.Text())},
                                         {"size", CanonicalInteger(blob->size)},
                                         {"annotations", CanonicalObject({{std::string(annotation), CanonicalString(value)}})}}));
}

}  // namespace

Result<std::string> BuildIndex(const StoreContext& store, const Current& current) {
  std::vector<std::string> descriptors;
  VENEER_ASSIGN(const auto refs, ReadRefs(store, RefKind::kComposition));
  for (const Ref& ref : refs) {
    if (const auto composition = CompositionOf(ref.record)) AddDescriptor(store, *composition, kNameAnnotation, ref.name, descriptors);
  }
  VENEER_ASSIGN(const RetainedGenerations retained, ReadRetained(store, current.generation));
  for (const auto& [generation, stored] : retained)
    if (stored.record.composition)
      AddDescriptor(store, *stored.record.composition, kGenerationAnnotation, std::to_string(generation), descriptors);
  return CanonicalObject(
      {{"schemaVersion", CanonicalInteger(2)}, {"mediaType", CanonicalString(kIndexType)}, {"manifests", CanonicalArray(descriptors)}});
}

Status UpdateIndex(const StoreContext& store, const Current& current) {
  Sys& sys = *store.sys;
  VENEER_ASSIGN(const auto layout, ReadSmallFile(sys, store.root, "oci-layout", kMaxIndexBytes));
  if (layout != kOciLayoutText) VENEER_TRY(ReplaceFile(sys, store.root, "oci-layout", kOciLayoutText, kPublicPermissions));
  VENEER_ASSIGN(const std::string index, BuildIndex(store, current));
  const auto old = ReadSmallFile(sys, store.root, std::string(kIndexName), kMaxIndexBytes);
  if (old && *old == index) return {};
  return ReplaceFile(sys, store.root, std::string(kIndexName), index, kPublicPermissions);
}

std::string UpdateIndexOrWarn(const StoreContext& store, const Current& current) {
  const auto status = UpdateIndex(store, current);
  if (status) return {};
  return fmt::format("W2 INDEX_STALE at={} {}", kIndexName, status.error().Text());
}

}  // namespace veneer
