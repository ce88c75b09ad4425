#include "core/adapter/adapter.h"

#include <fmt/format.h>

#include "core/adapter/gguf_reader.h"
#include "core/adapter/native_reader.h"
#include "core/adapter/params.h"
#include "core/adapter/peft_config.h"
#include "core/adapter/peft_reader.h"
#include "core/base/bytes.h"
#include "core/format/safetensors.h"

namespace veneer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxConfig = 1 << 20;
constexpr std::string_view kPickleRemedy =
    "is a pickle, which can run code when it is read; save the adapter as safetensors (PEFT: safe_serialization=True)";

// A bare pickle starts with its protocol, PyTorch's container is a zip of pickles. A safetensors file may start with the same bytes, as
// the length of its header, which follows.
bool LooksLikePickle(std::string_view text) {
  if (text.size() > 8 && text[8] == '{') return false;
  return text.starts_with("PK\x03\x04") || (text.size() > 1 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5);
}

// The kernels read replaced rows in place; a tensor in a safetensors file may begin anywhere.
void AlignReplacements(Adapter& adapter) {
  for (Replacement& one : adapter.replacements) {
    const std::span<const std::byte> bytes = one.tensor.bytes;
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % InfoOf(one.tensor.dtype).block_bytes == 0) continue;
    one.tensor.bytes = adapter.converted.emplace_back(bytes.begin(), bytes.end());
  }
}

Result<Adapter> ReadSafetensorsAdapter(AdapterFiles files, const Base& base, const Catalog& catalog, std::string_view kind) {
  auto parsed = SafetensorsFile::Parse(files.weights.bytes());
  if (!parsed) return Fail(std::move(parsed).error().Within(files.weights.name()));
  Adapter adapter;
  adapter.format = "safetensors";
  if (files.config) {
    auto config = PeftConfig::Parse(AsText(files.config->bytes()), catalog, kind);
    if (!config) return Fail(std::move(config).error().Within(files.config->name()));
    VENEER_TRY(ReadPeftTensors(*parsed, *config, base, adapter));
    adapter.config = *std::move(files.config);
  } else {
    VENEER_TRY(ReadNative(*parsed, files.weights.name(), base, catalog, kind, adapter));
  }
  adapter.weights = std::move(files.weights);  // the views point into the mapping, which does not move
  AlignReplacements(adapter);
  return adapter;
}

}  // namespace

Result<AdapterFiles> OpenAdapterFiles(const fs::path& path) {
  fs::path weights = path, config = path.parent_path() / "adapter_config.json";
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    weights = path / "adapter_model.safetensors";
    config = path / "adapter_config.json";
    if (!fs::exists(weights, ignored)) {
      if (fs::exists(path / "adapter_model.bin", ignored))
        return Fail(Code::FORMAT_UNSUPPORTED, (path / "adapter_model.bin").string(), std::string(kPickleRemedy));
      return Fail(Code::BLOB_MISSING, weights.string(),
                  "no adapter here; give a PEFT directory with adapter_model.safetensors, or one file");
    }
  }
  const std::string extension = weights.extension().string();
  if (extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".ckpt")
    return Fail(Code::FORMAT_UNSUPPORTED, weights.string(), std::string(kPickleRemedy));
  AdapterFiles files;
  VENEER_ASSIGN(files.weights, FileBytes::Copy(weights, kMaxAdapterBytes));
  if (LooksLikePickle(AsText(files.weights.bytes()))) return Fail(Code::FORMAT_UNSUPPORTED, weights.string(), std::string(kPickleRemedy));
  if (FormatOf(files) == "gguf") return files;
  if (fs::is_directory(path, ignored) && !fs::exists(config, ignored))
    return Fail(Code::BLOB_MISSING, config.string(), "an adapter needs its adapter_config.json: scale and targets are in it");
  // What describes itself takes no configuration, whatever lies beside it.
  const auto parsed = SafetensorsFile::Parse(files.weights.bytes());
  if ((!parsed || !DescribesItself(*parsed)) && fs::exists(config, ignored)) {
    VENEER_ASSIGN(files.config, FileBytes::Copy(config, kMaxConfig));
  }
  return files;
}

std::string_view FormatOf(const AdapterFiles& files) { return AsText(files.weights.bytes()).starts_with("GGUF") ? "gguf" : "safetensors"; }

Result<std::string> IdentifyAdapter(const AdapterFiles& files, const Catalog& catalog, std::string_view kind) {
  if (FormatOf(files) == "gguf") return IdentifyGgufAdapter(files.weights, catalog, kind);
  auto parsed = SafetensorsFile::Parse(files.weights.bytes());
  if (!parsed) return Fail(std::move(parsed).error().Within(files.weights.name()));
  if (!files.config) {
    auto native = IdentifyNative(*parsed, catalog, kind);
    if (!native) return Fail(std::move(native).error().Within(files.weights.name()));
    return native;
  }
  auto config = PeftConfig::Parse(AsText(files.config->bytes()), catalog, kind);
  if (!config) return Fail(std::move(config).error().Within(files.config->name()));
  return config->kind().id;
}

Result<Adapter> ReadAdapter(AdapterFiles files, const Base& base, const Catalog& catalog, const AdapterRequest& request) {
  VENEER_ASSIGN(Adapter adapter, FormatOf(files) == "gguf" ? ReadGgufAdapter(std::move(files), base, catalog, request.kind)
                                                           : ReadSafetensorsAdapter(std::move(files), base, catalog, request.kind));
  VENEER_TRY(OverrideParams(catalog, request.params, adapter));
  ReportScales(catalog, adapter);
  return adapter;
}

}  // namespace veneer
