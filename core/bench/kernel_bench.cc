#include "core/bench/kernel_bench.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include "core/base/out_of_memory.h"
#include "core/bench/read_control.h"
#include "core/bench/statistics.h"
#include "core/decode/linear.h"
#include "core/decode/thread_pool.h"
#include "core/format/tensor_file.h"
#include "kernels/scaled_rows.h"

namespace veneer {
namespace {

constexpr std::uint64_t kColumns = kKernelBenchColumns, kBlocks = kColumns / kernels::kActivationBlock;
constexpr std::uint32_t kMaxPanelRows = 1024;  // for many tokens: enough for every thread, few enough that a run is short

// Bytes that are small normal numbers wherever a type keeps a scale (f16 0x2020 .. 0x3f3f), and anything at all elsewhere.
std::vector<std::byte> SomeBytes(std::uint64_t n) {
  std::vector<std::byte> bytes(n);
  std::uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(0x20 + (state >> 27));
  }
  return bytes;
}

// `tokens` tokens in all three forms that kernels take.
class Activations {
 public:
  Activations(const kernels::Table& table, std::uint32_t tokens)
      : x_(tokens * kColumns),
        q_(tokens * kColumns),
        d_(tokens * kBlocks),
        sum_(tokens * kBlocks),
        packed_((tokens + kernels::kPackedTokens - 1) / kernels::kPackedTokens * kBlocks) {
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i * 2654435761U % 1000) * 0.001F - 0.5F;
    for (std::uint32_t t = 0; t < tokens; ++t)
      table.quantize_activations(&x_[t * kColumns], kColumns, &q_[t * kColumns], &d_[t * kBlocks], &sum_[t * kBlocks]);
    for (std::uint32_t t = 0; t < tokens; t += kernels::kPackedTokens) {
      const kernels::QuantizedActivations part{&q_[t * kColumns], &d_[t * kBlocks], &sum_[t * kBlocks], kColumns, kBlocks};
      table.pack_activations(part, std::min(tokens - t, kernels::kPackedTokens), kBlocks, &packed_[t / kernels::kPackedTokens * kBlocks]);
    }
  }
  [[nodiscard]] const float* x() const { return x_.data(); }
  [[nodiscard]] kernels::QuantizedActivations quantized() const { return {q_.data(), d_.data(), sum_.data(), kColumns, kBlocks}; }
  [[nodiscard]] const kernels::PackedBlock* packed() const { return packed_.data(); }

 private:
  std::vector<float> x_;
  std::vector<std::int8_t> q_;
  std::vector<float> d_;
  std::vector<std::int32_t> sum_;
  std::vector<kernels::PackedBlock> packed_;
};

struct Scratch {
  alignas(64) std::byte bytes[kernels::kTileScratchBytes];
};

class TypeBench {
 public:
  TypeBench(const kernels::Table& table, DType type, const std::vector<std::byte>& bytes, const Activations& activations,
            const KernelBenchOptions& options, ThreadPool& pool)
      : table_(table), type_(type), activations_(activations), options_(options), pool_(pool), scratch_(options.threads) {
    const DTypeInfo& info = InfoOf(type);
    const std::uint64_t row_bytes = kColumns / info.block_elements * info.block_bytes;
    for (std::uint64_t at = 0; at + row_bytes <= bytes.size(); at += row_bytes) rows_.push_back(bytes.data() + at);
    weights_ = std::span(bytes).first(rows_.size() * row_bytes);
    if (type == VNR_NF4 || type == VNR_INT8_ROW) AddScales();
    y_.resize(std::max<std::size_t>(rows_.size(), std::size_t{options.tokens} * PanelRows()));
  }

  KernelResult Run() {
    KernelResult result{std::string(InfoOf(type_).name), table_.dot_rows_q8[type_] != nullptr};
    result.bytes_per_weight = static_cast<double>(weights_.size()) / static_cast<double>(rows_.size() * kColumns);
    ReadControl control({weights_}, options_.threads);
    std::vector<double> one, reads, many;
    OneToken();  // a warm-up
    for (std::uint64_t run = 0; run < options_.runs; ++run) {
      one.push_back(static_cast<double>(weights_.size()) / OneToken() / 1e6);
      reads.push_back(control.Pass());
      many.push_back(2.0 * options_.tokens * static_cast<double>(PanelRows() * kColumns) / ManyTokens() / 1e6);
    }
    result.gb_per_s = MedianOf(std::move(one));
    result.control_gb_per_s = MedianOf(std::move(reads));
    result.gop_per_s = MedianOf(std::move(many));
    return result;
  }

 private:
  // Types with scales in tensors of their own: one for each row, and for each 64 elements.
  void AddScales() {
    scale_values_.assign(rows_.size() * kColumns / 64, 0.01F);
    scales_.row_scales = scales_.absmax = scale_values_.data();
    scales_.block_shift = 6;
    for (int i = 0; i < 16; ++i) scales_.map[i] = static_cast<float>(i - 8) / 8;
    for (std::uint64_t r = 0; r < rows_.size(); ++r) scaled_.push_back({rows_[r], r, r * kColumns, &scales_});
    for (std::uint64_t r = 0; r < rows_.size(); ++r) rows_[r] = &scaled_[r];
  }

  [[nodiscard]] std::uint32_t PanelRows() const { return std::min<std::uint32_t>(kMaxPanelRows, static_cast<std::uint32_t>(rows_.size())); }

  // Each worker its share of the rows, as many at once as decoding multiplies; milliseconds.
  template <class Tile>
  double Timed(std::uint64_t n_rows, std::uint64_t tile, const Tile& multiply) {
    const auto start = BenchClock::now();
    const auto body = [&](std::uint32_t worker) {
      const auto [begin, end] = pool_.Share((n_rows + tile - 1) / tile, worker);
      for (std::uint64_t t = begin; t < end; ++t) multiply(t * tile, static_cast<std::uint32_t>(std::min(tile, n_rows - t * tile)), worker);
    };
    pool_.Run(body);
    return MsSince(start);
  }

  double OneToken() {
    const kernels::QuantizedActivations x = activations_.quantized();
    return Timed(rows_.size(), kTileLanes * kRunTiles, [&](std::uint64_t row, std::uint32_t n, std::uint32_t) {
      if (table_.dot_rows_q8[type_] != nullptr)
        table_.dot_rows_q8[type_](&rows_[row], n, kColumns, x, 1, &y_[row], rows_.size());
      else
        table_.dot_rows[type_](&rows_[row], n, kColumns, activations_.x(), kColumns, 1, &y_[row], rows_.size());
    });
  }

  double ManyTokens() {
    const std::uint32_t panel = PanelRows(), tokens = options_.tokens;
    return Timed(panel, kPanelLanes, [&](std::uint64_t row, std::uint32_t n, std::uint32_t worker) {
      if (table_.multiply_tile[type_] != nullptr)
        table_.multiply_tile[type_](&rows_[row], n, kColumns, activations_.packed(), kBlocks, tokens, scratch_[worker].bytes, &y_[row],
                                    panel);
      else if (table_.dot_rows_q8[type_] != nullptr)
        table_.dot_rows_q8[type_](&rows_[row], n, kColumns, activations_.quantized(), tokens, &y_[row], panel);
      else
        table_.dot_rows[type_](&rows_[row], n, kColumns, activations_.x(), kColumns, tokens, &y_[row], panel);
    });
  }

  const kernels::Table& table_;
  DType type_;
  const Activations& activations_;
  const KernelBenchOptions& options_;
  ThreadPool& pool_;
  std::span<const std::byte> weights_;
  std::vector<const void*> rows_;
  kernels::WeightScales scales_;
  std::vector<float> scale_values_;
  std::vector<kernels::ScaledRow> scaled_;
  std::vector<float> y_;
  std::vector<Scratch> scratch_;
};

}  // namespace

Result<std::vector<KernelResult>> BenchKernels(const kernels::Table& table, const KernelBenchOptions& options) {
  return OrOutOfMemory([&]() -> Result<std::vector<KernelResult>> {
    const std::vector<std::byte> bytes = SomeBytes(options.bytes);
    const Activations activations(table, options.tokens);
    ThreadPool pool(options.threads);
    std::vector<KernelResult> results;
    for (DType type = 0; type < kernels::kTypes; ++type) {
      if (table.dot_rows[type] == nullptr) continue;
      results.push_back(TypeBench(table, type, bytes, activations, options, pool).Run());
    }
    return results;
  });
}

}  // namespace veneer
