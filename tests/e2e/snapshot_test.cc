// A trainer's snapshot through the command line: import, golden vectors, consolidation into the residual, rollback.
#include <nlohmann/json.hpp>

#include "tests/e2e/program_store.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/vectors.h"

namespace {

class SnapshotStore : public ProgramStore {
 public:
  explicit SnapshotStore(const std::filesystem::path& data) : data_(data / "stories260k/residual-sparse") {
    Must({"import", "base", (RepoData() / "stories260k/stories260k-q8_0.gguf").string(), "--name", "tiny"});
  }
  // Composes, and activates what was composed. `adapters` as for --adapter.
  void Activate(const std::vector<std::string>& adapters) const {
    std::filesystem::remove(Path("manifest.toml"));
    Must({"activate", Compose("manifest", "tiny", adapters)});
  }
  [[nodiscard]] Matrix Logits(const std::vector<std::int32_t>& tokens) const {
    Must({"logits", "--tokens", JoinTokens(tokens), "--out", Path("logits.npy"), "--compute", "exact"});
    return ReadNpy(Path("logits.npy"));
  }
  [[nodiscard]] const std::filesystem::path& data() const { return data_; }

 private:
  std::filesystem::path data_;
};

VectorCase CaseOf(const std::filesystem::path& folder, const std::string& name) {
  for (VectorCase& one : ReadVectors(folder))
    if (one.name == name) return one;
  throw std::runtime_error("no vector " + name);
}

}  // namespace

TEST_CASE("snapshot: residual, active adapter and sparse deltas decode as the vectors say") {
  const auto data = ExternalData();
  if (!data) return;
  const SnapshotStore store(*data);
  store.Must({"import", "snapshot", (store.data() / "snapshot").string(), "--name", "snap"});
  for (const char* file : {"sparse-csr", "sparse-coo"})
    store.Must({"import", "adapter", (store.data() / (std::string(file) + ".safetensors")).string(), "--name", file});
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {{"residual", {"snap-residual"}},
                                                                               {"residual-half", {"snap-residual=0.5"}},
                                                                               {"snapshot", {"snap-residual", "snap-active"}},
                                                                               {"sparse", {"sparse-csr"}},
                                                                               {"sparse", {"sparse-coo"}}};
  for (const auto& [name, adapters] : cases) {
    CAPTURE(name, adapters);
    store.Activate(adapters);
    const VectorCase one = CaseOf(store.data(), name);
    CHECK(MaxDifference(store.Logits(one.prompt), one.logits) <= one.tolerance());
    const auto made =
        store.MustJson({"generate", "--tokens", JoinTokens(one.prompt), "-n", "24", "--temp", "0", "--ignore-eos", "--compute", "exact"});
    CHECK(made.at("tokens").get<std::vector<std::int32_t>>() == one.greedy);
  }
}

TEST_CASE("snapshot: a residual with another fingerprint is E303 and nothing is imported; a later one without a residual leaves none") {
  const auto data = ExternalData();
  if (!data) return;
  const SnapshotStore store(*data);
  const std::filesystem::path copy = store.Path("snap");
  std::filesystem::copy(store.data() / "snapshot", copy);
  auto manifest = nlohmann::json::parse(ReadAll(copy / "manifest.json"));
  manifest["residual_fingerprint"] = std::string(64, '0');
  WriteAll(copy / "manifest.json", manifest.dump());
  const ProcessResult refused = store.Run({"import", "snapshot", copy.string()});
  CHECK(refused.status == 3);
  CHECK(refused.err.find("E303") != std::string::npos);
  CHECK(store.Run({"compose", "--base", "tiny", "--adapter", "snap-active", "-o", store.Path("m.toml")}).status != 0);

  store.Must({"import", "snapshot", (store.data() / "snapshot").string(), "--name", "snap"});
  std::filesystem::remove(copy / "merged_deltas.safetensors");
  CHECK(store.Run({"import", "snapshot", copy.string()}).status == 3);  // the manifest speaks of one
  manifest.erase("residual_fingerprint");
  WriteAll(copy / "manifest.json", manifest.dump());
  const auto imported = store.MustJson({"import", "snapshot", copy.string()});
  CHECK(imported.at("adapters").size() == 1);
  CHECK(store.Run({"compose", "--base", "tiny", "--adapter", "snap-residual", "-o", store.Path("m.toml")}).status != 0);
  store.Activate({"snap-active"});
}

TEST_CASE("consolidate: the active adapter becomes part of the residual, decoding hardly differs, and rollback restores every bit") {
  const auto data = ExternalData();
  if (!data) return;
  const SnapshotStore store(*data);
  store.Must({"import", "snapshot", (store.data() / "snapshot").string(), "--name", "snap"});
  store.Activate({"snap-residual", "snap-active"});
  const VectorCase one = CaseOf(store.data(), "snapshot");
  const Matrix before = store.Logits(one.prompt);
  const auto done = store.MustJson({"consolidate"});
  CHECK(done.at("changed") == true);
  const Matrix after = store.Logits(one.prompt);
  // One rounding to bf16 of every element of 35 matrices: 2^-8 relative each at most, far below the residual's own effect.
  CHECK(MaxDifference(after, before) < 0.02 * one.logit_std);
  CHECK(MaxDifference(after, before) > 0);
  const auto nothing = store.MustJson({"consolidate"});
  CHECK(nothing.at("changed") == false);
  // Under a name of its own beside the snapshot's, so that what is composed from names is what is active.
  CHECK(store.Must({"status"}).find("snap-residual-2 (residual) strength 1") != std::string::npos);
  store.Activate({"snap-residual-2"});
  CHECK(store.MustJson({"status"}).at("composition") == done.at("composition"));
  CHECK(store.MustJson({"status"}).at("composition") == done.at("composition"));
  CHECK(store.MustJson({"status"}).at("generation") == done.at("generation"));
  store.Must({"rollback"});
  CHECK(store.Logits(one.prompt).values == before.values);
}

TEST_CASE("consolidate: what folding would change is refused and the composition stays active") {
  const auto data = ExternalData();
  if (!data) return;
  const SnapshotStore store(*data);
  store.Must({"import", "snapshot", (store.data() / "snapshot").string(), "--name", "snap"});
  store.Must({"import", "adapter", (RepoData() / "stories260k/adapters/ia3-default").string(), "--name", "scaling"});
  for (const std::vector<std::string>& stack : std::vector<std::vector<std::string>>{
           {"snap-residual=0.5", "snap-active"}, {"snap-residual", "scaling", "snap-active"}, {"scaling", "snap-active"}}) {
    CAPTURE(stack);
    store.Activate(stack);
    const auto status = store.MustJson({"status"});
    const ProcessResult refused = store.Run({"consolidate"});
    CHECK(refused.status == 3);
    CHECK(refused.err.find("E401") != std::string::npos);
    CHECK(store.MustJson({"status"}) == status);
  }
  CHECK(store.Run({"consolidate", "nobody"}).err.find("E405") != std::string::npos);
  CHECK(store.Run({"consolidate", "scaling"}).err.find("E401") != std::string::npos);
  store.Activate({"snap-active", "scaling"});
  // Refused as late as can be: the folded residual was made, and is gone again.
  const auto blobs = store.MustJson({"fsck"})["blobs"];
  CHECK(store.Run({"consolidate", "--memory-budget", "1K"}).err.find("E501") != std::string::npos);
  CHECK(store.MustJson({"fsck"})["blobs"] == blobs);
  CHECK(store.Run({"consolidate"}).status == 0);
}
