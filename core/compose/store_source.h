// The files of a composition from the store, each proven through the descriptor that is read.
#ifndef VENEER_CORE_COMPOSE_STORE_SOURCE_H_
#define VENEER_CORE_COMPOSE_STORE_SOURCE_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/compose/artifact_source.h"
#include "core/store/store.h"

namespace veneer {

// What `import` keeps under the name of a base or an adapter.
struct BaseRecord {
  Digest hash;
  std::uint64_t size = 0;
  std::string format;
  Digest tokenizer_hash;
  std::vector<Digest> files = {};  // that a base of several files names: what the store must keep for the name

  [[nodiscard]] std::string Print() const;  // canonical JSON
  static Result<BaseRecord> Parse(const Ref& ref);
};
struct AdapterRecord {
  std::string kind, format;
  Digest file_hash;
  std::uint64_t file_size = 0;
  std::optional<Digest> config_hash;
  std::uint64_t config_size = 0;
  std::vector<ManifestParam> params;

  [[nodiscard]] std::string Print() const;
  static Result<AdapterRecord> Parse(const Ref& ref);
};

class StoreSource final : public ArtifactSource {
 public:
  // `opened`: a composition whose files are open already; others are opened from the store. Both outlive the source.
  explicit StoreSource(const Store& store, const OpenedComposition* opened = nullptr, Progress progress = {})
      : store_(&store), opened_(opened), progress_(std::move(progress)) {}

  // Files that are staged and not in the store yet; found before those that are. They outlive the source.
  void Add(std::span<const StagedBlob> staged) { staged_ = staged; }

  // A base that the process has open already, and the digest it was proven to have; for compositions after the first.
  void Hold(std::shared_ptr<const Base> base, const Digest& hash) { held_ = {std::move(base), hash}; }

  // Without a claim the tokenizer of a directory is the one it was imported with.
  Result<BaseFiles> OpenBase(const Digest& hash, const std::optional<Digest>& tokenizer) override;
  std::shared_ptr<const Base> HeldBase(const Digest& hash) override;
  // An entry without config_hash gets the configuration that was imported with the file (the name decides when there are several).
  Result<AdapterBlobs> OpenAdapter(const AuthoredAdapter& entry) override;

 private:
  struct Opened {
    UniqueFd fd;
    FileState verified;  // when it was hashed, or its stamp was read
  };
  Result<Opened> Open(const Digest& digest, std::optional<std::uint64_t> size, const std::string& at) const;
  Result<BaseFiles> OpenListed(const Digest& hash, std::string list, const std::optional<Digest>& tokenizer) const;
  Result<Digest> ImportedTokenizer(const Digest& hash) const;
  Result<std::optional<Digest>> ImportedConfig(const AuthoredAdapter& entry) const;

  const Store* store_;
  const OpenedComposition* opened_;
  std::span<const StagedBlob> staged_;
  Progress progress_;
  struct {
    std::shared_ptr<const Base> base;
    Digest hash;
  } held_;
};

}  // namespace veneer

#endif  // VENEER_CORE_COMPOSE_STORE_SOURCE_H_
