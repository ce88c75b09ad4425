// Where the files of a composition come from: the store, or paths of the user. Whoever opens a file also proves its digest.
#ifndef VENEER_CORE_COMPOSE_ARTIFACT_SOURCE_H_
#define VENEER_CORE_COMPOSE_ARTIFACT_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "core/adapter/adapter.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/manifest/manifest.h"
#include "core/model/base.h"
#include "core/store/blobs.h"

namespace veneer {

// An adapter's files with the digests of the very bytes that were opened.
struct AdapterBlobs {
  AdapterFiles files;
  Digest file_hash;
  std::uint64_t file_size = 0;
  std::optional<Digest> config_hash;
  std::uint64_t config_size = 0;
};

class ArtifactSource {
 public:
  virtual ~ArtifactSource() = default;
  // The base with this digest, mapped; its bytes hash to `hash`. `tokenizer`: which one the manifest claims, for a base that does not hold
  // its own. E301-E305.
  virtual Result<BaseFiles> OpenBase(const Digest& hash, const std::optional<Digest>& tokenizer) = 0;
  // The base with this digest when the process has it open already, and unchanged: compositions that share a base share its mapping.
  // Asked before OpenBase; null when there is none.
  virtual std::shared_ptr<const Base> HeldBase(const Digest& /*hash*/) { return nullptr; }
  // The files an adapter entry names by digest, as sealed private copies. E301-E305, each with the entry's place.
  virtual Result<AdapterBlobs> OpenAdapter(const AuthoredAdapter& entry) = 0;
};

// SHA-256 of a mapped file in steps of 8 MiB, by one thread: a digest that nobody knows yet is made byte after byte.
Digest HashBytes(std::span<const std::byte> bytes, const Progress& progress);

}  // namespace veneer

#endif  // VENEER_CORE_COMPOSE_ARTIFACT_SOURCE_H_
