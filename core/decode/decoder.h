// Tokens to logits over one staged composition: embedding, layers, final norm, head. One decoder serves one sequence at a time.
#ifndef VENEER_CORE_DECODE_DECODER_H_
#define VENEER_CORE_DECODE_DECODER_H_

#include <atomic>
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
  std::optional<std::uint32_t> context = std::nullopt;  // tokens; default: the model's, at most 4096
  std::optional<KvType> kv = std::nullopt;              // default: f16 in fast mode, f32 in exact mode, where nothing else is allowed
  std::uint32_t max_batch = 256;                        // tokens of one pass; longer inputs are split
  bool all_logits = false;                              // room to make the logits of kTokenBlock tokens at once when Feed is asked for all
};

// Asked on the calling thread before each pass and after each layer; a value ends the decoding with that error. Must not throw.
using CancelCheck = std::function<std::optional<Error>()>;

class Decoder {
 public:
  // E901 for options that contradict each other or the model, E504 when memory or threads are refused.
  static Result<std::unique_ptr<Decoder>> Create(std::shared_ptr<const StagedComposition> composition, const DecoderOptions& options);

  // What a decoder with these options takes beside base and overlays.
  struct Memory {
    std::uint64_t scratch_bytes, kv_bytes;
  };
  // Over the base alone; with overlays it is the least that can be known before they are staged.
  static Memory PlannedMemory(const ModelConfig& config, ComputeMode mode, const DecoderOptions& options);
  // To the byte: with the overlays' versions of x, what they prepare and their scratch of each thread. E901 as Create.
  static Result<Memory> PlannedMemory(const StagedComposition& composition, const DecoderOptions& options);

  // Feeds the tokens after what the cache holds. `logits(i, row)` is called for each token's logits [vocab] when `all`, else for the
  // last token only. On an error the cache holds what it held before. E405 for an id outside the vocabulary, E505 at the end of the
  // context, E417 when an overlay failed, E305 when the base's file changed, the sink's and the cancel check's own. Allocates nothing.
  using LogitsSink = std::function<Status(std::size_t i, std::span<const float> row)>;
  Status Feed(std::span<const TokenId> tokens, bool all, const LogitsSink& logits);

  // The cache, for looking at and for exchanging: keeping one per composition makes switching back free of prefill. E616 for a cache
  // that was filled under another composition or compute mode, E901 for one of another shape; both caches stay where they are then.
  [[nodiscard]] KvCache& cache() { return cache_; }
  Status ExchangeCache(KvCache& other);

  void SetCancelCheck(CancelCheck check) { cancel_ = std::move(check); }
  [[nodiscard]] const StagedComposition& composition() const { return *composition_; }
  [[nodiscard]] std::uint64_t scratch_bytes() const;

 private:
  struct Layer {
    const std::vector<float>*attention_norm, *ffn_norm;
    Attention::HeadNorms head_norms;  // into the composition's vectors
    LinearGroup qkv, o, gate_up, down;
  };
  // Everything between embedding and logits, as plans over the composition's sites.
  struct Network {
    Network(const StagedComposition& composition, const kernels::Table& kernels);
    [[nodiscard]] LinearNeeds Needs() const;  // of the largest group
    const std::vector<float>* norm;
    std::vector<Layer> layers;
    LinearGroup head;
  };
  // What the overlays of the embedding need: bytes a token, and scratch of each worker.
  struct EmbeddingNeeds {
    std::uint64_t prepared = 0, scratch = 0;
    static EmbeddingNeeds Of(const StagedComposition& composition);
    [[nodiscard]] std::uint64_t Bytes(std::uint32_t threads) const;
  };
  static Memory MemoryWith(const LinearNeeds& linear, const EmbeddingNeeds& embedding, const ModelConfig& config, ComputeMode mode,
                           const DecoderOptions& options);
  Decoder(std::shared_ptr<const StagedComposition> composition, const DecoderOptions& options, const kernels::Table& kernels,
          KvCache cache);

  Status Check(std::span<const TokenId> tokens) const;
  void Embed(std::uint32_t worker, std::span<const TokenId> tokens);
  void RunLayer(std::uint32_t worker, std::uint32_t index, std::uint32_t tokens);
  Status RunLayers(std::span<const TokenId> tokens);
  void RunHead(std::uint32_t worker, std::uint32_t first, std::uint32_t tokens);

  std::shared_ptr<const StagedComposition> composition_;
  const ModelConfig* config_;
  const kernels::Table* kernels_;
  ThreadPool pool_;
  KvCache cache_;
  std::uint32_t max_batch_, head_rows_;  // tokens of a pass; tokens whose logits are made at once
  RopeTable rope_;
  Attention attention_;
  Network network_;
  std::unique_ptr<LinearScratch> scratch_;
  const Site* embedding_;
  EmbeddingNeeds embedding_needs_;
  std::vector<std::byte> embedding_buffer_;
  std::vector<float> x_, q_, k_, v_, attended_, gate_, up_;  // [max_batch, …]
  std::vector<float> logits_;                                // [head_rows, vocab]
  CancelCheck cancel_;
  std::optional<Error> cancelled_;  // worker 0 writes it, between two barriers
  std::atomic<bool> stops_{false};  // what the other workers see of it
};

}  // namespace veneer

#endif  // VENEER_CORE_DECODE_DECODER_H_
