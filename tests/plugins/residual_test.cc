// residual: the arithmetic against an f64 dense oracle built from the definition in DESIGN 5, and what the kind refuses.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/file.h"
#include "core/format/safetensors.h"
#include "tests/plugins/harness.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"

using namespace plugin_test;

namespace {

constexpr std::uint32_t kTypes[] = {VNR_F32, VNR_F16, VNR_BF16};
constexpr std::uint32_t kForms = 4;  // the three types of weight, and q8 with scale

// R with the values it stands for, row-major.
struct Matrix {
  Tensors tensors;
  std::vector<double> values;
};

Matrix Weight(Stored stored) {
  Matrix made;
  made.values = stored.values;
  made.tensors["weight"] = std::move(stored);
  return made;
}

// Every byte occurs, -128 too.
Matrix Q8(std::mt19937& rng, std::uint64_t out, std::uint64_t in) {
  Stored q{VNR_I8, {out, in}, {}, {}}, scale = Random(rng, VNR_F16, {out, in / 32}, 0.01);
  std::uniform_int_distribution<int> byte(-128, 127);
  Matrix made;
  for (std::uint64_t i = 0; i < out * in; ++i) {
    const int value = byte(rng);
    q.values.push_back(value);
    q.bytes.push_back(static_cast<unsigned char>(value));
    made.values.push_back(scale.values[i / 32] * value);
  }
  made.tensors = {{"q8", std::move(q)}, {"scale", std::move(scale)}};
  return made;
}

// Form 3 is q8, whose `in` is a multiple of 32.
Matrix Make(std::mt19937& rng, std::uint32_t form, std::uint64_t out, std::uint64_t in) {
  return form == 3 ? Q8(rng, out, in) : Weight(Random(rng, kTypes[form], {out, in}, 0.3));
}
std::uint64_t ColumnsFor(std::uint32_t form, std::uint64_t in) { return form == 3 ? (in + 31) / 32 * 32 : in; }

// W + w R in f64.
std::vector<double> Edited(const std::vector<float>& w, const std::vector<double>& r, double strength) {
  std::vector<double> edited(w.begin(), w.end());
  for (std::size_t i = 0; i < edited.size(); ++i) edited[i] += static_cast<double>(static_cast<float>(strength)) * r[i];
  return edited;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

const vnr_kind& Residual() { return StaticKind("residual"); }

}  // namespace

TEST_CASE("residual: y is within 16 units of the f64 oracle for every shape, token count, type and form (num-oracle)") {
  std::mt19937 rng(20261130);
  for (const auto& [out, columns] : {std::pair<std::uint64_t, std::uint64_t>{1, 1},
                                     {2, 3},
                                     {7, 8},
                                     {8, 7},
                                     {31, 33},
                                     {33, 31},
                                     {64, 100},
                                     {127, 64},
                                     {104, 257},
                                     {129, 96},
                                     {300, 40},
                                     {50, 1000}})
    for (std::uint32_t form = 0; form < kForms; ++form)
      for (const std::uint32_t tokens : {1U, 2U, 3U, 8U, 9U, 64U}) {
        const std::uint64_t in = ColumnsFor(form, columns);
        const Matrix r = Make(rng, form, out, in);
        const std::vector<float> w = RandomFloats(rng, out * in), x = RandomFloats(rng, tokens * in);
        TestHost host;
        Binding binding(host, Residual(), {VNR_SITE_LINEAR, out, in}, r.tensors, {{"/strength", 0.7}});
        REQUIRE(binding.Ready());
        CHECK(binding.program.flags == VNR_ADDS_Y);
        CHECK(binding.program.det_level == 2);
        const std::vector<float> y =
            Apply(binding, x, BaseProduct(w, x, out, in, tokens), tokens, {.tile = tokens % 2 == 0 ? 104U : 1000U});
        INFO("out " << out << " in " << in << " form " << form << " tokens " << tokens);
        REQUIRE(OracleUnits(y, w, Edited(w, r.values, 0.7), x, out, in, tokens, binding.program.amplification) <= 16);
      }
}

TEST_CASE("residual: the error of w R x alone keeps the bound that the header states") {
  std::mt19937 rng(3);
  const std::uint64_t out = 130, in = 992;
  const std::uint32_t tokens = 5;
  for (std::uint32_t form = 0; form < kForms; ++form) {
    const Matrix r = Make(rng, form, out, in);
    const std::vector<float> x = RandomFloats(rng, tokens * in), y0 = RandomFloats(rng, tokens * out);
    TestHost host;
    Binding binding(host, Residual(), {VNR_SITE_LINEAR, out, in}, r.tensors, {{"/strength", -2.3}});
    REQUIRE(binding.Ready());
    const std::vector<float> y = Apply(binding, x, y0, tokens);
    const double n = 992.0 / 32 + 7, gamma = n * 0x1p-24 / (1 - n * 0x1p-24);
    for (std::uint32_t t = 0; t < tokens; ++t)
      for (std::uint64_t o = 0; o < out; ++o) {
        double exact = static_cast<double>(y0[t * out + o]), magnitude = 0;
        for (std::uint64_t i = 0; i < in; ++i) {
          const double term = -2.3 * r.values[o * in + i] * static_cast<double>(x[t * in + i]);
          exact += term;
          magnitude += std::abs(term);
        }
        REQUIRE(std::abs(static_cast<double>(y[t * out + o]) - exact) <= gamma * magnitude + 0x1p-24 * std::abs(exact));
      }
  }
}

TEST_CASE("residual: one-hot x gives the columns of weight_rows, and those are W + w R (num-onehot)") {
  std::mt19937 rng(7);
  const std::uint64_t out = 37;
  for (std::uint32_t form = 0; form < kForms; ++form) {
    const std::uint64_t in = ColumnsFor(form, 19);
    const Matrix r = Make(rng, form, out, in);
    const std::vector<float> w = RandomFloats(rng, out * in);
    TestHost host;
    Binding binding(host, Residual(), {VNR_SITE_LINEAR, out, in}, r.tensors, {{"/strength", -1.5}});
    REQUIRE(binding.Ready());
    const std::vector<float> rows = binding.Weights(w);
    const std::vector<double> edited = Edited(w, r.values, -1.5);
    for (std::uint64_t i = 0; i < out * in; ++i) REQUIRE(rows[i] == static_cast<float>(edited[i]));  // every product is exact in f64
    std::vector<float> x(in * in, 0.0F);
    for (std::uint64_t i = 0; i < in; ++i) x[i * in + i] = 1.0F;
    const std::vector<float> y =
        Apply(binding, x, BaseProduct(w, x, out, in, static_cast<std::uint32_t>(in)), static_cast<std::uint32_t>(in));
    // The sum has one term that is not zero, and the fused multiply-add rounds once: the bits of weight_rows.
    for (std::uint64_t i = 0; i < in; ++i)
      for (std::uint64_t o = 0; o < out; ++o) REQUIRE(y[i * out + o] == rows[o * in + i]);
  }
}

TEST_CASE("residual: strength 0 and a zero R leave every bit of y, -0 included, and keep no memory (num-zero)") {
  std::mt19937 rng(11);
  const std::uint64_t out = 70, in = 64;
  const std::vector<float> x = RandomFloats(rng, in), w = RandomFloats(rng, out * in);
  std::vector<float> y0 = RandomFloats(rng, out);
  y0[3] = -0.0F;
  y0[69] = -0.0F;
  const auto check = [&](const Tensors& tensors, double strength) {
    TestHost host;
    Binding binding(host, Residual(), {VNR_SITE_LINEAR, out, in}, tensors, {{"/strength", strength}});
    const std::uint64_t bound = host.live_bytes();
    REQUIRE(binding.Ready());
    CHECK(host.live_bytes() == bound);
    CHECK(binding.program.flags == 0);
    CHECK(SameBits(Apply(binding, x, y0, 1), y0));
    CHECK(binding.Weights(w) == w);
  };
  for (std::uint32_t form = 0; form < kForms; ++form) check(Make(rng, form, out, in).tensors, 0.0);
  for (const std::uint32_t type : kTypes)
    for (const double zero : {0.0, -0.0}) check({{"weight", Store(type, {out, in}, std::vector<double>(out * in, zero))}}, 1.0);
  // Zero by its scales, by its bytes, or here by one and there by the other.
  Matrix q8 = Q8(rng, out, in);
  Tensors by_scale = q8.tensors;
  by_scale["scale"] = Store(VNR_F16, {out, in / 32}, std::vector<double>(out * in / 32, -0.0));
  check(by_scale, 1.0);
  Tensors by_bytes = q8.tensors;
  std::ranges::fill(by_bytes["q8"].bytes, static_cast<unsigned char>(0));
  check(by_bytes, 1.0);
  Tensors mixed = by_bytes;
  mixed["q8"].bytes[5] = 1;
  std::memset(mixed["scale"].bytes.data(), 0, 2);
  check(mixed, 1.0);
  // One element is enough to count, wherever it is.
  mixed["q8"].bytes[out * in - 1] = 1;
  TestHost host;
  Binding last(host, Residual(), {VNR_SITE_LINEAR, out, in}, mixed, {});
  REQUIRE(last.Ready());
  CHECK(last.program.flags == VNR_ADDS_Y);
}

TEST_CASE("residual: in exact mode no cut into tiles, tokens, threads or alignments changes a bit, nor does the instruction set (det-*)") {
  std::mt19937 rng(13);
  const std::uint64_t out = 331;
  const std::uint32_t tokens = 37;
  for (std::uint32_t form = 0; form < kForms; ++form) {
    INFO("form " << form);
    const std::uint64_t in = ColumnsFor(form, 93);
    const Matrix r = Make(rng, form, out, in);
    const std::vector<float> x = RandomFloats(rng, tokens * in), y0 = RandomFloats(rng, tokens * out);
    TestHost host;
    Binding binding(host, Residual(), {VNR_SITE_LINEAR, out, in}, r.tensors, {{"/strength", 0.8}});
    REQUIRE(binding.Ready());
    const std::vector<float> reference = Apply(binding, x, y0, tokens);
    CHECK(reference != y0);
    for (const std::uint64_t tile : {1U, 7U, 8U, 104U, 127U, 129U, 1000U})
      CHECK(SameBits(Apply(binding, x, y0, tokens, {.tile = tile}), reference));
    for (const std::uint32_t n : {1U, 2U, 3U, 8U, 31U}) CHECK(SameBits(Apply(binding, x, y0, tokens, {.tokens_at_once = n}), reference));
    for (const std::uint32_t threads : {2U, 3U, 8U})
      CHECK(SameBits(Apply(binding, x, y0, tokens, {.tile = 40, .tokens_at_once = 5, .units_backwards = true, .threads = threads}),
                     reference));
    for (const std::uint64_t offset : {1U, 3U, 15U})
      CHECK(SameBits(Apply(binding, x, y0, tokens, {.x_offset = offset, .y_offset = 15 - offset, .padding = offset}), reference));
    TestHost plain;
    plain.set_cpu_features(0);
    Binding scalar(plain, Residual(), {VNR_SITE_LINEAR, out, in}, r.tensors, {{"/strength", 0.8}});
    REQUIRE(scalar.Ready());
    CHECK(SameBits(Apply(scalar, x, y0, tokens), reference));
    CHECK(SameBits(Apply(scalar, x, y0, tokens, {.tokens_at_once = 1}), reference));
  }
}

TEST_CASE("residual: an embedding row gains w R[id], for the first, last and repeated ids, any cut of its lanes (num-embed)") {
  std::mt19937 rng(19);
  const std::uint64_t vocab = 50;
  for (std::uint32_t form = 0; form < kForms; ++form) {
    const std::uint64_t width = form == 3 ? 320 : 293;  // beyond one chunk of 256
    const Matrix r = Make(rng, form, vocab, width);
    TestHost host;
    Binding binding(host, Residual(), {VNR_SITE_EMBEDDING, vocab, width}, r.tensors, {{"/strength", 1.75}});
    REQUIRE(binding.Ready());
    const std::vector<std::int32_t> ids = {0, 49, 7, 7, 0, 13};
    const std::vector<float> table = RandomFloats(rng, vocab * width);
    std::vector<float> rows;
    for (const std::int32_t id : ids)
      rows.insert(rows.end(), table.begin() + id * static_cast<std::int64_t>(width),
                  table.begin() + (id + 1) * static_cast<std::int64_t>(width));
    const std::vector<float> y = ApplyEmbedding(binding, ids, rows), edited = binding.Weights(table);
    for (std::size_t t = 0; t < ids.size(); ++t)
      for (std::uint64_t k = 0; k < width; ++k) {
        const std::uint64_t at = static_cast<std::uint64_t>(ids[t]) * width + k;
        // 1.75 R is exact in f64 and the fused multiply-add rounds the sum once: both ways give the nearest f32.
        const double exact = static_cast<double>(table[at]) + 1.75 * r.values[at];
        REQUIRE(y[t * width + k] == static_cast<float>(exact));
        REQUIRE(edited[at] == static_cast<float>(exact));
      }
    for (const std::uint64_t tile : {32U, 40U, 96U, 1000U})
      for (const std::uint32_t n : {1U, 4U})
        CHECK(SameBits(ApplyEmbedding(binding, ids, rows, {.tile = tile, .tokens_at_once = n, .threads = 2}), y));
    TestHost plain;
    plain.set_cpu_features(0);
    Binding scalar(plain, Residual(), {VNR_SITE_EMBEDDING, vocab, width}, r.tensors, {{"/strength", 1.75}});
    REQUIRE(scalar.Ready());
    CHECK(SameBits(ApplyEmbedding(scalar, ids, rows), y));
  }
}

TEST_CASE("residual: the estimate is the live bytes after stage, in the stored type, and a failed allocation or a cancel leaks nothing") {
  std::mt19937 rng(23);
  const std::uint64_t out = 600, in = 64;
  const std::uint64_t expected[kForms] = {out * in * 4, out * in * 2, out * in * 2, out * in + out * (in / 32) * 2};
  for (std::uint32_t form = 0; form < kForms; ++form) {
    const Matrix r = Make(rng, form, out, in);
    std::uint64_t bound = 0;
    {
      TestHost host;
      Binding binding(host, Residual(), {VNR_SITE_LINEAR, out, in}, r.tensors, {});
      bound = host.live_bytes();
      REQUIRE(binding.Ready());
      CHECK(host.live_bytes() == binding.cost.shared_bytes + binding.cost.resident_bytes);
      CHECK(host.peak_bytes() == binding.cost.shared_bytes + binding.cost.stage_peak_bytes);
      CHECK(host.live_bytes() - bound == expected[form]);
      CHECK(host.polls >= (form == 3 ? 3 : 1));
    }
    for (std::uint64_t n = 0; n < 3; ++n) {
      TestHost host;
      host.fail_at = n;
      {
        Binding binding(host, Residual(), {VNR_SITE_LINEAR, out, in}, r.tensors, {});
        CHECK_FALSE(binding.Ready());
        CHECK(binding.failure.code == VNR_E_NOMEM);
      }
      CHECK(host.live_bytes() == 0);
    }
    TestHost host;
    host.cancel_at = form == 3 ? 2 : 1;
    {
      Binding binding(host, Residual(), {VNR_SITE_LINEAR, out, in}, r.tensors, {});
      CHECK_FALSE(binding.Ready());
      CHECK(binding.failure.code == VNR_E_CANCELLED);
    }
    CHECK(host.live_bytes() == 0);
  }
}

TEST_CASE("residual: neither form, both, half of one, columns that no scale covers, and an infinite strength are refused with the reason") {
  std::mt19937 rng(29);
  const auto refused = [](const Tensors& tensors, std::uint64_t in, const Params& params = {}) {
    TestHost host;
    const Binding binding(host, Residual(), {VNR_SITE_LINEAR, 8, in}, tensors, params);
    return binding.failure;
  };
  const std::string remedy = "; give either weight [out, in], or q8 [out, in] with scale [out, in / 32]";
  const Tensors weight = Make(rng, 2, 8, 64).tensors, q8 = Q8(rng, 8, 64).tensors;
  const auto check = [](const Failure& failure, std::int32_t code, const std::string& text) {
    CHECK(failure.code == code);
    CHECK(failure.text == text);
  };
  check(refused({}, 64), VNR_E_INVALID, "has neither weight nor q8" + remedy);
  Tensors tensors = q8;
  tensors["weight"] = weight.at("weight");
  check(refused(tensors, 64), VNR_E_INVALID, "has weight and q8" + remedy);
  tensors.erase("q8");
  check(refused(tensors, 64), VNR_E_INVALID, "has weight and scale" + remedy);
  check(refused({{"scale", q8.at("scale")}}, 64), VNR_E_INVALID, "has scale without q8" + remedy);
  check(refused({{"q8", q8.at("q8")}}, 64), VNR_E_INVALID, "has q8 without scale" + remedy);
  tensors = {{"q8", Stored{VNR_I8, {8, 40}, {}, std::vector<unsigned char>(320, 1)}}, {"scale", Random(rng, VNR_F16, {8, 1})}};
  check(refused(tensors, 40), VNR_E_INVALID,
        "q8 has 40 columns, no multiple of the 32 that share a scale; store this site as weight in bf16");
  for (const std::uint64_t columns : {1U, 3U}) {
    tensors = q8;
    tensors["scale"] = Random(rng, VNR_F16, {8, columns});
    check(refused(tensors, 64), VNR_E_INVALID, "scale has " + std::to_string(columns) + " columns, q8 with 64 needs 2, one for 32");
  }
  check(refused(weight, 64, {{"/strength", 1e39}}), VNR_E_NUMERIC, "the strength is not finite in f32");
  CHECK(refused(weight, 64).code == VNR_OK);
  CHECK(refused(q8, 64).code == VNR_OK);
}

#if defined(VENEER_ONEDNN)
TEST_CASE(
    "residual: in fast mode oneDNN takes part in blocks of 24 tokens and more, within 16 units, for any number of threads (det-threads)") {
  std::mt19937 rng(67);
  const std::uint64_t out = 250;    // two tiles of 104 rows by oneDNN, 42 rows by the kernels
  const std::uint32_t tokens = 66;  // blocks of 32, the last 2 by the kernels
  for (std::uint32_t form = 0; form < kForms; ++form)
    for (const std::uint64_t columns : {256U, 300U, 800U, 1536U, 2112U}) {  // one chunk, one uneven, two, two that collide, three even
      const std::uint64_t in = ColumnsFor(form, columns);
      INFO("form " << form << " in " << in);
      const Matrix r = Make(rng, form, out, in);
      const std::vector<float> w = RandomFloats(rng, out * in), x = RandomFloats(rng, tokens * in), y0 = BaseProduct(w, x, out, in, tokens);
      TestHost host;
      Binding binding(host, Residual(), {VNR_SITE_LINEAR, out, in}, r.tensors, {{"/strength", 1.25}});
      binding.limits.min_det = 1;
      REQUIRE(binding.Ready());
      CHECK(binding.program.flags == (VNR_ADDS_Y | VNR_ALLOCATES_FOR_TOKENS));
      CHECK(binding.program.det_level == 1);
      CHECK(binding.cost.opaque_bytes > 0);
      CHECK(binding.program.thread_scratch_bytes <= 1 << 19);
      CHECK(host.live_bytes() == binding.cost.shared_bytes + binding.cost.resident_bytes);
      const std::vector<float> y = Apply(binding, x, y0, tokens, {.tile = 104});
      CHECK(OracleUnits(y, w, Edited(w, r.values, 1.25), x, out, in, tokens, binding.program.amplification) <= 16);
      for (const std::uint32_t threads : {2U, 5U})
        CHECK(SameBits(Apply(binding, x, y0, tokens, {.tile = 104, .x_offset = 3, .padding = 5, .threads = threads}), y));
      // Fewer tokens never go there: the bits of exact mode.
      TestHost exact_host;
      Binding exact(exact_host, Residual(), {VNR_SITE_LINEAR, out, in}, r.tensors, {{"/strength", 1.25}});
      REQUIRE(exact.Ready());
      CHECK(exact.program.flags == VNR_ADDS_Y);
      CHECK(exact.program.det_level == 2);
      CHECK(exact.cost.opaque_bytes == 0);
      const std::vector<float> alone = Apply(exact, x, y0, tokens, {.tile = 104, .tokens_at_once = 1});
      for (const std::uint32_t n : {1U, 23U}) CHECK(SameBits(Apply(binding, x, y0, tokens, {.tile = 104, .tokens_at_once = n}), alone));
      CHECK(y != alone);  // so oneDNN did take part, in the first 64 tokens and 208 rows and nowhere else
      for (std::uint32_t t = 0; t < tokens; ++t) {
        const std::uint64_t first = t < 64 ? 208 : 0;
        REQUIRE(std::equal(y.begin() + t * 250 + static_cast<std::int64_t>(first), y.begin() + (t + 1) * 250,
                           alone.begin() + t * 250 + static_cast<std::int64_t>(first)));
      }
    }
}
#endif

TEST_CASE("residual: fast mode stays with the kernels, at D2, for few columns, few rows, short blocks of tokens and embeddings") {
  std::mt19937 rng(71);
  const auto stays = [&](const Site& site, std::uint32_t max_token_block) {
    TestHost host;
    Binding binding(host, Residual(), site, Make(rng, 2, site.out, site.in).tensors, {});
    binding.limits.min_det = 1;
    binding.limits.max_token_block = max_token_block;
    REQUIRE(binding.Ready());
    CHECK(binding.program.det_level == 2);
    CHECK(binding.program.flags == VNR_ADDS_Y);
    CHECK(binding.cost.opaque_bytes == 0);
  };
  stays({VNR_SITE_LINEAR, 104, 255}, 32);
  stays({VNR_SITE_LINEAR, 103, 256}, 32);
  stays({VNR_SITE_LINEAR, 104, 256}, 23);
  stays({VNR_SITE_EMBEDDING, 104, 256}, 32);
}

TEST_CASE("residual: the declaration: additive, linear and embedding sites, the roles that adapters are written with, no import") {
  const vnr_kind& kind = Residual();
  CHECK(kind.flags == VNR_KIND_ADDITIVE);
  CHECK(kind.site_mask == (VNR_BIT(VNR_SITE_LINEAR) | VNR_BIT(VNR_SITE_EMBEDDING)));
  CHECK(kind.get_extension(&kind, "veneer.import/1") == nullptr);
  REQUIRE(kind.n_roles == 3);
  const std::uint32_t types[] = {VNR_BIT(VNR_F32) | VNR_BIT(VNR_F16) | VNR_BIT(VNR_BF16), VNR_BIT(VNR_I8), VNR_BIT(VNR_F16)};
  const char* const names[] = {"weight", "q8", "scale"};
  for (std::uint32_t i = 0; i < 3; ++i) {
    CHECK(std::string(kind.roles[i]->name) == names[i]);
    CHECK(kind.roles[i]->dtype_mask == types[i]);
    CHECK(kind.roles[i]->flags == VNR_ROLE_OPTIONAL);
    CHECK(kind.roles[i]->rank == 2);
    CHECK(kind.roles[i]->dims[0] == VNR_DIM_OUT);
    CHECK(kind.roles[i]->dims[1] == (i == 2 ? VNR_DIM('g') : VNR_DIM_IN));
  }
}

TEST_CASE("residual: describe tells the form and the type (describe-json)") {
  std::mt19937 rng(31);
  const char* const forms[kForms] = {R"("form":"weight","dtype":"f32")", R"("form":"weight","dtype":"f16")",
                                     R"("form":"weight","dtype":"bf16")", R"("form":"q8","dtype":"i8")"};
  for (std::uint32_t form = 0; form < kForms; ++form) {
    TestHost host;
    Binding binding(host, Residual(), {VNR_SITE_LINEAR, 4, 32}, Make(rng, form, 4, 32).tensors, {});
    REQUIRE(binding.failure.code == VNR_OK);
    std::string text;
    const vnr_sink sink{&text, [](void* to, const char* data, std::uint64_t n) { static_cast<std::string*>(to)->append(data, n); }};
    REQUIRE(Residual().describe(nullptr, binding.raw(), &sink, nullptr) == VNR_OK);
    CHECK(text == std::string(R"({"kind":"residual","site":"model.layers.3.self_attn.q_proj",)") + forms[form] + "}");
  }
}

TEST_CASE("residual: every site of a real snapshot of merged deltas is within 16 units of W + w R") {
  const auto data = ExternalData();
  if (!data) return;
  auto bytes = veneer::FileBytes::Map(*data / "stories260k/residual-sparse/snapshot/merged_deltas.safetensors");
  REQUIRE(bytes);
  const auto file = veneer::SafetensorsFile::Parse(bytes->bytes());
  REQUIRE(file);
  REQUIRE(file->tensors.size() == 35);
  std::mt19937 rng(37);
  for (const veneer::TensorView& view : file->tensors) {
    INFO(view.name);
    REQUIRE(view.dtype == VNR_BF16);
    const std::uint64_t out = view.shape[0], in = view.shape[1];
    Stored stored{VNR_BF16, view.shape, {}, {}};
    for (std::uint64_t i = 0; i < out * in; ++i) {
      const auto low = std::to_integer<std::uint32_t>(view.bytes[2 * i]), high = std::to_integer<std::uint32_t>(view.bytes[2 * i + 1]);
      const std::uint32_t bits = (high << 8 | low) << 16;
      float value;
      std::memcpy(&value, &bits, sizeof value);
      stored.values.push_back(static_cast<double>(value));
    }
    stored.bytes.resize(view.bytes.size());
    std::memcpy(stored.bytes.data(), view.bytes.data(), view.bytes.size());
    const Matrix r = Weight(std::move(stored));
    CHECK(std::ranges::any_of(r.values, [](double value) { return value != 0; }));
    for (const std::uint32_t tokens : {1U, 9U}) {
      const std::vector<float> w = RandomFloats(rng, out * in, 0.1), x = RandomFloats(rng, tokens * in);
      TestHost host;
      Binding binding(host, Residual(), {VNR_SITE_LINEAR, out, in}, r.tensors, {{"/strength", 0.5}});
      REQUIRE(binding.Ready());
      const std::vector<float> y = Apply(binding, x, BaseProduct(w, x, out, in, tokens), tokens);
      CHECK(OracleUnits(y, w, Edited(w, r.values, 0.5), x, out, in, tokens, binding.program.amplification) <= 16);
    }
  }
}
