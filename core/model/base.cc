#include "core/model/base.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/bytes.h"
#include "core/format/gguf.h"
#include "core/model/bitsandbytes.h"
#include "core/model/config.h"
#include "core/model/gguf_sites.h"
#include "core/model/hf_config.h"
#include "core/model/hf_sites.h"
#include "core/model/hf_tensors.h"
#include "core/model/quantization.h"
#include "core/model/tokenizer_blob.h"

namespace veneer {

struct Base::Parts {
  ModelConfig config;
  std::vector<Site> sites;  // their tensors are views into the mappings, which do not move
  Quantization quantization;
  TokenizerBlob tokenizer;
};

BaseFiles::BaseFiles(FileBytes gguf) : name(gguf.name()) { files.push_back({name, std::move(gguf), {}}); }

std::span<const std::byte> BaseFiles::bytes() const {
  if (!list.empty()) return std::as_bytes(std::span(list));
  return files.empty() ? std::span<const std::byte>() : files.front().bytes.bytes();
}

TokenizerBlob HfTokenizer(std::string bytes) {
  const std::string_view id = bytes.empty() ? kNoTokenizerId : bytes.front() == '{' ? kTokenizerJsonId : kSentencePieceId;
  return {std::string(id), std::move(bytes)};
}

Base::Base(BaseFiles files, Parts parts)
    : files_(std::move(files)),
      config_(std::move(parts.config)),
      sites_(std::move(parts.sites)),
      quantization_(std::move(parts.quantization)),
      tokenizer_(std::move(parts.tokenizer)) {}

Result<std::shared_ptr<const Base>> Base::OpenGguf(FileBytes file) { return Open(std::move(file)); }

Result<std::shared_ptr<const Base>> Base::Open(BaseFiles files) {
  const auto read_gguf = [&files]() -> Result<Parts> {
    VENEER_ASSIGN(const GgufFile file, GgufFile::Parse(files.bytes()));
    Parts parts;
    VENEER_ASSIGN(parts.config, ReadConfig(file));
    const std::vector<BaseTensor> tensors = TensorsOf(file);
    VENEER_ASSIGN(parts.sites, BuildGgufSites(tensors, parts.config));
    parts.quantization = QuantizationOf(tensors);
    VENEER_ASSIGN(parts.tokenizer, ReadTokenizerBlob(file));
    return parts;
  };
  const auto read_hf = [&files]() -> Result<Parts> {
    const auto file = std::ranges::find(files.files, kHfConfigName, &BaseFile::name);
    if (file == files.files.end())
      return Fail(Code::HEADER_CORRUPT, std::string(kHfConfigName), "the file is missing; download the model again");
    auto config = ReadHfConfig(AsText(file->bytes.bytes()));
    if (!config) return Fail(std::move(config).error().Within(file->name));
    VENEER_ASSIGN(const std::vector<TensorView> stored, ReadHfTensors(files.files));
    VENEER_ASSIGN(const std::vector<BaseTensor> tensors, JoinQuantized(stored, config->quantization));
    Parts parts;
    VENEER_ASSIGN(parts.sites, BuildHfSites(tensors, *config));
    parts.config = std::move(config->model);
    parts.quantization = QuantizationOf(tensors);
    parts.tokenizer = std::move(files.tokenizer);
    return parts;
  };
  auto parts = files.list.empty() ? read_gguf() : read_hf();
  if (!parts) return Fail(std::move(parts).error().Within(files.name));
  return std::shared_ptr<const Base>(new Base(std::move(files), *std::move(parts)));
}

std::uint64_t Base::file_bytes() const {
  std::uint64_t bytes = 0;
  for (const BaseFile& file : files_.files) bytes += file.bytes.bytes().size();
  return bytes;
}

Status Base::CheckUnchanged(const Digest& hash) const {
  for (const BaseFile& file : files_.files) VENEER_TRY(file.bytes.CheckUnchanged(files_.list.empty() ? hash : file.digest));
  return {};
}

std::uint64_t Base::overhead_bytes() const {
  std::uint64_t bytes =
      sizeof(Base) + config_.rope_factors.capacity() * sizeof(float) + tokenizer_.bytes.capacity() + files_.list.capacity();
  for (const Site& site : sites_.sites()) {
    bytes += sizeof(Site) + 2 * site.id.capacity() + site.weight.name.capacity() + site.weight.shape.capacity() * sizeof(std::uint64_t);
    if (site.bias) bytes += site.bias->name.capacity() + site.bias->shape.capacity() * sizeof(std::uint64_t);
    if (site.scales) bytes += sizeof *site.scales;
  }
  return bytes;
}

namespace {

Result<Tokenizer> OpenHfTokenizer(const Base& base) {
  const TokenizerBlob& blob = base.tokenizer();
  if (blob.id != kSentencePieceId)
    return Fail(Code::FORMAT_UNSUPPORTED, "tokenizer.model",
                blob.bytes.empty() ? "the directory has no tokenizer; give token ids (--tokens 1,2,3) instead of text"
                                   : "missing, and tokenizer.json is not read by this version; token ids work on this base: give "
                                     "--tokens 1,2,3 instead of text");
  const auto& files = base.files().files;
  const auto file = std::ranges::find(files, kHfConfigName, &BaseFile::name);
  VENEER_ASSIGN(const HfConfig config, ReadHfConfig(AsText(file->bytes.bytes())));
  VENEER_ASSIGN(Tokenizer tokenizer, Tokenizer::FromSentencePiece(blob.bytes, config.end_tokens));
  if (tokenizer.size() > base.config().vocab)
    return Fail(Code::TOKENIZER_MISMATCH, "tokenizer.model",
                fmt::format("{} tokens, the embedding has {} rows; it belongs to another model", tokenizer.size(), base.config().vocab));
  return tokenizer;
}

}  // namespace

Result<Tokenizer> OpenTokenizer(const Base& base) {
  const auto open = [&base]() -> Result<Tokenizer> {
    if (base.format() == "hf") return OpenHfTokenizer(base);
    VENEER_ASSIGN(const GgufFile file, GgufFile::Parse(base.bytes()));
    return Tokenizer::FromGguf(file);
  };
  auto tokenizer = open();
  if (!tokenizer) return Fail(std::move(tokenizer).error().Within(base.files().name));
  return tokenizer;
}

}  // namespace veneer
