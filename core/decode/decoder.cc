#include "core/decode/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "core/model/select_kernels.h"

namespace veneer {
namespace {

constexpr std::uint32_t kDefaultContext = 4096;
constexpr std::uint32_t kMaxThreads = 1024, kMaxBatch = 65536;

std::uint32_t ContextOf(const ModelConfig& config, const DecoderOptions& options) {
  return options.context.value_or(std::min(config.context_length, kDefaultContext));
}
KvType KvTypeOf(ComputeMode mode, const DecoderOptions& options) {
  return options.kv.value_or(mode == ComputeMode::kExact ? KvType::kF32 : KvType::kF16);
}
std::uint32_t HeadRows(const DecoderOptions& options) { return options.all_logits ? std::min(kTokenBlock, options.max_batch) : 1; }
// Rows of the linear layers' buffers: for one token every worker uses a row of its own.
std::uint32_t RowsOf(const DecoderOptions& options) { return std::max(options.max_batch, options.threads); }

Status CheckOptions(const ModelConfig& config, ComputeMode mode, const DecoderOptions& options) {
  const std::uint32_t context = ContextOf(config, options);
  if (options.threads == 0 || options.threads > kMaxThreads)
    return Fail(Code::USAGE, "--threads", fmt::format("{}, allowed are 1 to {}", options.threads, kMaxThreads));
  if (options.max_batch == 0 || options.max_batch > kMaxBatch)
    return Fail(Code::USAGE, "--batch", fmt::format("{}, allowed are 1 to {}", options.max_batch, kMaxBatch));
  if (context == 0 || context > config.context_length)
    return Fail(Code::USAGE, "-c", fmt::format("{} tokens, the model was made for 1 to {}", context, config.context_length));
  const KvType kv = KvTypeOf(mode, options);
  if (mode == ComputeMode::kExact && kv != KvType::kF32)
    return Fail(Code::USAGE, "--kv", fmt::format("{}, but exact keeps K/V in f32; leave --kv out or use --compute fast", KvTypeName(kv)));
  const std::uint32_t block = InfoOf(static_cast<DType>(kv)).block_elements;
  if (config.head_dim % block != 0)
    return Fail(Code::USAGE, "--kv",
                fmt::format("{} stores blocks of {} numbers, this model's heads have {}; use --kv f16 or f32", KvTypeName(kv), block,
                            config.head_dim));
  return {};
}

const Site& Must(const StagedComposition& composition, const std::string& id) {
  const Site* site = composition.base().sites().Find(id);
  if (site == nullptr) throw std::logic_error("the base lacks the site " + id);  // Base::OpenGguf has proven that it is there
  return *site;
}

}  // namespace

std::uint64_t Decoder::EmbeddingNeeds::Bytes(std::uint32_t threads) const {
  const std::uint64_t each = prepared * kTokenBlock + scratch;
  return each == 0 ? 0 : each * threads + 63;  // aligned to 64 where it is used
}

Decoder::EmbeddingNeeds Decoder::EmbeddingNeeds::Of(const StagedComposition& composition) {
  EmbeddingNeeds needs;
  for (const OverlayBinding* overlay : composition.at(Must(composition, "model.embed_tokens")).overlays) {
    needs.prepared = std::max(needs.prepared, (overlay->program().prepared_bytes_per_token + 63) / 64 * 64);
    needs.scratch = std::max(needs.scratch, (overlay->program().thread_scratch_bytes + 63) / 64 * 64);
  }
  return needs;
}

Decoder::Memory Decoder::MemoryWith(const LinearNeeds& linear, const EmbeddingNeeds& embedding, const ModelConfig& config, ComputeMode mode,
                                    const DecoderOptions& options) {
  const std::uint32_t context = ContextOf(config, options);
  const std::uint64_t q = std::uint64_t{config.n_heads} * config.head_dim, kv = std::uint64_t{config.n_kv_heads} * config.head_dim;
  const std::uint64_t batch = options.max_batch * (config.hidden + 2 * q + 2 * kv + 2 * std::uint64_t{config.ffn}) * sizeof(float);
  const std::uint64_t logits = std::uint64_t{HeadRows(options)} * config.vocab * sizeof(float);
  return {LinearScratch::Bytes(linear, RowsOf(options), options.threads) + embedding.Bytes(options.threads) + batch + logits +
              Attention::Bytes(context, options.threads) + RopeTable::Bytes(config.head_dim, options.max_batch),
          KvCache::Bytes(config, context, KvTypeOf(mode, options))};
}

Decoder::Memory Decoder::PlannedMemory(const ModelConfig& config, ComputeMode mode, const DecoderOptions& options) {
  const std::uint64_t q = std::uint64_t{config.n_heads} * config.head_dim;
  LinearNeeds needs;
  for (const std::uint64_t in : {std::uint64_t{config.hidden}, q, std::uint64_t{config.ffn}})
    needs.Include(LinearNeeds::OfPlainGroup(in, mode));
  return MemoryWith(needs, {}, config, mode, options);
}

Result<Decoder::Memory> Decoder::PlannedMemory(const StagedComposition& composition, const DecoderOptions& options) {
  const ModelConfig& config = composition.base().config();
  VENEER_TRY(CheckOptions(config, composition.mode(), options));
  VENEER_ASSIGN(const kernels::Table* kernels, SelectKernels());
  return MemoryWith(Network(composition, *kernels).Needs(), EmbeddingNeeds::Of(composition), config, composition.mode(), options);
}

// Groups are plans over sites: they hold no weights and cost nothing worth counting.
Decoder::Network::Network(const StagedComposition& composition, const kernels::Table& kernels)
    : head(composition, {&Must(composition, "lm_head")}, kernels) {
  const auto group = [&](const std::string& prefix, std::initializer_list<const char*> names) {
    std::vector<const Site*> sites;
    for (const char* name : names) sites.push_back(&Must(composition, prefix + name));
    return LinearGroup(composition, sites, kernels);
  };
  const auto norm_at = [&](const std::string& id) { return &composition.at(Must(composition, id)).vector; };
  const auto head_norm_at = [&](const std::string& id) -> const float* {
    const Site* site = composition.base().sites().Find(id);  // there exactly where the architecture asks for it
    return site == nullptr ? nullptr : composition.at(*site).vector.data();
  };
  norm = norm_at("model.norm");
  for (std::uint32_t l = 0; l < composition.base().config().n_layers; ++l) {
    const std::string layer = fmt::format("model.layers.{}.", l);
    layers.push_back({norm_at(layer + "input_layernorm"),
                      norm_at(layer + "post_attention_layernorm"),
                      {head_norm_at(layer + "self_attn.q_norm"), head_norm_at(layer + "self_attn.k_norm")},
                      group(layer + "self_attn.", {"q_proj", "k_proj", "v_proj"}),
                      group(layer + "self_attn.", {"o_proj"}),
                      group(layer + "mlp.", {"gate_proj", "up_proj"}),
                      group(layer + "mlp.", {"down_proj"})});
  }
}

LinearNeeds Decoder::Network::Needs() const {
  LinearNeeds needs = head.needs();
  for (const Layer& layer : layers)
    for (const LinearGroup* group : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down}) needs.Include(group->needs());
  return needs;
}

Result<std::unique_ptr<Decoder>> Decoder::Create(std::shared_ptr<const StagedComposition> composition, const DecoderOptions& options) {
  const ModelConfig& config = composition->base().config();
  VENEER_ASSIGN(const kernels::Table* kernels, SelectKernels());
  VENEER_TRY(CheckOptions(config, composition->mode(), options));
  try {
    VENEER_ASSIGN(KvCache cache, KvCache::Create(*composition, ContextOf(config, options), KvTypeOf(composition->mode(), options)));
    return std::unique_ptr<Decoder>(new Decoder(std::move(composition), options, *kernels, std::move(cache)));
  } catch (const std::bad_alloc&) {
    return Fail(Code::OUT_OF_MEMORY, "decoder", "the buffers were refused; give a smaller --batch or -c");
  } catch (const std::system_error& error) {
    return Fail(Code::OUT_OF_MEMORY, "decoder",
                fmt::format("{} threads were refused ({}); give fewer --threads", options.threads, error.what()));
  }
}

Decoder::Decoder(std::shared_ptr<const StagedComposition> composition, const DecoderOptions& options, const kernels::Table& kernels,
                 KvCache cache)
    : composition_(std::move(composition)),
      config_(&composition_->base().config()),
      kernels_(&kernels),
      pool_(options.threads),
      cache_(std::move(cache)),
      max_batch_(options.max_batch),
      head_rows_(HeadRows(options)),
      rope_(*config_, max_batch_),
      attention_(*config_, cache_.context(), options.threads, kernels),
      network_(*composition_, kernels),
      embedding_(&Must(*composition_, "model.embed_tokens")),
      embedding_needs_(EmbeddingNeeds::Of(*composition_)) {
  scratch_ = std::make_unique<LinearScratch>(network_.Needs(), RowsOf(options), options.threads);
  embedding_buffer_.resize(embedding_needs_.Bytes(options.threads));

  const std::uint64_t q = std::uint64_t{config_->n_heads} * config_->head_dim;
  x_.resize(max_batch_ * std::uint64_t{config_->hidden});
  q_.resize(max_batch_ * q);
  k_.resize(max_batch_ * cache_.kv_width());
  v_.resize(max_batch_ * cache_.kv_width());
  attended_.resize(max_batch_ * q);
  gate_.resize(max_batch_ * std::uint64_t{config_->ffn});
  up_.resize(gate_.size());
  logits_.resize(std::size_t{head_rows_} * config_->vocab);
}

std::uint64_t Decoder::scratch_bytes() const {
  const std::uint64_t floats =
      x_.size() + q_.size() + k_.size() + v_.size() + attended_.size() + gate_.size() + up_.size() + logits_.size();
  return floats * sizeof(float) + scratch_->bytes() + attention_.bytes() + rope_.bytes() + embedding_buffer_.size();
}

Status Decoder::ExchangeCache(KvCache& other) {
  VENEER_TRY(other.CheckComposition(*composition_));
  VENEER_TRY(cache_.CheckShape(other));
  std::swap(cache_, other);
  return {};
}

Status Decoder::Check(std::span<const TokenId> tokens) const {
  VENEER_TRY(cache_.CheckComposition(*composition_));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (static_cast<std::uint32_t>(tokens[i]) >= config_->vocab)  // a negative id becomes a large one
      return Fail(Code::TARGET_UNKNOWN, fmt::format("token {}", i),
                  fmt::format("id {}, the vocabulary has 0..{}", tokens[i], config_->vocab - 1));
  const std::uint64_t room = cache_.context() - cache_.position();
  if (tokens.size() > room)
    return Fail(
        Code::CONTEXT_FULL, "context",
        fmt::format("{} tokens are held and {} more asked for, the context has {}; give a larger -c (the model allows {}) or less text",
                    cache_.position(), tokens.size(), cache_.context(), config_->context_length));
  return {};
}

// Gathers the rows of the tokens' embeddings and lets the overlays of that site add to them, by canonical token blocks.
void Decoder::Embed(std::uint32_t worker, std::span<const TokenId> tokens) {
  const auto n_tokens = static_cast<std::uint32_t>(tokens.size());
  const auto blocks = pool_.Share((n_tokens + kTokenBlock - 1) / kTokenBlock, worker);
  const auto& overlays = composition_->at(*embedding_).overlays;
  auto aligned = reinterpret_cast<std::uintptr_t>(embedding_buffer_.data());
  aligned = (aligned + 63) / 64 * 64 + worker * (embedding_needs_.prepared * kTokenBlock + embedding_needs_.scratch);
  for (std::uint64_t block = blocks.begin; block < blocks.end; ++block) {
    const auto t0 = static_cast<std::uint32_t>(block) * kTokenBlock;
    const std::uint32_t n = std::min(kTokenBlock, n_tokens - t0);
    float* rows = x_.data() + std::uint64_t{t0} * config_->hidden;
    for (std::uint32_t t = 0; t < n; ++t)
      composition_->ReadBaseRows(*embedding_, static_cast<std::uint64_t>(tokens[t0 + t]), 1, rows + std::uint64_t{t} * config_->hidden,
                                 config_->hidden);
    vnr_io io{};
    io.struct_size = sizeof io;
    io.tokens = n;
    io.y = rows;
    io.y_stride = config_->hidden;
    io.prepared = reinterpret_cast<void*>(aligned);
    io.prepared_stride = embedding_needs_.prepared;
    io.scratch = reinterpret_cast<void*>(aligned + embedding_needs_.prepared * kTokenBlock);
    io.ids = tokens.data() + t0;
    for (const OverlayBinding* overlay : overlays) {
      const HotCalls calls = overlay->hot();
      if (overlay->program().prepare_units > 0) calls.Prepare(io, 0, overlay->program().prepare_units);
      calls.Apply(io, 0, config_->hidden);
    }
  }
}

// No barrier at the end: the caller has one.
void Decoder::RunLayer(std::uint32_t worker, std::uint32_t index, std::uint32_t tokens) {
  const Layer& layer = network_.layers[index];
  const std::uint64_t hidden = config_->hidden, ffn = config_->ffn;
  const std::uint64_t q_width = std::uint64_t{config_->n_heads} * config_->head_dim, kv_width = cache_.kv_width();
  const auto normed = [&](const std::vector<float>& weight) {
    return [this, &weight, hidden](std::uint32_t t, float* row) {
      kernels_->rms_norm(x_.data() + t * hidden, weight.data(), config_->rms_epsilon, hidden, row);
    };
  };
  const LinearGroup::Output residual[] = {{x_.data(), hidden, true}};

  const LinearGroup::Output qkv[] = {{q_.data(), q_width, false}, {k_.data(), kv_width, false}, {v_.data(), kv_width, false}};
  layer.qkv.Run(pool_, worker, tokens, normed(*layer.attention_norm), *scratch_, qkv);
  pool_.Barrier();
  attention_.Run(pool_, worker, index, {q_.data(), k_.data(), v_.data(), attended_.data(), tokens, cache_.position()}, layer.head_norms,
                 rope_, cache_);
  pool_.Barrier();
  const auto attended = [this, q_width](std::uint32_t t, float* row) { std::copy_n(attended_.data() + t * q_width, q_width, row); };
  layer.o.Run(pool_, worker, tokens, attended, *scratch_, residual);
  pool_.Barrier();

  const LinearGroup::Output gate_up[] = {{gate_.data(), ffn, false}, {up_.data(), ffn, false}};
  layer.gate_up.Run(pool_, worker, tokens, normed(*layer.ffn_norm), *scratch_, gate_up);
  pool_.Barrier();
  const auto gated = [this, ffn](std::uint32_t t, float* row) {
    kernels_->silu_mul(gate_.data() + t * ffn, up_.data() + t * ffn, row, ffn);
  };
  layer.down.Run(pool_, worker, tokens, gated, *scratch_, residual);
}

void Decoder::RunHead(std::uint32_t worker, std::uint32_t first, std::uint32_t tokens) {
  const std::uint64_t hidden = config_->hidden;
  const auto input = [&](std::uint32_t t, float* row) {
    kernels_->rms_norm(x_.data() + (first + t) * hidden, network_.norm->data(), config_->rms_epsilon, hidden, row);
  };
  const LinearGroup::Output output[] = {{logits_.data(), config_->vocab, false}};
  network_.head.Run(pool_, worker, tokens, input, *scratch_, output);
}

// One pass through the layers. The cancel check runs while the other workers wait at the barrier that ends each layer.
Status Decoder::RunLayers(std::span<const TokenId> tokens) {
  const auto n = static_cast<std::uint32_t>(tokens.size());
  const auto ask = [this] {
    if (!cancel_) return;
    cancelled_ = cancel_();
    stops_.store(cancelled_.has_value(), std::memory_order_relaxed);
  };
  ask();
  if (cancelled_) return Fail(*std::exchange(cancelled_, std::nullopt));
  rope_.Fill(cache_.position(), n);
  pool_.Run([&](std::uint32_t worker) {
    Embed(worker, tokens);
    pool_.Barrier();
    for (std::uint32_t l = 0; l < config_->n_layers && !stops_.load(std::memory_order_relaxed); ++l) {
      RunLayer(worker, l, n);
      if (worker == 0) ask();
      pool_.Barrier();
    }
  });
  stops_.store(false, std::memory_order_relaxed);
  if (cancelled_) return Fail(*std::exchange(cancelled_, std::nullopt));
  return {};
}

Status Decoder::Feed(std::span<const TokenId> tokens, bool all, const LogitsSink& logits) {
  VENEER_TRY(Check(tokens));
  const std::uint32_t before = cache_.position();
  const auto undo = [&](Error error) {
    cache_.Truncate(before);
    return Fail(std::move(error));
  };
  for (std::size_t done = 0; done < tokens.size();) {
    const auto batch = tokens.subspan(done, std::min<std::size_t>(max_batch_, tokens.size() - done));
    const auto n = static_cast<std::uint32_t>(batch.size());
    if (auto ran = RunLayers(batch); !ran) return undo(std::move(ran).error());
    cache_.Advance(n);
    const bool is_last = done + n == tokens.size();
    for (std::uint32_t first = all ? 0 : n - 1; first < n && (all || is_last); first += head_rows_) {
      const std::uint32_t rows = std::min(head_rows_, n - first);
      pool_.Run([&](std::uint32_t worker) { RunHead(worker, first, rows); });
      if (auto intact = composition_->CheckIntact(); !intact) return undo(std::move(intact).error());
      for (std::uint32_t t = 0; t < rows; ++t)
        if (auto taken = logits(done + first + t, std::span(logits_).subspan(std::size_t{t} * config_->vocab, config_->vocab)); !taken)
          return undo(std::move(taken).error());
    }
    done += n;
  }
  return {};
}

}  // namespace veneer
