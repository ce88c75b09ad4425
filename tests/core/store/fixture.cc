#include "tests/core/store/fixture.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

using namespace veneer;
namespace fs = std::filesystem;

namespace {

std::string AdapterText(const std::string& name, std::size_t order) {
  const bool safety = name == "safety";
  const std::string& bytes = safety ? kSafetyBytes : kStyleBytes;
  const std::string config =
      safety ? fmt::format(R"("config_hash":"{}","config_size":{},)", Sha256::Of(kConfigBytes).Text(), kConfigBytes.size()) : "";
  return fmt::format(
      R"({{{}"file_hash":"{}","file_size":{},"format":"{}","kind":"test","load_order":{},"merge_weight":"0.5","name":"{}","rank":8,"sparsity":"0",)"
      R"("target_layers":["model.layers.0.mlp.up_proj"]}})",
      config, Sha256::Of(bytes).Text(), bytes.size(), safety ? "safetensors" : "gguf", order, name);
}

}  // namespace

std::string CompositionText(const std::vector<std::string>& adapters) {
  std::string list;
  for (std::size_t i = 0; i < adapters.size(); ++i) list += (i == 0 ? "" : ",") + AdapterText(adapters[i], i);
  return fmt::format(
      R"({{"adapters":[{}],"base_format":"gguf","base_model_hash":"{}","base_model_size":{},)"
      R"("quantization":{{"block_size":32,"dtype":"q4_0","scheme":"symmetric"}},"runtime":{{"name":"veneer","version":"1"}},)"
      R"("schema":"veneer.composition/1","tied_weights":"separate","tokenizer_hash":"{}","tokenizer_id":"test-bpe-v1","tokenizer_size":{}}})",
      list, Sha256::Of(kBaseBytes).Text(), kBaseBytes.size(), Sha256::Of(kTokenizerBytes).Text(), kTokenizerBytes.size());
}

StoreFixture::StoreFixture() {
  Store store = Must(Store::Init(posix, root().string(), {std::chrono::milliseconds(200), "test"}));
  std::vector<StagedBlob> blobs;
  for (const std::string& bytes : {kBaseBytes, kTokenizerBytes, kStyleBytes, kSafetyBytes, kConfigBytes, CompositionText({"style"}),
                                   CompositionText({"safety"}), CompositionText({})})
    blobs.push_back(Must(store.StageBytes(bytes)));
  Must(store.Import(blobs));
  a = Sha256::Of(CompositionText({"style"}));
  b = Sha256::Of(CompositionText({"safety"}));
  none = Sha256::Of(CompositionText({}));
}

Result<Store> StoreFixture::TryOpen(Sys& sys, std::chrono::milliseconds timeout) {
  return Store::Open(sys, root().string(), {timeout, "test"});
}

std::string StoreFixture::Snapshot() const {
  std::vector<std::string> lines;
  for (const auto& entry : fs::recursive_directory_iterator(root())) {
    const std::string name = fs::relative(entry.path(), root()).string();
    if (name.starts_with("veneer/verified/")) continue;
    const auto mode = static_cast<unsigned>(entry.symlink_status().permissions());
    lines.push_back(fmt::format("{} {:o} {}", name, mode, entry.is_regular_file() ? ReadAll(entry.path()) : std::string()));
  }
  std::ranges::sort(lines);
  return fmt::format("{}", fmt::join(lines, "\n"));
}

void StoreFixture::CopyTo(const fs::path& to) const {
  fs::remove_all(to);
  fs::copy(root(), to, fs::copy_options::recursive);
}

void StoreFixture::RestoreFrom(const fs::path& from) const {
  fs::remove_all(root());
  fs::copy(from, root(), fs::copy_options::recursive);
}

void UseMemoryDisk() {
  if (fs::is_directory("/dev/shm") && access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1);
}

pid_t StartChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    int status = 99;
    try {
      status = body();
    } catch (...) {
    }
    _exit(status);
  }
  return child;
}

int WaitForChild(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) throw std::runtime_error("waitpid failed");
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int RunInChild(const std::function<int()>& body) { return WaitForChild(StartChild(body)); }

int RunKilledBefore(StoreFixture& store, std::uint64_t n, const std::function<bool(Store&)>& body) {
  return RunInChild([&] {
    SimSys sys(store.posix);
    Store handle = Must(store.TryOpen(sys));
    sys.Reset();
    sys.KillBefore(n);
    return body(handle) ? 0 : 1;
  });
}

std::string Text(const FsckReport& report) {
  std::string text;
  for (const Finding& finding : report.findings)
    text += fmt::format("{} at={} {}{}\n", finding.code, finding.at, finding.detail, finding.repaired ? " [repaired]" : "");
  return text;
}
