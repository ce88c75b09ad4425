#include "core/model/base.h"

#include <utility>

#include "core/format/gguf.h"
#include "core/model/config.h"
#include "core/model/gguf_sites.h"
#include "core/model/quantization.h"
#include "core/model/tokenizer_blob.h"

namespace veneer {
namespace {

struct Parts {
  ModelConfig config;
  std::vector<Site> sites;  // their tensors are views into the mapping, which does not move
  Quantization quantization;
  TokenizerBlob tokenizer;
};

Result<Parts> Read(std::span<const std::byte> bytes) {
  VENEER_ASSIGN(const GgufFile file, GgufFile::Parse(bytes));
  Parts parts;
  VENEER_ASSIGN(parts.config, ReadConfig(file));
  VENEER_ASSIGN(parts.sites, BuildGgufSites(file, parts.config));
  parts.quantization = QuantizationOf(file);
  VENEER_ASSIGN(parts.tokenizer, ReadTokenizerBlob(file));
  return parts;
}

}  // namespace

Base::Base(FileBytes file, ModelConfig config, std::vector<Site> sites, Quantization quantization, TokenizerBlob tokenizer)
    : file_(std::move(file)),
      config_(std::move(config)),
      sites_(std::move(sites)),
      quantization_(std::move(quantization)),
      tokenizer_(std::move(tokenizer)) {}

Result<std::shared_ptr<const Base>> Base::OpenGguf(FileBytes file) {
  auto parts = Read(file.bytes());
  if (!parts) return Fail(std::move(parts).error().Within(file.name()));
  return std::shared_ptr<const Base>(new Base(std::move(file), std::move(parts->config), std::move(parts->sites),
                                              std::move(parts->quantization), std::move(parts->tokenizer)));
}

std::uint64_t Base::overhead_bytes() const {
  std::uint64_t bytes = sizeof(Base) + config_.rope_factors.capacity() * sizeof(float) + tokenizer_.bytes.capacity();
  for (const Site& site : sites_.sites()) {
    bytes += sizeof(Site) + 2 * site.id.capacity() + site.weight.name.capacity() + site.weight.shape.capacity() * sizeof(std::uint64_t);
    if (site.bias) bytes += site.bias->name.capacity() + site.bias->shape.capacity() * sizeof(std::uint64_t);
  }
  return bytes;
}

Result<Tokenizer> OpenTokenizer(const Base& base) {
  VENEER_ASSIGN(const GgufFile file, GgufFile::Parse(base.bytes()));
  auto tokenizer = Tokenizer::FromGguf(file);
  if (!tokenizer) return Fail(std::move(tokenizer).error().Within(base.file().name()));
  return tokenizer;
}

}  // namespace veneer
