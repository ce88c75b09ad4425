// Keys and values of one sequence. A cache belongs to the composition and the compute mode it was filled under and is never read under
// another.
#ifndef VENEER_CORE_DECODE_KV_CACHE_H_
#define VENEER_CORE_DECODE_KV_CACHE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/compose/staged_composition.h"
#include "core/format/tensor_file.h"
#include "core/model/base.h"

namespace veneer {

// Element types of keys and values. kQ8_0: blocks of 32 along a head, as a GGUF file stores them.
enum class KvType : DType { kF16 = VNR_F16, kF32 = VNR_F32, kQ8_0 = VNR_Q8_0 };
inline std::string_view KvTypeName(KvType type) { return InfoOf(static_cast<DType>(type)).name; }  // "f16", …
std::optional<KvType> ParseKvType(std::string_view name);                                          // nothing for any other word

class KvCache {
 public:
  // Layout: for each layer K then V, [position][kv head][head_dim]. head_dim is a multiple of the type's block. E504 when the memory is
  // refused.
  static Result<KvCache> Create(const StagedComposition& composition, std::uint32_t context, KvType type);
  // Bytes a cache of that shape takes.
  static std::uint64_t Bytes(const ModelConfig& config, std::uint32_t context, KvType type);

  [[nodiscard]] KvType type() const { return type_; }
  [[nodiscard]] std::uint32_t context() const { return context_; }
  [[nodiscard]] std::uint32_t position() const { return position_; }  // tokens held
  [[nodiscard]] const Digest& composition() const { return composition_; }

  // E616 when the cache was filled under another composition or compute mode: its rows would be wrong under this one.
  [[nodiscard]] Status CheckComposition(const StagedComposition& composition) const;
  // E901 when the other cache does not hold the same number of positions in the same type.
  [[nodiscard]] Status CheckShape(const KvCache& other) const;

  void Advance(std::uint32_t tokens) { position_ += tokens; }
  void Truncate(std::uint32_t position) { position_ = std::min(position_, position); }  // forgets everything from `position` on

  // Row of `position` in layer `layer`: kv_width() elements of the cache's type.
  [[nodiscard]] std::byte* Key(std::uint32_t layer, std::uint32_t position) { return data_.get() + Offset(layer, 0, position); }
  [[nodiscard]] std::byte* Value(std::uint32_t layer, std::uint32_t position) { return data_.get() + Offset(layer, 1, position); }
  [[nodiscard]] std::uint64_t kv_width() const { return width_; }
  [[nodiscard]] std::uint64_t row_bytes() const { return row_bytes_; }

 private:
  KvCache() = default;
  [[nodiscard]] std::uint64_t Offset(std::uint32_t layer, std::uint32_t which, std::uint32_t position) const {
    return ((std::uint64_t{layer} * 2 + which) * context_ + position) * row_bytes();
  }
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte[], Free> data_;
  KvType type_ = KvType::kF16;
  std::uint32_t context_ = 0, position_ = 0;
  std::uint64_t width_ = 0, row_bytes_ = 0;  // n_kv_heads * head_dim elements, and what they take
  Digest composition_;
  ComputeMode mode_ = ComputeMode::kFast;
};

}  // namespace veneer

#endif  // VENEER_CORE_DECODE_KV_CACHE_H_
