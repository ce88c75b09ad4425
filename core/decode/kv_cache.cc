#include "core/decode/kv_cache.h"

#include <fmt/format.h>

#include <cstdlib>

namespace veneer {

void KvCache::Free::operator()(std::byte* data) const { std::free(data); }

std::uint64_t KvCache::Bytes(const ModelConfig& config, std::uint32_t context, KvType type) {
  // All factors are 32-bit and range-checked by the model's configuration.
  return std::uint64_t{config.n_layers} * 2 * context * config.n_kv_heads * config.head_dim * (type == KvType::kF16 ? 2 : 4);
}

Result<KvCache> KvCache::Create(const ModelConfig& config, std::uint32_t context, KvType type, const Digest& composition) {
  KvCache cache;
  const std::uint64_t bytes = Bytes(config, context, type);
  // Untouched pages cost nothing until a position is written, so a long context is paid for as it fills.
  cache.data_.reset(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
  if (!cache.data_)
    return Fail(Code::OUT_OF_MEMORY, "K/V cache", fmt::format("{} bytes for {} positions were refused; give a smaller -c", bytes, context));
  cache.type_ = type;
  cache.context_ = context;
  cache.width_ = std::uint64_t{config.n_kv_heads} * config.head_dim;
  cache.composition_ = composition;
  return cache;
}

Status KvCache::CheckComposition(const Digest& composition) const {
  if (composition == composition_) return {};
  return Fail(Code::COMPOSITION_CHANGED, "K/V cache",
              fmt::format("filled under {}, asked for under {}; feed the tokens again", composition_.Text(), composition.Text()));
}

}  // namespace veneer
