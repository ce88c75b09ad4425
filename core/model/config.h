// Hyperparameters out of a GGUF's metadata (adapter-formats g.3), ranges checked; what would change the arithmetic and is not
// implemented is refused here by name.
#ifndef VENEER_CORE_MODEL_CONFIG_H_
#define VENEER_CORE_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/format/gguf.h"
#include "core/model/base.h"

namespace veneer {

// E401 for what is not implemented, E203/E204 for a missing or mistyped key, E402 for numbers that contradict each other.
Result<ModelConfig> ReadConfig(const GgufFile& file);

// What every format's reader checks alike.
inline constexpr std::uint64_t kMaxModelLayers = 4096;
inline constexpr std::uint64_t kMaxModelWidth = 1u << 24;  // of any dimension; products of two stay far below 2^64

// 1 to `limit`, else E402 at `key`.
Result<std::uint32_t> DimensionInRange(std::string key, std::uint64_t value, std::uint64_t limit);

// A base or a factor of RoPE: positive, and so that neither it nor its inverse leaves the numbers of f32 (NaN does), else E402 at `key`.
// The inverse frequencies that are made of two such numbers in f64 are finite, at any position too.
Result<double> RopeNumberInRange(std::string key, double value);

// The format's names, for errors.
struct HeadKeys {
  std::string_view heads, kv_heads, head_dim;
};
// Whether hidden, n_heads, n_kv_heads and head_dim fit together (E402); a head_dim of 0 becomes hidden / n_heads.
Status CheckHeads(ModelConfig& config, const HeadKeys& keys);

}  // namespace veneer

#endif  // VENEER_CORE_MODEL_CONFIG_H_
