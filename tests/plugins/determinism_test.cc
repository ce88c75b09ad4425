// det-* of the plugin design, 4.4: the bits of a token depend on its input alone, for every kind that promises D2.
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/kernels.h"
#include "tests/plugins/kinds.h"
#include "tests/support/catch.h"

using namespace plugin_test;

namespace {

constexpr std::uint64_t kOut = 203, kIn = 93, kRank = 11;  // no multiples of anything
constexpr std::uint32_t kTokens = 37;

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// One overlay over a fixed input, cut as told: transformed x and y together.
struct Subject {
  Example example;
  std::vector<float> x, y0;
  std::vector<std::int32_t> ids;

  explicit Subject(Example of) : example(std::move(of)) {
    std::mt19937 rng(53);
    const bool is_embedding = example.site.shape_class == VNR_SITE_EMBEDDING;
    x = RandomFloats(rng, kTokens * kIn);
    y0 = RandomFloats(rng, kTokens * (is_embedding ? kIn : kOut));
    for (std::uint32_t t = 0; t < kTokens; ++t) ids.push_back(static_cast<std::int32_t>(t * 29 % kOut));
  }
  [[nodiscard]] std::vector<float> Run(const Binding& binding, const Cut& cut) const {
    if (example.site.shape_class == VNR_SITE_EMBEDDING) return ApplyEmbedding(binding, ids, y0, cut);
    std::vector<float> all = TransformX(binding, x, kTokens, cut);
    const std::vector<float> y = Apply(binding, x, y0, kTokens, cut);
    all.insert(all.end(), y.begin(), y.end());
    return all;
  }
};

template <class Check>
void ForEveryKind(const Check& check) {
  int kinds = 0;
  for (Example& example : Examples(kOut, kIn, kRank)) {
    INFO(example.name);
    TestHost host;
    Binding binding(host, *example.kind, example.site, example.tensors, example.params);
    REQUIRE(binding.Ready(&example.base));
    REQUIRE(binding.program.det_level == 2);
    const Subject subject(example);
    check(subject, binding, subject.Run(binding, {}));
    ++kinds;
  }
  REQUIRE(kinds == 25);
}

}  // namespace

TEST_CASE("every kind: 1 to 16 threads give the same bits (det-threads)") {
  ForEveryKind([](const Subject& subject, const Binding& binding, const std::vector<float>& reference) {
    for (const std::uint32_t threads : {2U, 3U, 7U, 16U}) {
      INFO(threads << " threads");
      CHECK(SameBits(subject.Run(binding, {.tile = 32, .tokens_at_once = 5, .units_at_once = 1, .threads = threads}), reference));
    }
  });
}

TEST_CASE("every kind: any tile that is a multiple of the lane quantum gives the same bits (det-tiles)") {
  ForEveryKind([](const Subject& subject, const Binding& binding, const std::vector<float>& reference) {
    for (const std::uint64_t tile : {1U, 8U, 24U, 40U, 64U, 72U, 128U, 1000U}) {
      INFO("tile " << tile);
      CHECK(SameBits(subject.Run(binding, {.tile = tile}), reference));
    }
  });
}

TEST_CASE("every kind: a token alone and a token in any batch have the same bits (det-batch)") {
  ForEveryKind([](const Subject& subject, const Binding& binding, const std::vector<float>& reference) {
    for (const std::uint32_t tokens : {1U, 2U, 3U, 4U, 7U, 8U, 31U}) {
      INFO(tokens << " tokens at once");
      CHECK(SameBits(subject.Run(binding, {.tokens_at_once = tokens}), reference));
    }
  });
}

TEST_CASE("every kind: prepare units one by one, in pieces, backwards or all at once write the same bytes (det-prepare-split)") {
  ForEveryKind([](const Subject& subject, const Binding& binding, const std::vector<float>& reference) {
    for (const std::uint32_t units : {1U, 2U, 3U, 5U}) {
      CHECK(SameBits(subject.Run(binding, {.units_at_once = units}), reference));
      CHECK(SameBits(subject.Run(binding, {.units_at_once = units, .units_backwards = true}), reference));
    }
  });
}

TEST_CASE("every kind: pointers off by 4 to 60 bytes and other strides give the same bits (det-align)") {
  ForEveryKind([](const Subject& subject, const Binding& binding, const std::vector<float>& reference) {
    for (const std::uint64_t offset : {1U, 3U, 8U, 15U})
      for (const std::uint64_t padding : {0U, 1U, 13U})
        CHECK(SameBits(subject.Run(binding, {.x_offset = offset, .y_offset = 15 - offset, .padding = padding}), reference));
  });
}

TEST_CASE("every kind: the instruction set that the host permits does not change a bit") {
  ForEveryKind([](const Subject& subject, const Binding&, const std::vector<float>& reference) {
    for (const std::uint64_t narrower : {std::uint64_t{0}, veneer::kernels::kAvx2Features & AllCpuFeatures()}) {
      TestHost host;
      host.set_cpu_features(narrower);
      Binding binding(host, *subject.example.kind, subject.example.site, subject.example.tensors, subject.example.params);
      REQUIRE(binding.Ready(&subject.example.base));
      CHECK(SameBits(subject.Run(binding, {}), reference));
    }
  });
}

TEST_CASE("every kind: repeated calls give the same bits (det-repeat)") {
  ForEveryKind([](const Subject& subject, const Binding& binding, const std::vector<float>& reference) {
    for (int i = 0; i < 20; ++i) REQUIRE(SameBits(subject.Run(binding, {}), reference));
  });
}

TEST_CASE("lora: identical rows and identical tokens give one distinct value (det-homogeneous)") {
  std::mt19937 rng(59);
  const std::uint64_t out = 131, in = 75, r = 6;
  const Stored a = Random(rng, VNR_F16, {r, in});
  const std::vector<double> row = Random(rng, VNR_F16, {r}).values;
  std::vector<double> rows;
  for (std::uint64_t o = 0; o < out; ++o) rows.insert(rows.end(), row.begin(), row.end());
  TestHost host;
  Binding binding(host, StaticKind("lora"), {VNR_SITE_LINEAR, out, in}, {{"A", a}, {"B", Store(VNR_F16, {out, r}, rows)}}, {});
  REQUIRE(binding.Ready());
  const std::vector<float> one = RandomFloats(rng, in);
  for (const std::uint32_t tokens : {1U, 5U, 33U}) {
    std::vector<float> x;
    for (std::uint32_t t = 0; t < tokens; ++t) x.insert(x.end(), one.begin(), one.end());
    const std::vector<float> y = Apply(binding, x, std::vector<float>(tokens * out, 0.25F), tokens);
    for (const float value : y) REQUIRE(value == y[0]);
  }
}

TEST_CASE("every kind: a NaN in one token's x stays in that token (num-finite)") {
  for (Example& example : Examples(kOut, kIn, kRank)) {
    if (example.site.shape_class == VNR_SITE_EMBEDDING) continue;
    INFO(example.name);
    TestHost host;
    Binding binding(host, *example.kind, example.site, example.tensors, example.params);
    REQUIRE(binding.Ready(&example.base));
    Subject subject(example);
    const std::vector<float> clean = subject.Run(binding, {});
    subject.x[5 * kIn + 40] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> tainted = subject.Run(binding, {});
    const std::uint64_t transformed = kTokens * kIn;
    for (std::uint64_t i = 0; i < clean.size(); ++i) {
      const std::uint64_t token = i < transformed ? i / kIn : (i - transformed) / kOut;
      if (token != 5) REQUIRE(clean[i] == tainted[i]);
      if (token != 5) REQUIRE(std::isfinite(clean[i]));
    }
  }
}
