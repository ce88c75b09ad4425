#include "core/compose/path_source.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "core/compose/base_directory.h"

namespace veneer {
namespace {

std::string UniqueName(const std::string& wanted, const std::vector<AuthoredAdapter>& taken) {
  std::string name = wanted;
  for (int n = 2; std::ranges::find(taken, name, &AuthoredAdapter::name) != taken.end(); ++n) name = fmt::format("{}-{}", wanted, n);
  return name;
}

}  // namespace

std::string TimestampNow() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

std::string CleanName(const std::filesystem::path& path) {
  std::filesystem::path leaf = path.filename().empty() ? path.parent_path().filename() : path.filename();
  if (leaf.has_extension() && !std::filesystem::is_directory(path)) leaf = leaf.stem();
  std::string name;
  for (const char c : leaf.string()) {
    const bool is_upper = c >= 'A' && c <= 'Z';
    const bool is_kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    name.push_back(is_upper ? static_cast<char>(c - 'A' + 'a') : is_kept ? c : '-');
  }
  name.resize(std::min<std::size_t>(name.size(), 60));  // leaves room for a suffix
  const auto first = name.find_first_not_of("._-");
  name.erase(0, std::min(first, name.size()));
  while (!name.empty() && (name.back() == '.' || name.back() == '-')) name.pop_back();
  return name.empty() ? "adapter" : name;
}

Result<AdapterPath> ParseAdapterPath(const std::string& text) {
  AdapterPath result;
  VENEER_ASSIGN(result.strength, Decimal::FromAuthored("1", "--adapter"));
  result.path = text;
  const auto equals = text.rfind('=');
  if (equals == std::string::npos || std::filesystem::exists(text)) return result;
  VENEER_ASSIGN(result.strength, Decimal::FromAuthored(std::string_view(text).substr(equals + 1), fmt::format("--adapter {}", text)));
  result.path = text.substr(0, equals);
  return result;
}

Result<AdapterBlobs> OpenAdapterBlobs(const std::filesystem::path& path) {
  AdapterBlobs blobs;
  VENEER_ASSIGN(blobs.files, OpenAdapterFiles(path));
  blobs.file_hash = Sha256::Of(blobs.files.weights.bytes());
  blobs.file_size = blobs.files.weights.bytes().size();
  if (blobs.files.config) {
    blobs.config_hash = Sha256::Of(blobs.files.config->bytes());
    blobs.config_size = blobs.files.config->bytes().size();
  }
  return blobs;
}

Result<PathSource> PathSource::Open(const std::filesystem::path& base, const std::vector<AdapterPath>& adapters, const Progress& progress) {
  PathSource source;
  VENEER_ASSIGN(source.base_, OpenBaseFiles(base, progress));
  source.manifest_.timestamp_utc = TimestampNow();
  source.manifest_.base_model_hash = source.base_.list.empty() ? HashBytes(source.base_.bytes(), progress) : Sha256::Of(source.base_.list);
  for (const AdapterPath& path : adapters) {
    VENEER_ASSIGN(const AdapterBlobs blobs, OpenAdapterBlobs(path.path));
    AuthoredAdapter entry;
    entry.name = UniqueName(CleanName(path.path), source.manifest_.adapters);
    entry.file_hash = blobs.file_hash;
    entry.config_hash = blobs.config_hash;
    entry.load_order = source.manifest_.adapters.size();
    entry.merge_weight = path.strength;
    if (!path.kind.empty()) entry.kind = path.kind;
    entry.params = path.params;
    entry.at = path.path.string();
    source.manifest_.adapters.push_back(std::move(entry));
    source.adapter_paths_.push_back(path.path);
  }
  return source;
}

Result<BaseFiles> PathSource::OpenBase(const Digest& hash, const std::optional<Digest>& /*tokenizer*/) {
  if (base_.bytes().empty() || hash != manifest_.base_model_hash)
    return Fail(Code::BLOB_MISSING, "base", fmt::format("no base {} among the given paths", hash.Text()));
  return std::move(base_);
}

Result<AdapterBlobs> PathSource::OpenAdapter(const AuthoredAdapter& entry) {
  if (entry.load_order >= adapter_paths_.size()) return Fail(Code::BLOB_MISSING, entry.at, "not among the given paths");
  VENEER_ASSIGN(AdapterBlobs blobs, OpenAdapterBlobs(adapter_paths_[entry.load_order]));
  if (blobs.file_hash != entry.file_hash || blobs.config_hash != entry.config_hash)
    return Fail(Code::BLOB_CHANGED, entry.at, "the adapter's files changed while they were read; try again");
  return blobs;
}

}  // namespace veneer
