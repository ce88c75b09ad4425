#include "core/cli/session.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/core/cli/captured.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/temp_dir.h"

namespace veneer::cli {
namespace {

using Strings = std::vector<std::string>;

const std::string kBase = (DemoData() / "fable-q4_0.gguf").string();
std::string Adapter(const std::string& name) { return (DemoData() / "adapters" / name).string(); }

Session SessionOf(const Strings& arguments) {
  auto options = ParseOptions(arguments);
  if (!options) throw std::runtime_error(options.error().Text());
  return Session(*std::move(options));
}

// A store with the demo base as `fable`, two adapters, and the manifests plain, bard and hacker.
class StoreOf {
 public:
  StoreOf() {
    Must({"init"});
    Must({"import", "base", kBase, "--name", "fable"});
    for (const char* const name : {"bard", "hacker"}) Must({"import", "adapter", Adapter(name), "--name", name});
    Must({"compose", "--base", "fable", "-o", File("plain.toml")});
    for (const char* const name : {"bard", "hacker"})
      Must({"compose", "--base", "fable", "--adapter", name, "-o", File(std::string(name) + ".toml")});
  }
  [[nodiscard]] std::string File(const std::string& name) const { return (dir_.path() / name).string(); }
  [[nodiscard]] Strings With(Strings arguments) const {
    arguments.insert(arguments.end(), {"--store", File("store")});
    return arguments;
  }
  Captured Run(const Strings& arguments) const { return RunCommand(With(arguments)); }
  Captured Must(const Strings& arguments) const {
    Captured result = Run(arguments);
    if (result.status != 0) throw std::runtime_error(result.err);
    return result;
  }
  [[nodiscard]] std::string Seal(const std::string& manifest) const {
    return nlohmann::json::parse(Must({"seal", File(manifest), "--json"}).out).at("composition");
  }
  [[nodiscard]] nlohmann::json Status() const { return nlohmann::json::parse(Must({"status", "--json"}).out); }
  // The id of what a command line selects.
  [[nodiscard]] std::string Selected(const Strings& arguments) const {
    Session session = SessionOf(With(arguments));
    auto selected = session.Selected();
    if (!selected) throw std::runtime_error(selected.error().Text());
    return selected->composition().Id().Text();
  }

 private:
  TempDir dir_;
};

TEST_CASE("session: a manifest or a base that is given is selected before the active composition, which is taken when neither is") {
  const StoreOf store;
  const std::string plain = store.Seal("plain.toml"), bard = store.Seal("bard.toml"), hacker = store.Seal("hacker.toml");
  Session nothing_active = SessionOf(store.With({"generate"}));
  const auto none = nothing_active.Selected();
  REQUIRE_FALSE(none);
  CHECK(none.error().code == Code::NO_ACTIVE);
  store.Must({"activate", store.File("bard.toml")});
  CHECK(store.Selected({"generate"}) == bard);
  CHECK(store.Selected({"generate", "--manifest", store.File("hacker.toml")}) == hacker);
  CHECK(store.Selected({"generate", "--manifest", plain}) == plain);
  CHECK(store.Selected({"generate", "--base", kBase}) == plain);
  CHECK(store.Selected({"generate", "--base", kBase, "--adapter", Adapter("hacker")}) == hacker);
  CHECK(store.Selected({"generate", "--base", kBase, "--adapter", Adapter("hacker") + "=0.5"}) != hacker);
  CHECK(store.Selected({"generate"}) == bard);  // all that changed nothing
  CHECK(store.Status().at("composition") == bard);
}

TEST_CASE("session: paths need no store, and adapters need a base beside them") {
  const TempDir dir;
  const Strings store{"--store", (dir.path() / "none").string()};
  Session paths = SessionOf({"generate", "--base", kBase, "--adapter", Adapter("bard"), store[0], store[1]});
  CHECK(paths.Selected());
  CHECK_FALSE(std::filesystem::exists(store[1]));
  Session alone = SessionOf({"generate", "--adapter", Adapter("bard"), store[0], store[1]});
  const auto refused = alone.Selected();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::USAGE);
  CHECK(refused.error().at == "--adapter");
}

TEST_CASE("session: a composition is found by manifest file, id and name; what is none of these says so") {
  const StoreOf store;
  const std::string bard =
      nlohmann::json::parse(store.Must({"seal", store.File("bard.toml"), "--name", "poet", "--json"}).out).at("composition");
  Session session = SessionOf(store.With({"validate", "x"}));
  for (const std::string& what : {store.File("bard.toml"), bard, std::string("poet")}) {
    CAPTURE(what);
    const auto named = session.Resolve(what);
    REQUIRE(named);
    CHECK(named->validated.composition().Id().Text() == bard);
    CHECK(named->statement.has_value() == (what == store.File("bard.toml")));
  }
  for (const std::string& what : {std::string("nobody"), "sha256:" + std::string(64, '0')}) {
    CAPTURE(what);
    const auto missing = session.Resolve(what);
    REQUIRE_FALSE(missing);
    CHECK(missing.error().code == Code::BLOB_MISSING);
    CHECK(missing.error().Text().find(what) != std::string::npos);
  }
  const auto form = session.Resolve("sha256:12");
  REQUIRE_FALSE(form);
  CHECK(form.error().code == Code::DIGEST_FORM);
}

TEST_CASE("session: logits of every token are planned for the verb that makes them, and for no other") {
  CHECK(SessionOf({"logits"}).decoder_options(256).all_logits);
  for (const char* const verb : {"generate", "plan", "activate"}) CHECK_FALSE(SessionOf({verb}).decoder_options(256).all_logits);
  // 32 rows of 4 bytes a token of the vocabulary instead of one.
  Session session = SessionOf({"logits", "--base", kBase, "--threads", "1"});
  const auto selected = session.Selected();
  REQUIRE(selected);
  const ModelConfig& config = selected->base()->config();
  const auto scratch = [&](const char* verb) {
    return Decoder::PlannedMemory(config, ComputeMode::kFast, SessionOf({verb, "--threads", "1"}).decoder_options(256)).scratch_bytes;
  };
  CHECK(scratch("logits") - scratch("generate") == 31 * config.vocab * sizeof(float));
}

TEST_CASE("session: threads, context, cache type and compute mode reach the decoder") {
  const Session session = SessionOf({"generate", "--threads", "3", "-c", "77", "--kv", "f32", "--compute", "exact"});
  const DecoderOptions decoder = session.decoder_options(9);
  CHECK(decoder.threads == 3);
  CHECK(decoder.context == 77U);
  CHECK(decoder.max_batch == 9);
  CHECK(decoder.kv == KvType::kF32);
  CHECK(session.mode() == ComputeMode::kExact);
  CHECK(session.stage_options().mode == ComputeMode::kExact);
  CHECK_FALSE(SessionOf({"generate"}).decoder_options(1).kv);
  CHECK(SessionOf({"generate", "--kv", "q8_0"}).decoder_options(1).kv == KvType::kQ8_0);
}

TEST_CASE("session: the store hashes with as many threads as --threads says") {
  const StoreOf store;
  for (const std::uint32_t threads : {1U, 3U}) {
    Session session = SessionOf(store.With({"generate", "--threads", std::to_string(threads)}));
    const auto opened = session.store();
    REQUIRE(opened);
    CHECK((*opened)->threads() == threads);
  }
}

TEST_CASE("session: over the budget nothing is staged or made, E501 names the terms; under it the decoder is made") {
  const Strings line{"generate", "--base", kBase, "--adapter", Adapter("bard"), "-c", "64", "--memory-budget"};
  const auto make = [&line](const std::string& budget) {
    Strings arguments = line;
    arguments.push_back(budget);
    Session session = SessionOf(arguments);
    auto selected = session.Selected();
    if (!selected) throw std::runtime_error(selected.error().Text());
    return session.MakeDecoder(*selected, 16);
  };
  CHECK(make("2G"));
  const auto refused = make(std::to_string(std::filesystem::file_size(kBase)));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::MEMORY_BUDGET);
  CHECK(refused.error().at == "--memory-budget");
  CHECK(refused.error().detail.find("base " + std::to_string(std::filesystem::file_size(kBase))) != std::string::npos);
}

TEST_CASE("session: the plan is admitted again when the overlays have told what scratch they need") {
  Session session =
      SessionOf({"generate", "--base", kBase, "--adapter", Adapter("lexicon"), "--adapter", Adapter("bard"), "-c", "64", "--threads", "2"});
  const auto selected = session.Selected();
  REQUIRE(selected);
  const DecoderOptions decoder = session.decoder_options(4096);
  const auto planned = session.Stage(*selected, decoder, UINT64_MAX);
  REQUIRE(planned);
  const std::uint64_t before = Decoder::PlannedMemory(selected->base()->config(), ComputeMode::kFast, decoder).scratch_bytes;
  // 4096 tokens with the input of down_proj once more, scaled.
  CHECK(planned->plan.scratch_bytes - before > 4096ULL * selected->base()->config().ffn * sizeof(float));
  // A budget between the two plans: room for everything but that.
  const std::uint64_t between = planned->plan.peak_bytes() - (planned->plan.scratch_bytes - before) / 2;
  const auto refused = session.Stage(*selected, decoder, between);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::MEMORY_BUDGET);
}

TEST_CASE("session: an activation over the budget is refused with E501 and the active composition stays") {
  const StoreOf store;
  store.Must({"activate", store.File("plain.toml")});
  const nlohmann::json before = store.Status();
  const Captured refused = store.Run({"activate", store.File("bard.toml"), "--memory-budget", "1M"});
  CHECK(refused.status == 4);
  CHECK(refused.out.empty());
  CHECK(refused.err.find("ERR ACTIVATE E501 MEMORY_BUDGET at=") != std::string::npos);
  CHECK(store.Status() == before);
  CHECK(store.Run({"activate", store.File("bard.toml"), "--memory-budget", "2G"}).status == 0);
}

TEST_CASE("session: plan prints the terms and their sum, as JSON and as a table") {
  const Strings line{"plan", "--base", kBase, "--adapter", Adapter("bard"), "-c", "64"};
  Strings json_line = line;
  json_line.emplace_back("--json");
  const Captured json = RunCommand(json_line);
  REQUIRE(json.status == 0);
  const auto terms = nlohmann::json::parse(json.out);
  std::uint64_t sum = 0;
  for (const char* const term : {"runtime_bytes", "base_bytes", "adapter_bytes", "scratch_bytes", "kv_bytes"}) {
    CHECK(terms.at(term).get<std::uint64_t>() > 0);
    sum += terms.at(term).get<std::uint64_t>();
  }
  CHECK(terms.at("peak_bytes") == sum);
  CHECK(terms.at("base_bytes") == std::filesystem::file_size(kBase));
  const Captured table = RunCommand(line);
  REQUIRE(table.status == 0);
  for (const char* const term : {"runtime", "base", "adapter", "scratch", "kv", "peak"})
    CHECK(table.out.find(std::string("\n") + term + " ") != std::string::npos);
}

}  // namespace
}  // namespace veneer::cli
