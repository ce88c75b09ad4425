// Tokens to logits over one staged composition: embedding, layers, final norm, head. One decoder serves one sequence at a time.
#ifndef VENEER_CORE_DECODE_DECODER_H_
#define VENEER_CORE_DECODE_DECODER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/compose/staged_composition.h"
#include "core/decode/attention.h"
#include "core/decode/kv_cache.h"
#include "core/decode/linear.h"
#include "core/decode/thread_pool.h"
#include "core/model/tokenizer.h"

namespace veneer {

struct DecoderOptions {
  std::uint32_t threads = 1;
  std::optional<std::uint32_t> context;  // tokens; default: the model's, at most 4096
  std::optional<KvType> kv;              // default: f16 in fast mode, f32 in exact mode, where nothing else is allowed
  std::uint32_t max_batch = 256;         // tokens of one pass; longer inputs are split
};

// Asked before each pass; a value ends the decoding with that error.
using CancelCheck = std::function<std::optional<Error>()>;

class Decoder {
 public:
  // E901 for options that contradict each other or the model, E504 when memory is refused.
  static Result<std::unique_ptr<Decoder>> Create(std::shared_ptr<const StagedComposition> composition, const DecoderOptions& options);

  // What a decoder with these options takes beside base and overlays.
  struct Memory {
    std::uint64_t scratch_bytes, kv_bytes;
  };
  static Memory PlannedMemory(const ModelConfig& config, ComputeMode mode, const DecoderOptions& options);

  // Feeds the tokens after what the cache holds. `logits(i, row)` is called for each token's logits [vocab] when `all`, else for the
  // last token only. On an error the cache holds what it held before. E405 for an id outside the vocabulary, E505 at the end of the
  // context, E616 when the cache belongs to another composition, E417 when an overlay failed.
  using LogitsSink = std::function<Status(std::size_t i, std::span<const float> row)>;
  Status Feed(std::span<const TokenId> tokens, bool all, const LogitsSink& logits);

  // The cache, for looking at and for exchanging: keeping one per composition makes switching back free of prefill.
  [[nodiscard]] KvCache& cache() { return cache_; }
  void ExchangeCache(KvCache& other) { std::swap(cache_, other); }

  void SetCancelCheck(CancelCheck check) { cancel_ = std::move(check); }
  [[nodiscard]] const StagedComposition& composition() const { return *composition_; }
  [[nodiscard]] std::uint64_t scratch_bytes() const;

 private:
  struct Layer {
    const std::vector<float>*attention_norm, *ffn_norm;
    LinearGroup qkv, o, gate_up, down;
  };
  Decoder(std::shared_ptr<const StagedComposition> composition, const DecoderOptions& options, const kernels::Table& kernels,
          KvCache cache);

  Status Check(std::span<const TokenId> tokens) const;
  void Embed(std::uint32_t worker, std::span<const TokenId> tokens);
  void RunLayer(std::uint32_t worker, std::uint32_t index, std::uint32_t tokens);
  void RunHead(std::uint32_t worker, std::uint32_t first, std::uint32_t tokens);

  std::shared_ptr<const StagedComposition> composition_;
  const ModelConfig* config_;
  const kernels::Table* kernels_;
  ThreadPool pool_;
  KvCache cache_;
  std::uint32_t max_batch_;
  RopeTable rope_;
  Attention attention_;
  std::vector<Layer> layers_;
  std::unique_ptr<LinearGroup> head_;
  std::unique_ptr<LinearScratch> scratch_;
  const Site* embedding_;
  std::uint64_t embedding_prepared_ = 0, embedding_scratch_ = 0;
  std::vector<std::byte> embedding_buffer_;
  // [max_batch, …]; `head_rows_` tokens of logits at most
  std::vector<float> x_, q_, k_, v_, attended_, gate_, up_, logits_;
  CancelCheck cancel_;
};

}  // namespace veneer

#endif  // VENEER_CORE_DECODE_DECODER_H_
