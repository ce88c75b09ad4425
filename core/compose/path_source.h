// An ephemeral composition: base and adapters given as paths. Every check applies, nothing is written.
#ifndef VENEER_CORE_COMPOSE_PATH_SOURCE_H_
#define VENEER_CORE_COMPOSE_PATH_SOURCE_H_

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/compose/artifact_source.h"
#include "core/manifest/manifest.h"

namespace veneer {

// One `--adapter PATH[=W]`.
struct AdapterPath {
  std::filesystem::path path;
  Decimal strength;
  std::string kind;  // empty: the files decide
  std::vector<ManifestParam> params;
};

// "PATH[=W]": the part after the last '=' is the strength when it is a decimal; otherwise the whole text is the path.
Result<AdapterPath> ParseAdapterPath(const std::string& text);

// A name the manifest grammar accepts, from a file name: lower case, other characters become '-', at most 60 characters.
std::string CleanName(const std::filesystem::path& path);

class PathSource final : public ArtifactSource {
 public:
  // Opens and hashes everything; the base stays mapped until OpenBase takes it.
  static Result<PathSource> Open(const std::filesystem::path& base, const std::vector<AdapterPath>& adapters, const Progress& progress);

  // The manifest that these paths amount to, in the order given; repeats get the suffixes -2, -3.
  [[nodiscard]] const Manifest& manifest() const { return manifest_; }

  Result<BaseFiles> OpenBase(const Digest& hash, const std::optional<Digest>& tokenizer) override;
  Result<AdapterBlobs> OpenAdapter(const AuthoredAdapter& entry) override;

 private:
  PathSource() = default;
  Manifest manifest_;
  BaseFiles base_;
  std::vector<std::filesystem::path> adapter_paths_;  // by load order
};

// The time now as the manifest writes it.
std::string TimestampNow();

// Opens the files of one adapter path and hashes the private copies.
Result<AdapterBlobs> OpenAdapterBlobs(const std::filesystem::path& path);

}  // namespace veneer

#endif  // VENEER_CORE_COMPOSE_PATH_SOURCE_H_
