// Failures that users of other engines met when adapters were scaled, stacked, switched or merged: each is a rule here, checked from the
// adapter's files to the numbers that a decode sees.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/compose/replace_conflicts.h"
#include "core/compose/stage.h"
#include "core/decode/active_composition.h"
#include "tests/core/decode/group_run.h"
#include "tests/core/decode/stack.h"
#include "tests/support/catch.h"
#include "tests/support/peft_adapter.h"
#include "tests/support/reference.h"

extern "C" {
extern const vnr_entry veneer_overlay_entry_v1_example_dora;
}

namespace veneer {
namespace {

const std::string kQ = "model.layers.0.self_attn.q_proj", kK = "model.layers.0.self_attn.k_proj";
const std::string kGate = "model.layers.0.mlp.gate_proj", kUp = "model.layers.0.mlp.up_proj";

// Those of the project, and one whose edit depends on what the earlier ones made.
const Catalog& Kinds() {
  static const Catalog catalog = [] {
    std::vector<const vnr_entry*> entries(vnr_static_entries, vnr_static_entries + vnr_static_entry_count);
    entries.push_back(&veneer_overlay_entry_v1_example_dora);
    auto scanned = Catalog::Scan({.directories = {}, .overrides = {}, .static_entries = entries});
    if (!scanned) throw std::runtime_error(scanned.error().Text());
    return *std::move(scanned);
  }();
  return catalog;
}

using BasePtr = std::shared_ptr<const Base>;
using StagedPtr = std::shared_ptr<const StagedComposition>;

Result<Adapter> ReadFiles(const BasePtr& base, const PeftAdapter& files) {
  AdapterFiles bytes{InMemory(files.file.Bytes(), "adapter_model.safetensors"), InMemory(files.ConfigText(), "adapter_config.json")};
  return ReadAdapter(std::move(bytes), *base, Kinds());
}
StageAdapter Read(const BasePtr& base, const PeftAdapter& files, double strength = 1) {
  auto adapter = ReadFiles(base, files);
  if (!adapter) throw std::runtime_error(adapter.error().Text());
  return {"some", std::make_shared<const Adapter>(*std::move(adapter)), strength, {}};
}

StagedPtr Stage(const BasePtr& base, std::vector<StageAdapter> stack, ComputeMode mode = ComputeMode::kExact) {
  Composition composition;
  composition.base_model_hash = Sha256::Of(base->bytes());
  for (StageAdapter& entry : stack) {
    entry.name = "a" + std::to_string(composition.adapters.size());
    AdapterEntry& sealed = composition.adapters.emplace_back();
    sealed.name = entry.name;
    sealed.kind = entry.adapter->kind;
    sealed.file_hash = Sha256::Of(entry.adapter->weights.bytes());
  }
  auto staged = StageComposition(base, std::move(stack), composition, Kinds(), {.mode = mode});
  if (!staged) throw std::runtime_error(staged.error().Text());
  return *std::move(staged);
}

std::vector<float> Decode(const StagedPtr& staged) {
  return LogitsOf(*MakeDecoder(staged, {.context = 32}), SomeTokens(6, staged->base().config().vocab));
}

// Factors that move input `from` to lane `to` of one module, times the adapter's scale, and do nothing else.
PeftAdapter Mover(const std::string& module, std::uint64_t from, std::uint64_t to, std::uint64_t rank, const std::string& alpha) {
  const Site& site = *TinyBase()->sites().Find(module);
  PeftAdapter adapter;
  adapter.config = {
      {"peft_type", "\"LORA\""}, {"r", std::to_string(rank)}, {"lora_alpha", alpha}, {"target_modules", "[\"" + module + "\"]"}};
  std::vector<float> a(rank * site.in), b(site.out * rank);
  a[from] = 1;
  b[to * rank] = 1;
  adapter.file.SetF32(adapter.prefix + module + ".lora_A.weight", {rank, site.in}, a);
  adapter.file.SetF32(adapter.prefix + module + ".lora_B.weight", {site.out, rank}, b);
  return adapter;
}

// What a module gives for the same three tokens with and without a stack: y(token, lane) and x(token, i).
struct Compared {
  Compared(const BasePtr& base, const std::string& module, const StagedPtr& staged)
      : with(RunGroup(*staged, {module}, 3, 2)),
        plain(RunGroup(*Stage(base, {}, staged->mode()), {module}, 3, 2)),
        out(base->sites().Find(module)->out),
        in(base->sites().Find(module)->in) {}
  GroupRun with, plain;
  std::uint64_t out, in;
};

TEST_CASE("stacking: what is added is alpha over the rank, or over its root, times the strength, to the bit and in the right lane") {
  struct Case {
    std::uint64_t rank;
    bool takes_root;
    double strength;
    float factor;
  };
  for (const std::string& module : {kQ, kK})  // four heads, and two of keys: their rows are stored in different orders
    for (const ComputeMode mode : {ComputeMode::kExact, ComputeMode::kFast})
      for (const Case& one :
           {Case{8, false, 1, 2}, Case{16, true, 1, 4}, Case{16, true, 0.5, 2}, Case{8, false, -0.5, -1}, Case{1, false, 1, 16}}) {
        CAPTURE(module, one.rank, one.takes_root, one.strength);
        PeftAdapter files = Mover(module, 3, 5, one.rank, "16");
        if (one.takes_root) files.Key("use_rslora", "true");
        const Compared y(TinyBase(), module, Stage(TinyBase(), {Read(TinyBase(), files, one.strength)}, mode));
        std::vector<float> expected = y.plain.y[0];
        for (std::uint64_t t = 0; t < 3; ++t) expected[t * y.out + 5] += one.factor * y.plain.x[t * y.in + 3];
        CHECK(y.with.y[0] == expected);
      }
}

TEST_CASE("stacking: two adapters add their own deltas; there are no cross terms, and a negative strength takes away") {
  const auto run = [](std::uint64_t second_lane) {
    return Compared(
        TinyBase(), kQ,
        Stage(TinyBase(), {Read(TinyBase(), Mover(kQ, 3, 5, 8, "16")), Read(TinyBase(), Mover(kQ, 4, second_lane, 8, "8"), -1)}));
  };
  for (const std::uint64_t lane : {std::uint64_t{9}, std::uint64_t{5}}) {
    const Compared y = run(lane);
    std::vector<float> expected = y.plain.y[0];
    for (std::uint64_t t = 0; t < 3; ++t) {
      expected[t * y.out + 5] += 2 * y.plain.x[t * y.in + 3];
      expected[t * y.out + lane] -= y.plain.x[t * y.in + 4];
    }
    CHECK(y.with.y[0] == expected);
  }
}

TEST_CASE("stacking: adapters of different rules for the scale, at 0.3 and 0.7, give the weighted sum of their deltas") {
  // Every factor is constant: A 0.5, B 0.25, so that each lane gains strength * scale * rank / 8 * (sum of x).
  const std::vector<StageAdapter> stack = {Read(TinyBase(), LowRank(16).Key("use_rslora", "true"), 0.3), Read(TinyBase(), LowRank(4), 0.7)};
  const double gain = 0.3 * (8 / 4.0) * 16 / 8 + 0.7 * (8 / 4.0) * 4 / 8;
  const Compared y(TinyBase(), kQ, Stage(TinyBase(), stack));
  for (std::uint64_t t = 0; t < 3; ++t) {
    double sum = 0, size = 0;
    for (std::uint64_t i = 0; i < y.in; ++i) {
      sum += static_cast<double>(y.plain.x[t * y.in + i]);
      size += std::abs(static_cast<double>(y.plain.x[t * y.in + i]));
    }
    for (std::uint64_t lane = 0; lane < y.out; ++lane) {
      const double base = static_cast<double>(y.plain.y[0][t * y.out + lane]);
      CHECK(std::abs(static_cast<double>(y.with.y[0][t * y.out + lane]) - base - gain * sum) <= 1e-5 * (gain * size + std::abs(base)));
    }
  }
}

TEST_CASE("stacking: gate and up have each their own delta, and running leaves an adapter's bytes as they were read") {
  const StageAdapter gate = Read(TinyBase(), Mover(kGate, 3, 5, 8, "16")), up = Read(TinyBase(), Mover(kUp, 4, 9, 8, "8"));
  const Digest before = Sha256::Of(gate.adapter->weights.bytes());
  const StagedPtr staged = Stage(TinyBase(), {gate, up}), bare = Stage(TinyBase(), {});
  const GroupRun plain = RunGroup(*bare, {kGate, kUp}, 3, 2);
  std::vector<std::vector<float>> expected = plain.y;
  for (std::uint64_t t = 0; t < 3; ++t) {
    expected[0][t * 96 + 5] += 2 * plain.x[t * 64 + 3];
    expected[1][t * 96 + 9] += plain.x[t * 64 + 4];
  }
  for (int run = 0; run < 3; ++run) CHECK(RunGroup(*staged, {kGate, kUp}, 3, 2).y == expected);
  CHECK(Sha256::Of(gate.adapter->weights.bytes()) == before);
}

TEST_CASE("stacking: an edit of a tenth of the base's quantization step is not lost") {
  const BasePtr base = OpenTiny({.matrix_type = VNR_Q4_0});
  const Site& site = *base->sites().Find(kQ);
  std::vector<float> row(site.in);
  ReadRows(site, 5, 1, row.data(), row.size());
  // The step of the first block: its largest magnitude is -8 steps.
  const float step =
      std::abs(*std::ranges::max_element(row.begin(), row.begin() + 32, {}, [](float value) { return std::abs(value); })) / 8;
  REQUIRE(step > 0);
  PeftAdapter files = Mover(kQ, 3, 5, 1, "1");
  std::vector<float> b(site.out);
  b[5] = step / 10;
  files.file.SetF32(files.prefix + kQ + ".lora_B.weight", {site.out, 1}, b);
  const Digest before = Sha256::Of(base->bytes());
  const Compared y(base, kQ, Stage(base, {Read(base, files)}));
  for (std::uint64_t t = 0; t < 3; ++t) {
    const float added = b[5] * y.plain.x[t * y.in + 3];
    CHECK(y.with.y[0][t * y.out + 5] == y.plain.y[0][t * y.out + 5] + added);
    CHECK(y.with.y[0][t * y.out + 5] != y.plain.y[0][t * y.out + 5]);
  }
  CHECK(Sha256::Of(base->bytes()) == before);
}

TEST_CASE("switching: five hundred times on and off leave every bit of what the base alone gives, and its pages cannot be written") {
  const BasePtr base = OpenTiny();
  const StageAdapter low_rank = Read(base, LowRank()), scaling = Read(base, Scaling());
  const std::vector<float> alone = RunGroup(*Stage(base, {}), {kK}, 2, 1).y[0];
  for (int i = 0; i < 500; ++i) {
    const std::vector<float> edited = RunGroup(*Stage(base, {scaling, low_rank}), {kK}, 2, 1).y[0];
    if (edited == alone || RunGroup(*Stage(base, {}), {kK}, 2, 1).y[0] != alone) FAIL("round " << i);
  }
  const auto address = reinterpret_cast<std::uintptr_t>(base->bytes().data());
  std::ifstream maps("/proc/self/maps");
  int found = 0;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t low = 0, high = 0;
    char dash = 0;
    std::string rights;
    std::istringstream(line) >> std::hex >> low >> dash >> high >> rights;
    if (address < low || address >= high) continue;
    ++found;
    CHECK(rights.starts_with("r--"));
  }
  CHECK(found == 1);
}

TEST_CASE("switching: from one adapter over none to another of other rank and targets gives what the other gives alone, and no third") {
  const BasePtr base = TinyBase();
  PeftAdapter other;
  other.config = LowRank(32).config;
  other.Key("target_modules", R"(["k_proj","up_proj"])");
  for (const int layer : {0, 1}) {
    other.AddLowRank(Layer(layer, "self_attn.k_proj"), 32, 64, 32);
    other.AddLowRank(Layer(layer, "mlp.up_proj"), 96, 64, 32);
  }
  ActiveComposition active(Stage(base, {Read(base, LowRank(4))}));
  const std::vector<float> first = Decode(active.Current());
  REQUIRE(active.Switch(Stage(base, {}), SwitchPolicy::kAbort));
  const std::vector<float> none = Decode(active.Current());
  REQUIRE(active.Switch(Stage(base, {Read(base, other)}), SwitchPolicy::kAbort));
  CHECK(none == Decode(Stage(base, {})));
  CHECK(first != none);
  CHECK(Decode(active.Current()) == Decode(Stage(base, {Read(base, other)})));
  for (const Site& site : base->sites().sites()) {
    CAPTURE(site.id);
    const bool is_edited = site.id.ends_with("k_proj") || site.id.ends_with("up_proj");
    CHECK(active.Current()->at(site).overlays.size() == (is_edited ? 1 : 0));
  }
}

TEST_CASE("switching: two decodes at once at strengths 0 and 1 give each what it gives alone") {
  const StagedPtr on = Stage(TinyBase(), {Read(TinyBase(), LowRank())}), off = Stage(TinyBase(), {Read(TinyBase(), LowRank(), 0)});
  const std::vector<float> expected_on = Decode(on), expected_off = Decode(off);
  CHECK(expected_off == Decode(Stage(TinyBase(), {})));
  CHECK(expected_on != expected_off);
  bool same = true;
  std::thread second([&] {
    for (int i = 0; i < 30; ++i) same = same && Decode(off) == expected_off;
  });
  for (int i = 0; i < 30; ++i) CHECK(Decode(on) == expected_on);
  second.join();
  CHECK(same);
}

TEST_CASE("switching: saved modules and trained biases are out at strength 0, in full at any other, and freed with their composition") {
  const BasePtr base = OpenTiny({.biases = true});
  PeftAdapter files = LowRank().Key("modules_to_save", R"(["lm_head"])").Key("bias", "\"lora_only\"");
  files.file.SetF32(files.prefix + "lm_head.weight", {320, 64}, Uniform(std::uint64_t{320} * 64, 0.1F, 5));
  for (const int layer : {0, 1}) {
    files.file.Fill(files.prefix + Layer(layer, "self_attn.q_proj.bias"), {64}, 0.5F);
    files.file.Fill(files.prefix + Layer(layer, "self_attn.q_proj.lora_B.weight"), {64, 4}, 0);
    files.file.Fill(files.prefix + Layer(layer, "self_attn.v_proj.lora_B.weight"), {32, 4}, 0);
  }
  const std::vector<float> alone = Decode(Stage(base, {}));
  CHECK(Decode(Stage(base, {Read(base, files, 0)})) == alone);
  StageAdapter entry = Read(base, files, 0.25);
  const std::weak_ptr<const Adapter> life = entry.adapter;
  StagedPtr quarter = Stage(base, {std::move(entry)});
  CHECK(quarter->at(*base->sites().Find(kQ)).bias == std::vector<float>(64, 0.5F));
  const std::vector<float> full = Decode(quarter);
  CHECK(full != alone);
  CHECK(full == Decode(Stage(base, {Read(base, files, 1)})));
  CHECK_FALSE(life.expired());
  quarter.reset();
  CHECK(life.expired());
}

TEST_CASE("stacking: trained token rows over a tied base change the token's embedding and its logit, as in f64") {
  PeftAdapter files = LowRank().Key("trainable_token_indices", "[22, 7]");
  const std::vector<float> rows = Uniform(128, 0.5F, 3);
  files.file.SetF32(files.prefix + "model.embed_tokens.token_adapter.trainable_tokens_delta", {2, 64}, rows);
  for (const int layer : {0, 1}) {  // the rows alone
    files.file.Fill(files.prefix + Layer(layer, "self_attn.q_proj.lora_B.weight"), {64, 4}, 0);
    files.file.Fill(files.prefix + Layer(layer, "self_attn.v_proj.lora_B.weight"), {32, 4}, 0);
  }
  reference::Edit edit;
  edit.rows[22] = {rows.begin(), rows.begin() + 64};
  edit.rows[7] = {rows.begin() + 64, rows.end()};
  const reference::Edits edits = {{"model.embed_tokens", {edit}}, {"lm_head", {edit}}};
  const std::vector<TokenId> tokens = {5, 22, 9, 7};
  const std::vector<float> logits = LogitsOf(*MakeDecoder(Stage(TinyBase(), {Read(TinyBase(), files)}), {}), tokens);
  const std::vector<reference::Vector> expected = reference::Model(*TinyBase(), edits).Logits(tokens);
  double squares = 0, worst = 0;
  for (std::size_t t = 0; t < tokens.size(); ++t)
    for (std::size_t v = 0; v < 320; ++v) {
      squares += expected[t][v] * expected[t][v];
      worst = std::max(worst, std::abs(static_cast<double>(logits[t * 320 + v]) - expected[t][v]));
    }
  CHECK(worst <= 5e-4 * std::sqrt(squares / static_cast<double>(logits.size())) + 1e-4);  // as golden vectors
}

TEST_CASE("stacking: one, eight and sixty-four adapters on every linear layer add up to their sum") {
  PeftAdapter files;
  files.config = LowRank(2).config;
  files.Key("target_modules", "\"all-linear\"");
  std::uint64_t seed = 1;
  for (const Site& site : TinyBase()->sites().sites()) {
    if (site.shape_class != SiteClass::kLinear || site.id == "lm_head") continue;
    files.file.SetF32(files.prefix + site.id + ".lora_A.weight", {2, site.in}, Uniform(2 * site.in, 0.2F, seed++));
    files.file.SetF32(files.prefix + site.id + ".lora_B.weight", {site.out, 2}, Uniform(2 * site.out, 0.2F, seed++));
  }
  const std::vector<float> one = Decode(Stage(TinyBase(), {Read(TinyBase(), files)})), alone = Decode(Stage(TinyBase(), {}));
  const auto distance = [&one](const std::vector<float>& other) {
    float worst = 0;
    for (std::size_t i = 0; i < one.size(); ++i) worst = std::max(worst, std::abs(one[i] - other[i]));
    return worst;
  };
  CHECK(distance(alone) > 0.05F);
  for (const int n : {8, 64})
    CHECK(distance(Decode(Stage(TinyBase(), std::vector<StageAdapter>(static_cast<std::size_t>(n), Read(TinyBase(), files, 1.0 / n))))) <
          5e-4F);
}

TEST_CASE("stacking: an output scaling doubles the bias with the product, an input scaling leaves it") {
  const BasePtr base = OpenTiny({.biases = true});
  PeftAdapter files = Scaling();
  files.file.Fill(files.prefix + kK + ".ia3_l", {32, 1}, 2);
  const auto bias = [&base](const std::vector<StageAdapter>& stack) { return Stage(base, stack)->at(*base->sites().Find(kK)).bias; };
  std::vector<float> twice = bias({});
  REQUIRE(twice.size() == 32);
  for (float& value : twice) value *= 2;
  CHECK(bias({Read(base, files)}) == twice);
  files.Key("feedforward_modules", R"(["down_proj","k_proj"])");
  files.file.Fill(files.prefix + kK + ".ia3_l", {1, 64}, 2);
  files.file.Fill(files.prefix + Layer(1, "self_attn.k_proj.ia3_l"), {1, 64}, 2);
  CHECK(bias({Read(base, files)}) == bias({}));
}

// W_j = m_j (W_{j-1} + s B A) / |rows of that|: the norm is of what the earlier overlays made, not of the base.
TEST_CASE("stacking: two normalizing overlays on one layer follow the manifest's order, each over the weights the earlier one made") {
  const Site& site = *TinyBase()->sites().Find(kQ);
  std::vector<float> stored(site.out * site.in);
  ReadRows(site, 0, site.out, stored.data(), site.in);
  reference::Vector w(stored.begin(), stored.end());
  const auto add = [&](std::uint64_t seed) {
    PeftAdapter files = Mover(kQ, 0, 0, 2, "4").Key("use_dora", "true");
    const std::vector<float> a = Uniform(2 * site.in, 0.3F, seed), b = Uniform(2 * site.out, 0.3F, seed + 1);
    std::vector<float> m = Uniform(site.out, 0.5F, seed + 2);
    for (float& value : m) value += 1;
    files.file.SetF32(files.prefix + kQ + ".lora_A.weight", {2, site.in}, a);
    files.file.SetF32(files.prefix + kQ + ".lora_B.weight", {site.out, 2}, b);
    files.file.SetF32(files.prefix + kQ + ".lora_magnitude_vector", {site.out}, m);
    for (std::uint64_t o = 0; o < site.out; ++o) {
      double norm = 0;
      for (std::uint64_t i = 0; i < site.in; ++i) {
        double& value = w[o * site.in + i];
        for (std::uint64_t u = 0; u < 2; ++u) value += 2 * static_cast<double>(b[o * 2 + u]) * static_cast<double>(a[u * site.in + i]);
        norm += value * value;
      }
      for (std::uint64_t i = 0; i < site.in; ++i) w[o * site.in + i] *= static_cast<double>(m[o]) / std::sqrt(norm);
    }
    return Read(TinyBase(), files);
  };
  std::vector<StageAdapter> stack;
  stack.push_back(add(11));
  stack.push_back(add(21));
  const GroupRun run = RunGroup(*Stage(TinyBase(), stack), {kQ}, 3, 1);
  std::ranges::reverse(stack);
  CHECK(RunGroup(*Stage(TinyBase(), stack), {kQ}, 3, 1).y != run.y);
  for (std::uint64_t t = 0; t < 3; ++t)
    for (std::uint64_t o = 0; o < site.out; ++o) {
      double y = 0, size = 0;
      for (std::uint64_t i = 0; i < site.in; ++i) {
        y += w[o * site.in + i] * static_cast<double>(run.x[t * site.in + i]);
        size += std::abs(w[o * site.in + i] * static_cast<double>(run.x[t * site.in + i]));
      }
      CHECK(std::abs(static_cast<double>(run.y[0][t * site.out + o]) - y) <= 1e-5 * size);
    }
}

TEST_CASE("stacking: magnitudes along the input, as another convention has them, are refused with their shape") {
  PeftAdapter files = Mover(kQ, 0, 0, 2, "4").Key("use_dora", "true");
  const auto code_of = [&files](const std::vector<std::uint64_t>& shape) {
    files.file.Fill(files.prefix + kQ + ".lora_magnitude_vector", shape, 1);
    const auto read = ReadFiles(TinyBase(), files);
    if (read) return 0;
    CHECK(read.error().Text().find(shape[0] == 1 ? "[1, 64]" : "[64, 1]") != std::string::npos);
    return static_cast<int>(read.error().code);
  };
  CHECK(code_of({64}) == 0);
  CHECK(code_of({1, 64}) == 404);
  CHECK(code_of({64, 1}) == 404);
}

// E216 between adapters.
StageAdapter Rows(const std::string& tokens, std::uint64_t n, double strength = 1) {
  PeftAdapter files = LowRank().Key("trainable_token_indices", tokens);
  files.file.Fill(files.prefix + "model.embed_tokens.token_adapter.trainable_tokens_delta", {n, 64}, 0.5F);
  return Read(TinyBase(), files, strength);
}
int ConflictOf(std::vector<StageAdapter> stack) {
  stack[0].name = "early";
  stack[1].name = "late";
  const Status status = CheckReplacements(stack);
  if (status) return 0;
  CHECK(status.error().at == "late");
  CHECK(status.error().detail.find("early") != std::string::npos);
  return static_cast<int>(status.error().code);
}

TEST_CASE("conflicts: two adapters that replace one row are refused, rows apart from each other and rows at strength 0 are not") {
  CHECK(ConflictOf({Rows("[0, 1, 2]", 3), Rows("[2, 3, 4]", 3)}) == 216);
  CHECK(ConflictOf({Rows("[0, 1, 2]", 3), Rows("[3, 4]", 2)}) == 0);
  CHECK(ConflictOf({Rows("[0, 1, 2]", 3, 0), Rows("[2, 3, 4]", 3)}) == 0);
  CHECK(ConflictOf({Rows("[0, 1, 2]", 3), Rows("[2, 3, 4]", 3, 0)}) == 0);
  const std::vector<float> alone = Decode(Stage(TinyBase(), {}));
  CHECK(Decode(Stage(TinyBase(), {Rows("[0, 1, 2]", 3), Rows("[3, 4]", 2)})) != alone);
  CHECK(Decode(Stage(TinyBase(), {Rows("[0, 1, 2]", 3, 0)})) == alone);
}

TEST_CASE("conflicts: a whole tensor overlaps every row of its site, and two whole ones each other, whichever comes first") {
  const auto whole = [] {
    PeftAdapter files = LowRank();
    files.file.Fill(files.prefix + "lm_head.weight", {320, 64}, 1);
    return Read(TinyBase(), files);
  };
  CHECK(ConflictOf({whole(), whole()}) == 216);
  CHECK(ConflictOf({whole(), Rows("[1]", 1)}) == 216);  // the rows of a tied base are the head's too
  CHECK(ConflictOf({Rows("[1]", 1), whole()}) == 216);
}

TEST_CASE("conflicts: replacing what an earlier adapter edits is refused, editing what an earlier one replaces is not") {
  const auto edits_head = [] {
    PeftAdapter files = LowRank().Key("target_modules", R"(["q_proj","v_proj","lm_head"])");
    files.AddLowRank("lm_head", 320, 64, 4);
    return Read(TinyBase(), files);
  };
  CHECK(ConflictOf({edits_head(), Rows("[1]", 1)}) == 216);
  CHECK(ConflictOf({Rows("[1]", 1), edits_head()}) == 0);
}

}  // namespace
}  // namespace veneer
