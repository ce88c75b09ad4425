#include "core/decode/kv_cache.h"

#include <fmt/format.h>

#include <cstdlib>

namespace veneer {
namespace {

// Bytes of `elements`, a whole number of blocks.
std::uint64_t BytesOf(KvType type, std::uint64_t elements) {
  const DTypeInfo& info = InfoOf(static_cast<DType>(type));
  return elements / info.block_elements * info.block_bytes;
}

}  // namespace

std::optional<KvType> ParseKvType(std::string_view name) {
  for (const KvType type : {KvType::kF16, KvType::kF32, KvType::kQ8_0})
    if (KvTypeName(type) == name) return type;
  return std::nullopt;
}

void KvCache::Free::operator()(std::byte* data) const { std::free(data); }

std::uint64_t KvCache::Bytes(const ModelConfig& config, std::uint32_t context, KvType type) {
  // At most 2^12 layers, 2^24 positions and, as the rows of a stored k_proj, 2^24 numbers: below 2^64 (core/model/config.cc).
  return std::uint64_t{config.n_layers} * 2 * context * BytesOf(type, std::uint64_t{config.n_kv_heads} * config.head_dim);
}

Result<KvCache> KvCache::Create(const StagedComposition& composition, std::uint32_t context, KvType type) {
  const ModelConfig& config = composition.base().config();
  KvCache cache;
  const std::uint64_t bytes = Bytes(config, context, type);
  // Untouched pages cost nothing until a position is written, so a long context is paid for as it fills.
  cache.data_.reset(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
  if (!cache.data_)
    return Fail(Code::OUT_OF_MEMORY, "K/V cache", fmt::format("{} bytes for {} positions were refused; give a smaller -c", bytes, context));
  cache.type_ = type;
  cache.context_ = context;
  cache.width_ = std::uint64_t{config.n_kv_heads} * config.head_dim;
  cache.row_bytes_ = BytesOf(type, cache.width_);
  cache.composition_ = composition.id();
  cache.mode_ = composition.mode();
  return cache;
}

Status KvCache::CheckComposition(const StagedComposition& composition) const {
  if (composition.id() != composition_)
    return Fail(Code::COMPOSITION_CHANGED, "K/V cache",
                fmt::format("filled under {}, asked for under {}; feed the tokens again", composition_.Text(), composition.id().Text()));
  if (composition.mode() != mode_)
    return Fail(Code::COMPOSITION_CHANGED, "K/V cache",
                fmt::format("filled under {} compute mode, asked for under the other; feed the tokens again",
                            mode_ == ComputeMode::kExact ? "the exact" : "the fast"));
  return {};
}

Status KvCache::CheckShape(const KvCache& other) const {
  if (other.type_ == type_ && other.context_ == context_ && other.width_ == width_) return {};
  const auto name = [](const KvCache& cache) {
    return fmt::format("{} positions of {} {} numbers", cache.context_, cache.width_, KvTypeName(cache.type_));
  };
  return Fail(Code::USAGE, "K/V cache",
              fmt::format("holds {}, the decoder's holds {}; make both with the same options", name(other), name(*this)));
}

}  // namespace veneer
