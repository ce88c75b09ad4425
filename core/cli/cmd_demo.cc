// `veneer demo`: the whole story on the embedded model, told by running the real commands.
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/cli/command.h"
#include "core/cli/output.h"
#include "core/cli/session.h"
#include "core/base/temporary_folder.h"

namespace veneer::cli {
namespace {

namespace fs = std::filesystem;

// The demo's data lies in share/veneer/demo beside bin/, in the build tree as in the install tree.
Result<fs::path> DemoData() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path data = program.parent_path().parent_path() / "share/veneer/demo";
  if (error || !fs::exists(data / "fable-q4_0.gguf"))
    return Fail(Code::BLOB_MISSING, data.string(), "the demo model is not installed here; run core/demo/run.sh from the source tree");
  return data;
}

class Demo {
 public:
  Demo(fs::path data, fs::path work, const Options& options) : data_(std::move(data)), work_(std::move(work)), threads_(options.threads) {}
  Result<int> Tell();

 private:
  struct Proof {
    std::string claim, evidence;
    bool holds;
  };

  // Shows a command as a user would type it and runs it; the demo stops at the first that fails.
  Status Run(std::vector<std::string> arguments) {
    std::string shown = "$ veneer";
    for (const std::string& word : arguments) shown += word.find(' ') == std::string::npos ? " " + word : fmt::format(" \"{}\"", word);
    PrintLine(shown);
    arguments.insert(arguments.end(), {"--threads", std::to_string(threads_)});
    const int status = RunCommandLine(arguments);
    if (status != 0) return Fail(Code::INTERNAL, "demo", fmt::format("a command of the demo ended with status {}", status));
    return {};
  }
  static void Chapter(std::string_view title) { PrintLine(fmt::format("\n== {}", title)); }

  Status Write(const std::string& name, const std::vector<std::string>& adapters) {
    std::vector<std::string> arguments{"compose", "--base", "fable"};
    for (const std::string& adapter : adapters) arguments.insert(arguments.end(), {"--adapter", adapter});
    arguments.insert(arguments.end(), {"-o", Path(name + ".toml")});
    VENEER_TRY(Run(arguments));
    VENEER_TRY(Run({"validate", Path(name + ".toml")}));
    return Run({"seal", Path(name + ".toml"), "--name", name});
  }
  Status Speak() { return Run({"generate", "-p", kPrompt, "-n", "48", "--temp", "0"}); }
  // Exact logits of the active composition for a fixed text, kept for comparison.
  Status Measure(const std::string& name) {
    return Run({"logits", "--tokens", "1,315,278,291,412,280,301", "--compute", "exact", "--out", Path(name + ".npy")});
  }
  Result<std::string> Bytes(const std::string& name) { return ReadText(Path(name), std::uint64_t{1} << 30); }
  Result<Digest> HashOf(const fs::path& path) {
    VENEER_ASSIGN(const FileBytes file, FileBytes::Map(path));
    return Sha256::Of(file.bytes());
  }
  Status Prove(std::string claim, const std::string& one, const std::string& other, bool should_equal) {
    VENEER_ASSIGN(const std::string a, Bytes(one));
    VENEER_ASSIGN(const std::string b, Bytes(other));
    proofs_.push_back({std::move(claim),
                       fmt::format("{} {} {}", Sha256::Of(a).Hex().substr(0, 16), a == b ? "==" : "!=", Sha256::Of(b).Hex().substr(0, 16)),
                       (a == b) == should_equal});
    return {};
  }
  [[nodiscard]] std::string Path(const std::string& name) const { return (work_ / name).string(); }
  int Conclude() const;

  static constexpr const char* kPrompt = "And the king said";
  fs::path data_, work_;
  std::uint32_t threads_;
  std::vector<Proof> proofs_;
};

int Demo::Conclude() const {
  Chapter("What was proven");
  std::vector<std::vector<std::string>> rows{{"CLAIM", "EVIDENCE", "HOLDS"}};
  for (const Proof& proof : proofs_) rows.push_back({proof.claim, proof.evidence, proof.holds ? "yes" : "NO"});
  Print(Table(rows));
  return std::ranges::all_of(proofs_, &Proof::holds) ? 0 : 5;
}

Result<int> Demo::Tell() {
  const fs::path base = data_ / "fable-q4_0.gguf";
  PrintLine(fmt::format("The store of this demo: export VENEER_STORE={}", Path("store")));
  VENEER_ASSIGN(const Digest before, HashOf(base));

  Chapter("Import a quantized base and three PEFT adapters");
  VENEER_TRY(Run({"init"}));
  VENEER_TRY(Run({"import", "base", base.string(), "--name", "fable"}));
  for (const char* adapter : {"bard", "hacker", "lexicon"})
    VENEER_TRY(Run({"import", "adapter", (data_ / "adapters" / adapter).string(), "--name", adapter}));

  Chapter("Compose, validate and seal: the identity is the hash of what is run");
  VENEER_TRY(Write("plain", {}));
  VENEER_TRY(Write("shakespeare", {"bard"}));
  VENEER_TRY(Write("jargon", {"hacker=0.9"}));
  VENEER_TRY(Write("dictionary", {"lexicon"}));
  VENEER_TRY(Write("stack", {"lexicon=0.5", "bard=0.7"}));

  Chapter("base -> B, the reference");
  VENEER_TRY(Run({"activate", "plain"}));
  VENEER_TRY(Speak());
  VENEER_TRY(Measure("base"));
  VENEER_TRY(Run({"activate", "jargon"}));
  VENEER_TRY(Speak());
  VENEER_TRY(Measure("base-B"));

  Chapter("base -> A -> base -> B");
  VENEER_TRY(Run({"activate", "plain"}));
  VENEER_TRY(Run({"activate", "shakespeare"}));
  VENEER_TRY(Speak());
  VENEER_TRY(Measure("A"));
  VENEER_TRY(Run({"activate", "plain"}));
  VENEER_TRY(Measure("base-again"));
  VENEER_TRY(Run({"activate", "jargon"}));
  VENEER_TRY(Measure("base-A-base-B"));

  Chapter("Other specialists, a stack, and the way back");
  VENEER_TRY(Run({"activate", "dictionary"}));
  VENEER_TRY(Speak());
  VENEER_TRY(Run({"activate", "stack"}));
  VENEER_TRY(Speak());
  VENEER_TRY(Run({"rollback"}));
  VENEER_TRY(Run({"rollback"}));
  VENEER_TRY(Measure("rolled-back"));
  VENEER_TRY(Run({"status"}));
  VENEER_TRY(Run({"fsck", "--full"}));

  VENEER_ASSIGN(const Digest after, HashOf(base));
  VENEER_ASSIGN(const Digest stored, HashOf(work_ / "store/blobs/sha256" / before.Hex()));
  proofs_.push_back(
      {"base file untouched (SHA-256)", fmt::format("{} == {}", before.Hex().substr(0, 16), after.Hex().substr(0, 16)), before == after});
  proofs_.push_back({"base in the store untouched (SHA-256)",
                     fmt::format("{} == {}", before.Hex().substr(0, 16), stored.Hex().substr(0, 16)), before == stored});
  VENEER_TRY(Prove("base -> A -> base gives the logits of base, bit for bit", "base.npy", "base-again.npy", true));
  VENEER_TRY(Prove("base -> A -> base -> B gives those of base -> B", "base-B.npy", "base-A-base-B.npy", true));
  VENEER_TRY(Prove("two rollbacks give those of B again", "base-B.npy", "rolled-back.npy", true));
  VENEER_TRY(Prove("A differs from base", "base.npy", "A.npy", false));
  VENEER_TRY(Prove("B differs from A", "A.npy", "base-B.npy", false));
  return Conclude();
}

Result<int> RunDemo(Session& session) {
  VENEER_ASSIGN(fs::path data, DemoData());
  VENEER_ASSIGN(const TemporaryFolder work, TemporaryFolder::Make(fs::temp_directory_path(), "demo"));
  if (setenv("VENEER_STORE", (work.path() / "store").c_str(), 1) != 0) return Fail(IoError(errno, "VENEER_STORE", "set the demo's store"));
  return Demo(std::move(data), work.path(), session.options()).Tell();
}

}  // namespace

constinit const Command kDemoCommand{
    "demo",
    "demo",
    "the whole story on the embedded model",
    "Imports a small trained base and three PEFT adapters into a store of its own, seals and activates compositions, decodes text,\n"
    "switches, rolls back, and proves that the base was never touched. Shows every command it runs. Removes its store at the end.\n",
    0,
    0,
    RunDemo};

}  // namespace veneer::cli
