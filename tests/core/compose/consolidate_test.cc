// Low-rank adapters folded into a dense residual. The tiny base: hidden 64, ffn 96, two layers; all kinds linked statically.
#include "core/compose/consolidate.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "core/adapter/snapshot.h"
#include "core/compose/path_source.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/peft_adapter.h"
#include "tests/support/temp_dir.h"

namespace veneer {
namespace {

const std::string kUp = Layer(0, "mlp.up_proj"), kQ = Layer(1, "self_attn.q_proj");
constexpr std::uint64_t kUpElements = std::uint64_t{96} * 64;

const Catalog& AllKinds() {
  static const Catalog catalog = [] {
    const std::vector<const vnr_entry*> entries(vnr_static_entries, vnr_static_entries + vnr_static_entry_count);
    auto scanned = Catalog::Scan({.directories = {}, .overrides = {}, .static_entries = entries});
    if (!scanned) throw std::runtime_error(scanned.error().Text());
    return *std::move(scanned);
  }();
  return catalog;
}

// The value nearest to `value` that has eight significant bits, of two the one whose last bit is even.
std::uint16_t NearestBf16(double value) {
  const auto low = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);  // towards zero
  const auto at = [](std::uint32_t bits) { return static_cast<double>(std::bit_cast<float>(bits << 16)); };
  const double below = std::abs(value - at(low)), above = std::abs(at(low + 1U) - value);
  return below < above || (below == above && low % 2 == 0) ? low : static_cast<std::uint16_t>(low + 1);
}

// Base and adapters as files; what was consolidated joins them.
class Folder final : public ArtifactSource {
 public:
  Folder() { ::WriteAll(dir_.path() / "base.gguf", TinyLlama().Bytes()); }

  Folder& Add(const std::string& name, const PeftAdapter& adapter, const std::string& strength = "1") {
    ::WriteAll(dir_.path() / name / "adapter_model.safetensors", adapter.file.Bytes());
    ::WriteAll(dir_.path() / name / "adapter_config.json", adapter.ConfigText());
    return Enter(dir_.path() / name, strength);
  }
  Folder& Add(const std::string& name, const std::string& bytes, const std::string& strength = "1") {
    ::WriteAll(dir_.path() / (name + ".safetensors"), bytes);
    return Enter(dir_.path() / (name + ".safetensors"), strength);
  }
  // A residual on one site; as bf16 the values are cut to eight bits.
  Folder& AddResidual(const std::string& site, std::uint64_t out, std::uint64_t in, const std::vector<std::uint16_t>& values,
                      const std::string& strength = "1", const std::string& name = "residual") {
    SafetensorsWriter file;
    file.Set("base_model.model." + site + ".weight", "BF16", {out, in}, {reinterpret_cast<const char*>(values.data()), 2 * values.size()});
    return Add(name, file.Bytes(), strength);
  }

  [[nodiscard]] ValidatedComposition Validate() {
    auto source = PathSource::Open(dir_.path() / "base.gguf", paths_, {});
    if (!source) throw std::runtime_error(source.error().Text());
    return Validate(source->manifest());
  }
  [[nodiscard]] ValidatedComposition Validate(const Manifest& manifest) {
    auto validated = SealAndValidate(manifest, *this, AllKinds());
    if (!validated) throw std::runtime_error(validated.error().Text());
    return *std::move(validated);
  }
  Result<std::optional<Consolidation>> Consolidate(const std::vector<std::string>& names = {}) {
    return veneer::Consolidate(Validate(), names, taken, AllKinds());
  }
  int CodeOf(const std::vector<std::string>& names = {}) {
    const auto done = Consolidate(names);
    return done ? 0 : static_cast<int>(done.error().code);
  }

  std::set<std::string> taken;  // names in a store

  Result<BaseFiles> OpenBase(const Digest&, const std::optional<Digest>&) override { return FileBytes::Map(dir_.path() / "base.gguf"); }
  Result<AdapterBlobs> OpenAdapter(const AuthoredAdapter& entry) override { return OpenAdapterBlobs(files_.at(entry.file_hash.Text())); }

 private:
  Folder& Enter(const std::filesystem::path& path, const std::string& strength) {
    AdapterPath& entry = paths_.emplace_back();
    entry.path = path;
    entry.strength = *Decimal::FromAuthored(strength, "test");
    files_[OpenAdapterBlobs(path)->file_hash.Text()] = path;
    return *this;
  }
  TempDir dir_;
  std::vector<AdapterPath> paths_;
  std::map<std::string, std::filesystem::path> files_;
};

// Rank 4 on one site, every element of s B A is `scale * rank * 0.125` before the strength.
PeftAdapter OnSite(const std::string& site, std::uint64_t out, std::uint64_t in, const std::string& alpha = "8") {
  PeftAdapter adapter;
  adapter.config = {{"peft_type", "\"LORA\""}, {"r", "4"}, {"lora_alpha", alpha}, {"target_modules", "[\"" + site + "\"]"}};
  adapter.AddLowRank(site, out, in, 4);
  return adapter;
}
PeftAdapter OnUp() { return OnSite(kUp, 96, 64); }

std::vector<std::uint16_t> Ramp(std::uint64_t n) {
  std::vector<std::uint16_t> values;
  for (std::uint64_t i = 0; i < n; ++i) values.push_back(NearestBf16((static_cast<double>(i % 701) - 350) / 97.0));
  return values;
}

std::vector<std::uint16_t> Weights(const Consolidation& done, const std::string& name) {
  const auto file = SafetensorsFile::Parse(std::as_bytes(std::span(done.weights)));
  REQUIRE(file);
  for (const TensorView& tensor : file->tensors)
    if (tensor.name == name) {
      REQUIRE(tensor.dtype == VNR_BF16);
      std::vector<std::uint16_t> values(tensor.bytes.size() / 2);
      std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
      return values;
    }
  FAIL("no tensor " << name);
  return {};
}

std::vector<std::string> NamesOf(const Manifest& manifest) {
  std::vector<std::string> names;
  for (const AuthoredAdapter& entry : manifest.adapters) names.push_back(entry.name);
  return names;
}

// W of a site with everything in force.
std::vector<float> Effective(const ValidatedComposition& validated, const std::string& id) {
  auto bound = Bind(validated, AllKinds(), {.mode = ComputeMode::kExact});
  if (!bound) FAIL(bound.error().Text());
  const auto staged = std::move(*bound).Stage();
  if (!staged) FAIL(staged.error().Text());
  const Site& site = *validated.base()->sites().Find(id);
  std::vector<float> rows(site.out * site.in);
  (*staged)->ReadBaseRows(site, 0, site.out, rows.data(), site.in);
  for (const OverlayBinding* overlay : (*staged)->at(site).overlays) REQUIRE(overlay->WeightRows(0, site.out, rows.data(), site.in));
  return rows;
}

}  // namespace

TEST_CASE("consolidate: every element is residual + w s B A, rounded once to the nearest bf16, halves to even") {
  const std::vector<std::uint16_t> old = Ramp(kUpElements);
  Folder folder;
  folder.AddResidual(kUp, 96, 64, old).Add("style", OnUp(), "0.75");
  const auto done = folder.Consolidate();
  if (!done) FAIL(done.error().Text());
  REQUIRE(*done);
  const std::vector<std::uint16_t> now = Weights(**done, "base_model.model." + kUp + ".weight");
  REQUIRE(now.size() == old.size());
  for (std::size_t i = 0; i < now.size(); ++i) {
    const double sum = static_cast<double>(std::bit_cast<float>(std::uint32_t{old[i]} << 16)) + 0.75 * 2 * 4 * 0.125;
    if (now[i] != NearestBf16(sum)) FAIL("element " << i << " is " << now[i] << ", not " << NearestBf16(sum));
  }
  CHECK(NamesOf((*done)->manifest) == std::vector<std::string>{"residual"});
  CHECK((*done)->consumed == std::vector<std::string>{"style"});
}

TEST_CASE("consolidate: what is computed afterwards differs by the rounding to bf16 alone, on every site") {
  Folder folder;
  folder.AddResidual(kUp, 96, 64, Ramp(kUpElements)).Add("style", OnUp(), "0.3").Add("more", LowRank(), "-0.7");
  const ValidatedComposition before = folder.Validate();
  const auto done = Consolidate(before, {}, {}, AllKinds());
  if (!done) FAIL(done.error().Text());
  REQUIRE(*done);
  folder.Add("new", (*done)->weights);
  const ValidatedComposition after = folder.Validate((*done)->manifest);
  CHECK(after.adapters().size() == 1);
  for (const Site& site : before.base()->sites().sites()) {
    if (site.shape_class != SiteClass::kLinear) continue;
    const std::vector<float> old = Effective(before, site.id), now = Effective(after, site.id);
    std::vector<float> base(old.size());
    ReadRows(site, 0, site.out, base.data(), site.in);
    for (std::size_t i = 0; i < old.size(); ++i) {
      const double edit = std::abs(static_cast<double>(old[i]) - static_cast<double>(base[i]));
      // Half a unit in the last place of eight bits, and a rounding of each f32 sum.
      const double bound = 0x1p-8 * edit + 0x1p-22 * (std::abs(static_cast<double>(old[i])) + edit);
      if (std::abs(static_cast<double>(old[i]) - static_cast<double>(now[i])) > bound) FAIL(site.id << " element " << i);
    }
  }
}

TEST_CASE("consolidate: the residual stands where the first consumed entry stood, under its own name, and the rest stays") {
  Folder folder;
  PeftAdapter scaling = Scaling();
  folder.AddResidual(kUp, 96, 64, Ramp(kUpElements)).Add("scaling", scaling).Add("style", OnUp()).Add("tail", scaling);
  const auto done = folder.Consolidate();
  if (!done) FAIL(done.error().Text());
  CHECK(NamesOf((*done)->manifest) == std::vector<std::string>{"scaling", "residual", "tail"});
  Folder fresh;
  fresh.Add("style", OnUp()).Add("scaling", scaling).Add("second", OnSite(kQ, 64, 64));
  const auto first = fresh.Consolidate();
  if (!first) FAIL(first.error().Text());
  CHECK(NamesOf((*first)->manifest) == std::vector<std::string>{"residual", "scaling"});
  CHECK((*first)->consumed == std::vector<std::string>{"style", "second"});
  const auto named = fresh.Consolidate({"second"});
  if (!named) FAIL(named.error().Text());
  CHECK(NamesOf((*named)->manifest) == std::vector<std::string>{"style", "scaling", "residual"});
}

TEST_CASE("consolidate: folding an adapter of zeros leaves the residual's fingerprint, minus zeros included") {
  std::vector<std::uint16_t> old = Ramp(kUpElements);
  old[5] = 0x8000;  // -0
  Folder folder;
  PeftAdapter zero = OnUp();
  zero.file.Fill("base_model.model." + kUp + ".lora_B.weight", {96, 4}, 0);
  folder.AddResidual(kUp, 96, 64, old).Add("zero", zero);
  const auto done = folder.Consolidate();
  if (!done) FAIL(done.error().Text());
  SafetensorsWriter file;
  file.Set("base_model.model." + kUp + ".weight", "BF16", {96, 64}, {reinterpret_cast<const char*>(old.data()), 2 * old.size()});
  const std::string before = file.Bytes();
  const auto fingerprint = [](const std::string& bytes) {
    const auto parsed = SafetensorsFile::Parse(std::as_bytes(std::span(bytes)));
    REQUIRE(parsed);
    return ResidualFingerprint(*parsed);
  };
  CHECK(fingerprint((*done)->weights) == fingerprint(before));
}

TEST_CASE("consolidate: the new residual has a name that nothing else has, and the old one's when the fold changes nothing") {
  const auto name_of = [](Folder& folder) {
    const auto done = folder.Consolidate();
    if (!done) FAIL(done.error().Text());
    return (*done)->name;
  };
  Folder folder;
  folder.AddResidual(kUp, 96, 64, Ramp(kUpElements), "1", "mine-7").Add("style", OnUp());
  CHECK(name_of(folder) == "mine");
  folder.taken = {"mine", "mine-2", "mine-7"};
  CHECK(name_of(folder) == "mine-3");
  Folder without;
  without.Add("residual", OnUp());
  CHECK(name_of(without) == "residual-2");
  Folder idle;
  PeftAdapter zero = OnUp();
  zero.file.Fill("base_model.model." + kUp + ".lora_B.weight", {96, 4}, 0);
  idle.AddResidual(kUp, 96, 64, Ramp(kUpElements), "1", "mine-7").Add("zero", zero);
  idle.taken = {"mine-7"};
  CHECK(name_of(idle) == "mine-7");
}

TEST_CASE("consolidate: an entry without strength, named or not, is nothing to fold where there is no residual") {
  Folder folder;
  folder.Add("off", OnUp(), "0");
  for (const std::vector<std::string>& names : std::vector<std::vector<std::string>>{{}, {"off"}}) {
    const auto done = folder.Consolidate(names);
    if (!done) FAIL(done.error().Text());
    CHECK_FALSE(*done);
  }
}

TEST_CASE("consolidate: with nothing of low rank in force there is nothing to do") {
  Folder folder;
  folder.AddResidual(kUp, 96, 64, Ramp(kUpElements)).Add("scaling", Scaling()).Add("off", OnUp(), "0");
  const auto done = folder.Consolidate();
  if (!done) FAIL(done.error().Text());
  CHECK_FALSE(*done);
}

TEST_CASE(
    "consolidate: an overlay that does not merely add, before a consumed one on its site, is E401; on other sites it is in nobody's way") {
  PeftAdapter on_up;
  on_up.config = {{"peft_type", "\"IA3\""}, {"target_modules", "[\"" + kUp + "\"]"}, {"feedforward_modules", "[]"}};
  on_up.file.Fill(on_up.prefix + kUp + ".ia3_l", {96, 1}, 2);
  CHECK(Folder().Add("scaling", on_up).Add("style", OnUp()).CodeOf() == 401);
  CHECK(Folder().Add("style", OnUp()).Add("scaling", on_up).CodeOf() == 0);
  CHECK(Folder().Add("scaling", on_up).Add("style", OnSite(kQ, 64, 64)).CodeOf() == 0);
  CHECK(Folder().Add("scaling", on_up, "0").Add("style", OnUp()).CodeOf() == 0);
  // The residual would have to pass it, towards the consumed entry's place.
  CHECK(Folder().AddResidual(kUp, 96, 64, Ramp(kUpElements)).Add("scaling", on_up).Add("style", OnSite(kQ, 64, 64)).CodeOf() == 401);
  PeftAdapter replacing = OnSite(kQ, 64, 64).Key("modules_to_save", "[\"" + kUp + "\"]");
  replacing.file.Fill(replacing.prefix + kUp + ".weight", {96, 64}, 1);
  CHECK(Folder().Add("replacing", replacing).Add("style", OnUp()).CodeOf({"style"}) == 401);
}

TEST_CASE(
    "consolidate: a residual of another strength, a second residual, a trained bias and replacements are E401; a name that is not there "
    "E405") {
  const std::vector<std::uint16_t> old = Ramp(kUpElements);
  CHECK(Folder().AddResidual(kUp, 96, 64, old, "0.5").Add("style", OnUp()).CodeOf() == 401);
  std::vector<std::uint16_t> other = old;
  other[0] = static_cast<std::uint16_t>(other[0] ^ 1U);
  CHECK(Folder().AddResidual(kUp, 96, 64, old).AddResidual(kUp, 96, 64, other, "1", "second").Add("style", OnUp()).CodeOf() == 401);
  PeftAdapter biased = OnUp().Key("lora_bias", "true");
  biased.file.Fill(biased.prefix + kUp + ".lora_B.bias", {96}, 1);
  CHECK(Folder().Add("biased", biased).CodeOf() == 401);
  PeftAdapter replacing = OnUp().Key("modules_to_save", R"(["lm_head"])");
  replacing.file.Fill(replacing.prefix + "lm_head.weight", {320, 64}, 1);
  CHECK(Folder().Add("replacing", replacing).CodeOf({"replacing"}) == 401);
  CHECK(Folder().Add("scaling", Scaling()).CodeOf({"scaling"}) == 401);
  CHECK(Folder().Add("style", OnUp()).CodeOf({"nobody"}) == 405);
}

}  // namespace veneer
