// Bytes of weights per second of each product kernel, one thread. Decode (1 token) walks matrices of 4096 x 4096 that together are
// larger than any cache, so it is held against `read`, which only loads the same bytes in four streams. With more tokens the rate of
// multiply-adds is what counts (items per second).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "veneer/abi.h"

namespace {

using veneer::kernels::QuantizedActivations;
using veneer::kernels::Table;

constexpr std::uint64_t kCols = 4096;
constexpr std::uint32_t kRows = 4096;
constexpr std::uint32_t kTileRows = 264;  // rows a caller gives at once; an eighth of it is odd: streams off the 4 KiB grid
constexpr std::uint64_t kLargerThanCaches = 192u << 20;

struct Type {
  int type;
  const char* name;
  std::uint64_t row_bytes;
};
constexpr Type kTypes[] = {
    {VNR_F32, "F32", kCols * 4},           {VNR_F16, "F16", kCols * 2},
    {VNR_BF16, "BF16", kCols * 2},         {VNR_Q4_0, "Q4_0", kCols / 32 * 18},
    {VNR_Q4_1, "Q4_1", kCols / 32 * 20},   {VNR_Q5_0, "Q5_0", kCols / 32 * 22},
    {VNR_Q5_1, "Q5_1", kCols / 32 * 24},   {VNR_Q8_0, "Q8_0", kCols / 32 * 34},
    {VNR_Q2_K, "Q2_K", kCols / 256 * 84},  {VNR_Q3_K, "Q3_K", kCols / 256 * 110},
    {VNR_Q4_K, "Q4_K", kCols / 256 * 144}, {VNR_Q5_K, "Q5_K", kCols / 256 * 176},
    {VNR_Q6_K, "Q6_K", kCols / 256 * 210}, {VNR_IQ4_NL, "IQ4_NL", kCols / 32 * 18},
};

struct Weights {
  std::vector<std::uint8_t> bytes;
  std::vector<const void*> rows;

  explicit Weights(std::uint64_t row_bytes) {
    const std::uint64_t matrices = kLargerThanCaches / (row_bytes * kRows) + 1;
    bytes.assign(matrices * kRows * row_bytes, 0x11);  // 0x1111 as a scale: a small normal half, float and bfloat
    for (std::uint64_t r = 0; r < matrices * kRows; ++r) rows.push_back(bytes.data() + r * row_bytes);
  }
};

struct Activations {
  std::vector<float> x;
  std::vector<std::int8_t> q;
  std::vector<float> d;
  std::vector<std::int32_t> sum;

  Activations(const Table& table, std::uint32_t tokens)
      : x(tokens * kCols), q(tokens * kCols), d(tokens * kCols / 32), sum(tokens * kCols / 32) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 2654435761u % 1000) * 0.001f - 0.5f;
    for (std::uint32_t t = 0; t < tokens; ++t) {
      table.quantize_activations(&x[t * kCols], kCols, &q[t * kCols], &d[t * kCols / 32], &sum[t * kCols / 32]);
    }
  }
  QuantizedActivations View() const { return {q.data(), d.data(), sum.data(), kCols, kCols / 32}; }
};

void Count(benchmark::State& state, std::uint64_t row_bytes, std::uint64_t rows, std::uint32_t tokens) {
  state.SetBytesProcessed(static_cast<std::int64_t>(rows * row_bytes));
  state.SetItemsProcessed(static_cast<std::int64_t>(rows * kCols * tokens));
}

void Products(benchmark::State& state, const Table& table, const Type& type, bool q8, std::uint32_t tokens) {
  const Weights weights(type.row_bytes);
  const Activations x(table, tokens);
  std::vector<float> y(tokens * kTileRows);
  std::uint64_t next = 0, done = 0;
  for (auto _ : state) {
    if (next + kTileRows > weights.rows.size()) next = 0;
    const void* const* rows = &weights.rows[next];
    if (q8) {
      table.dot_rows_q8[type.type](rows, kTileRows, kCols, x.View(), tokens, y.data(), kTileRows);
    } else {
      table.dot_rows[type.type](rows, kTileRows, kCols, x.x.data(), kCols, tokens, y.data(), kTileRows);
    }
    next += kTileRows;
    done += kTileRows;
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
  Count(state, type.row_bytes, done, tokens);
}

using Vector [[gnu::vector_size(16), gnu::aligned(1), gnu::may_alias]] = std::uint64_t;

// Four streams, nothing but loads.
void Read(benchmark::State& state) {
  const Weights weights(kTypes[3].row_bytes);
  const std::uint64_t part = kTileRows * kTypes[3].row_bytes / 4 / 64 * 64;
  std::uint64_t next = 0, done = 0;
  for (auto _ : state) {
    if (next + 4 * part > weights.bytes.size()) next = 0;
    const std::uint8_t* p = weights.bytes.data() + next;
    Vector total = {};
    for (std::uint64_t i = 0; i < part; i += 64) {
      for (std::uint64_t s = 0; s < 4; ++s) {
        const Vector* line = reinterpret_cast<const Vector*>(p + s * part + i);
        total ^= (line[0] ^ line[1]) ^ (line[2] ^ line[3]);
      }
    }
    benchmark::DoNotOptimize(total);
    next += 4 * part;
    done += 4 * part;
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(done));
}

void Quantize(benchmark::State& state, const Table& table) {
  Activations x(table, 1);
  for (auto _ : state) {
    table.quantize_activations(x.x.data(), kCols, x.q.data(), x.d.data(), x.sum.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kCols));
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::RegisterBenchmark("read", Read);
  const veneer::kernels::TableList list = veneer::kernels::Runnable();
  for (std::size_t i = 0; i < list.count; ++i) {
    const Table& table = *list.tables[i];
    const std::string isa = table.isa;
    benchmark::RegisterBenchmark((isa + "/quantize_activations").c_str(), [&table](benchmark::State& state) { Quantize(state, table); });
    for (const Type& type : kTypes) {
      for (bool q8 : {false, true}) {
        if (q8 && table.dot_rows_q8[type.type] == nullptr) continue;
        for (std::uint32_t tokens : {1u, 4u, 64u}) {
          const std::string name = isa + (q8 ? "/dot_rows_q8/" : "/dot_rows/") + type.name + "/tokens:" + std::to_string(tokens);
          benchmark::RegisterBenchmark(name.c_str(),
                                       [&table, &type, q8, tokens](benchmark::State& state) { Products(state, table, type, q8, tokens); });
        }
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
