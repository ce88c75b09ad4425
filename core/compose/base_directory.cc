#include "core/compose/base_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "core/manifest/base_list.h"
#include "core/model/hf_tensors.h"

namespace veneer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxConfigFile = 1 << 20, kMaxIndexFile = 16 << 20, kMaxTokenizerFile = 64 << 20;

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The names of the weights' files, the index among them, its copy in `index`.
Result<std::vector<std::string>> WeightFiles(const fs::path& directory, FileBytes& index) {
  const bool has_index = Exists(directory / kHfIndexName), is_whole = Exists(directory / kHfWeightsName);
  if (has_index && is_whole)
    return Fail(Code::FORMAT_UNSUPPORTED, directory.string(),
                fmt::format("holds {} and {}; which are the weights? Remove the other", kHfWeightsName, kHfIndexName));
  if (is_whole) return std::vector<std::string>{std::string(kHfWeightsName)};
  if (!has_index) {
    for (const char* const other : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
      if (Exists(directory / other))
        return Fail(Code::FORMAT_UNSUPPORTED, (directory / other).string(),
                    "pickle files run code when read and are refused; save the model as safetensors");
    return Fail(Code::BLOB_MISSING, (directory / kHfWeightsName).string(),
                fmt::format("no such file, and no {}; give the directory of a whole model", kHfIndexName));
  }
  VENEER_ASSIGN(index, FileBytes::Copy(directory / kHfIndexName, kMaxIndexFile));
  auto shards = ShardsOfIndex(AsText(index.bytes()));
  if (!shards) return Fail(std::move(shards).error().Within(index.name()));
  for (const std::string& shard : *shards)
    if (!Exists(directory / shard))
      return Fail(Code::BLOB_MISSING, (directory / shard).string(),
                  fmt::format("no such file, {} names it; download the model again", kHfIndexName));
  return shards;
}

Result<std::string> ReadBytes(const fs::path& path, std::uint64_t limit) {
  VENEER_ASSIGN(const FileBytes file, FileBytes::Copy(path, limit));
  return std::string(AsText(file.bytes()));
}

Result<TokenizerBlob> ReadTokenizer(const fs::path& directory) {
  for (const char* const name : {"tokenizer.model", "tokenizer.json"}) {
    if (!Exists(directory / name)) continue;
    VENEER_ASSIGN(std::string bytes, ReadBytes(directory / name, kMaxTokenizerFile));
    return HfTokenizer(std::move(bytes));
  }
  return HfTokenizer("");
}

// Hashes all files, one after the other; the bar counts all their bytes.
void HashFiles(std::vector<BaseFile>& files, const Progress& progress) {
  std::uint64_t total = 0, before = 0;
  for (const BaseFile& file : files) total += file.bytes.bytes().size();
  for (BaseFile& file : files) {
    file.digest = HashBytes(file.bytes.bytes(), [&](std::uint64_t done, std::uint64_t) {
      if (progress) progress(before + done, total);
    });
    before += file.bytes.bytes().size();
  }
}

}  // namespace

bool IsBaseDirectory(const fs::path& path) { return Exists(path / kHfConfigName) && !Exists(path / "adapter_config.json"); }

Result<BaseFiles> OpenBaseDirectory(const fs::path& path) {
  if (!Exists(path / kHfConfigName))
    return Fail(Code::BLOB_MISSING, (path / kHfConfigName).string(),
                "no such file; a base is a GGUF file or the directory of a Hugging Face model");
  BaseFiles base;
  base.name = path.string();
  VENEER_ASSIGN(FileBytes config, FileBytes::Copy(path / kHfConfigName, kMaxConfigFile));
  base.files.push_back({std::string(kHfConfigName), std::move(config), {}});
  FileBytes index;
  VENEER_ASSIGN(const std::vector<std::string> weights, WeightFiles(path, index));
  if (!index.bytes().empty()) base.files.push_back({std::string(kHfIndexName), std::move(index), {}});
  for (const std::string& name : weights) {
    VENEER_ASSIGN(FileBytes file, FileBytes::Map(path / name));
    base.files.push_back({name, std::move(file), {}});
  }
  std::ranges::sort(base.files, {}, &BaseFile::name);
  VENEER_ASSIGN(base.tokenizer, ReadTokenizer(path));
  return base;
}

void ListFiles(BaseFiles& base) {
  std::vector<ListedFile> listed;
  for (const BaseFile& file : base.files) listed.push_back({file.name, file.digest, file.bytes.bytes().size()});
  base.list = PrintBaseList(std::move(listed));
}

Result<BaseFiles> OpenBaseFiles(const fs::path& path, const Progress& progress) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return FileBytes::Map(path);
  VENEER_ASSIGN(BaseFiles base, OpenBaseDirectory(path));
  HashFiles(base.files, progress);
  ListFiles(base);
  return base;
}

}  // namespace veneer
