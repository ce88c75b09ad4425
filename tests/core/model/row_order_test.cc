#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/model/site.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_base.h"

namespace veneer {
namespace {

TEST_CASE("row order: the stored rows of two heads of eight are lanes 0 4 1 5 2 6 3 7 8 12 9 13 10 14 11 15") {
  const std::uint64_t golden[] = {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15};  // adapter-formats e.6
  const RowOrder order = RowOrder::InterleavedHeads(8);
  for (std::uint64_t row = 0; row < 16; ++row) {
    CHECK(order.LaneOf(row) == golden[row]);
    CHECK(order.StoredRow(golden[row]) == row);
  }
}

TEST_CASE("row order: both directions are inverse for every even head size") {
  for (std::uint32_t head_dim = 2; head_dim <= 128; head_dim += 2) {
    const RowOrder order = RowOrder::InterleavedHeads(head_dim);
    for (std::uint64_t row = 0; row < 3 * head_dim; ++row)
      if (order.LaneOf(order.StoredRow(row)) != row || order.StoredRow(row) / head_dim != row / head_dim) FAIL(head_dim << " " << row);
  }
  CHECK(RowOrder::Identity().StoredRow(7) == 7);
  CHECK(RowOrder::Identity().LaneOf(7) == 7);
}

TEST_CASE("row order: the rows of a range of lanes are those of each lane, wherever in a head it begins and ends") {
  for (const RowOrder order :
       {RowOrder::Identity(), RowOrder::InterleavedHeads(2), RowOrder::InterleavedHeads(6), RowOrder::InterleavedHeads(8)}) {
    for (std::uint64_t lane = 0; lane < 20; ++lane) {
      for (std::uint64_t n = 0; n < 40; ++n) {
        std::vector<std::uint64_t> rows(n), expected(n);
        order.StoredRows(lane, n, rows.data());
        for (std::uint64_t i = 0; i < n; ++i) expected[i] = order.StoredRow(lane + i);
        REQUIRE(rows == expected);
      }
    }
  }
}

// The file's F32 rows are numbered; reading them in lane order must undo the converter's reshape (H, 2, D/2) -> swap -> (H, D/2, 2).
TEST_CASE("row order: rows of q and k and elements of their biases are read in Hugging Face order") {
  GgufWriter writer = TinyLlama({.n_layers = 1, .matrix_type = VNR_F32, .biases = true});
  constexpr std::uint64_t kHeads = 4, kDim = 16, kHidden = 64;
  std::vector<float> stored(kHeads * kDim * kHidden), stored_bias(kHeads * kDim);
  for (std::uint64_t h = 0; h < kHeads; ++h)
    for (std::uint64_t half = 0; half < 2; ++half)
      for (std::uint64_t p = 0; p < kDim / 2; ++p) {
        const std::uint64_t lane = h * kDim + half * (kDim / 2) + p, row = h * kDim + p * 2 + half;
        stored_bias[row] = static_cast<float>(lane);
        for (std::uint64_t i = 0; i < kHidden; ++i) stored[row * kHidden + i] = static_cast<float>(lane * 1000 + i);
      }
  writer.SetTensor("blk.0.attn_q.weight", VNR_F32, {64, 64}, Quantize(VNR_F32, stored));
  writer.SetTensor("blk.0.attn_q.bias", VNR_F32, {64}, Quantize(VNR_F32, stored_bias));
  const auto base = OpenTiny(writer);
  std::vector<float> rows(10 * 70, -1);
  ReadRows(*base->sites().Find("model.layers.0.self_attn.q_proj"), 5, 10, rows.data(), 70);
  for (std::uint64_t r = 0; r < 10; ++r) {
    for (std::uint64_t i = 0; i < kHidden; ++i)
      if (rows[r * 70 + i] != static_cast<float>((5 + r) * 1000 + i)) FAIL(r << " " << i);
    CHECK(rows[r * 70 + kHidden] == -1);
  }
  std::vector<float> bias(64);
  ReadRows(*base->sites().Find("model.layers.0.self_attn.q_proj.bias"), 0, 1, bias.data(), 64);
  for (std::uint64_t lane = 0; lane < 64; ++lane) CHECK(bias[lane] == static_cast<float>(lane));
}

TEST_CASE("read rows: quantized rows are their blocks' values, within half a step of what was quantized") {
  const std::pair<std::uint32_t, float> types[] = {// type, largest step relative to the largest magnitude of a block
                                                   {VNR_F32, 0},          {VNR_F16, 1.0f / 1024}, {VNR_BF16, 1.0f / 128},
                                                   {VNR_Q4_0, 2.0f / 14}, {VNR_Q4_1, 2.0f / 15},  {VNR_Q5_0, 2.0f / 30},
                                                   {VNR_Q5_1, 2.0f / 31}, {VNR_Q8_0, 2.0f / 254}};
  for (const auto& [type, step] : types) {
    GgufWriter writer = TinyLlama({.n_layers = 1});
    const std::vector<float> values = Uniform(96 * 64, 1, 42);
    writer.SetTensor("blk.0.ffn_up.weight", type, {96, 64}, Quantize(type, values));
    const auto base = OpenTiny(writer);
    std::vector<float> rows(96 * 64);
    ReadRows(*base->sites().Find("model.layers.0.mlp.up_proj"), 0, 96, rows.data(), 64);
    for (std::size_t i = 0; i < rows.size(); ++i)  // 1/1024: the half-precision scale and minimum
      if (!(std::abs(rows[i] - values[i]) <= step / 2 + (step == 0 ? 0 : 1.0f / 1024)))
        FAIL(type << " " << i << ": " << rows[i] << " " << values[i]);
  }
}

}  // namespace
}  // namespace veneer
