// The base's file under a running process: made shorter, overwritten, replaced, unlinked. It decodes on, or ends with E305 naming the
// file; it never crashes and never shows a token that was computed over other bytes.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/e2e/program_store.h"
#include "tests/support/catch.h"
#include "tests/support/data.h"
#include "tests/support/files.h"

namespace {

namespace fs = std::filesystem;

constexpr const char* kPrompt = "And the king said";

class LostBlob : public ProgramStore {
 public:
  LostBlob() {
    Must({"import", "base", (DemoData() / "fable-q4_0.gguf").string(), "--name", "fable"});
    Must({"import", "adapter", (DemoData() / "adapters/bard").string(), "--name", "bard"});
    Must({"activate", Compose("bard", "fable", {"bard"})});
    for (const auto& entry : fs::directory_iterator(Path("store") + "/blobs/sha256"))
      if (fs::file_size(entry) == fs::file_size(DemoData() / "fable-q4_0.gguf")) base = entry.path();
    REQUIRE_FALSE(base.empty());
    tokens = MustJson(With({"generate", "-p", kPrompt, "--threads", "2"})).at("tokens");
  }
  static std::vector<std::string> With(std::vector<std::string> arguments) {
    for (const char* more : {"--temp", "0", "--ignore-eos", "--compute", "exact", "-n", "100"}) arguments.emplace_back(more);
    return arguments;
  }
  [[nodiscard]] std::vector<std::string> Lines() const {
    return With({"generate", "--lines", "-", "--json", "--threads", "2", "--store", Path("store")});
  }
  void Overwrite(std::uint64_t at, std::size_t n) const {
    fs::permissions(base, fs::perms::owner_write, fs::perm_options::add);
    const int fd = open(base.c_str(), O_WRONLY | O_CLOEXEC);
    REQUIRE(pwrite(fd, std::string(n, '\x5a').data(), n, static_cast<off_t>(at)) == static_cast<ssize_t>(n));
    close(fd);
  }
  void Cut(std::uint64_t size) const {
    fs::permissions(base, fs::perms::owner_write, fs::perm_options::add);
    fs::resize_file(base, size);
  }

  fs::path base;
  nlohmann::json tokens;
};

nlohmann::json Ask(LiveVeneer& live) {
  live.Write(std::string(kPrompt) + "\n");
  return nlohmann::json::parse(live.ReadLine());
}

void CheckLost(const nlohmann::json& answer, const LostBlob& store) {
  REQUIRE(answer.contains("error"));
  CHECK(answer.at("error").at("code") == 305);
  const std::string at = answer.at("error").at("at");
  CHECK(at.find(store.base.filename().string()) != std::string::npos);  // the blob's digest
}

}  // namespace

TEST_CASE("lost blob: a base that was made shorter, at whatever point, or overwritten is E305 at the next prompt, which gives no token") {
  const std::uint64_t size = fs::file_size(DemoData() / "fable-q4_0.gguf");
  const std::vector<std::function<void(const LostBlob&)>> damages = {
      [](const LostBlob& store) { store.Cut(0); },
      [](const LostBlob& store) { store.Cut(100); },
      [&](const LostBlob& store) { store.Cut(size / 2); },
      [&](const LostBlob& store) { store.Cut(size / 2 + 2048); },
      [&](const LostBlob& store) { store.Cut(size - 1); },
      [&](const LostBlob& store) { store.Cut(size + 4096); },
      [&](const LostBlob& store) { store.Overwrite(size / 2, 1); },
      [&](const LostBlob& store) { store.Overwrite(0, static_cast<std::size_t>(size)); },
      [&](const LostBlob& store) {  // and back to its old length, with zeros
        store.Cut(size / 3);
        store.Cut(size);
      }};
  for (const auto& damage : damages) {
    const LostBlob store;
    LiveVeneer live(store.Lines());
    CHECK(Ask(live).at("tokens") == store.tokens);
    std::this_thread::sleep_for(std::chrono::milliseconds(15));  // file times move in steps of up to 10 ms
    damage(store);
    for (int i = 0; i < 2; ++i) {
      const auto answer = Ask(live);
      CheckLost(answer, store);
      CHECK(answer.at("tokens").empty());
    }
    CHECK(live.Finish().status == 3);
  }
}

TEST_CASE("lost blob: a base that is lost while it is decoded from ends that decode with E305, and every token shown is a right one") {
  const std::uint64_t size = fs::file_size(DemoData() / "fable-q4_0.gguf");
  int lost = 0;
  for (const std::uint64_t point : {std::uint64_t{4096}, size / 4, size / 2, size * 3 / 4, size - 4096}) {
    for (const bool is_cut : {true, false}) {
      CAPTURE(point, is_cut);
      const LostBlob store;
      LiveVeneer live(store.Lines());
      for (int i = 0; i < 60; ++i) live.Write(std::string(kPrompt) + "\n");
      CHECK(nlohmann::json::parse(live.ReadLine()).at("tokens") == store.tokens);
      std::this_thread::sleep_for(std::chrono::microseconds(point / 100));
      if (is_cut) {
        store.Cut(point);
      } else {
        store.Overwrite(point, 4096);
      }
      const ProcessResult rest = live.Finish();
      CAPTURE(rest.err);
      CHECK((rest.status == 3 || rest.status == 0));
      lost += rest.status == 3 ? 1 : 0;
      std::istringstream lines(rest.out);
      bool is_lost = false;
      for (std::string line; std::getline(lines, line);) {
        const auto answer = nlohmann::json::parse(line);
        CHECK(answer.contains("error") >= is_lost);  // for good
        is_lost = is_lost || answer.contains("error");
        if (answer.contains("error")) CheckLost(answer, store);
        const auto& made = answer.at("tokens");
        REQUIRE(made.size() <= store.tokens.size());
        if (!answer.contains("error")) CHECK(made.size() == store.tokens.size());
        for (std::size_t i = 0; i < made.size(); ++i) CHECK(made[i] == store.tokens[i]);
      }
    }
  }
  CHECK(lost >= 8);  // of ten
}

TEST_CASE("lost blob: a base that was replaced by rename, unlinked or renamed does no harm to who decodes from it") {
  const std::vector<std::function<void(const LostBlob&)>> changes = {
      [](const LostBlob& store) {
        WriteAll(store.Path("other"), "these bytes are no model");
        fs::rename(store.Path("other"), store.base);
      },
      [](const LostBlob& store) { fs::remove(store.base); }, [](const LostBlob& store) { fs::rename(store.base, store.Path("moved")); },
      [](const LostBlob& store) { fs::remove_all(store.Path("store") + "/blobs"); }};
  for (const auto& change : changes) {
    const LostBlob store;
    LiveVeneer live(store.Lines());
    CHECK(Ask(live).at("tokens") == store.tokens);
    change(store);
    for (int i = 0; i < 2; ++i) CHECK(Ask(live).at("tokens") == store.tokens);
    CHECK(live.Finish().status == 0);
  }
}

TEST_CASE("lost blob: an adapter's file is of no more interest once it is loaded") {
  const LostBlob store;
  LiveVeneer live(store.Lines());
  CHECK(Ask(live).at("tokens") == store.tokens);
  for (const auto& entry : fs::directory_iterator(store.Path("store") + "/blobs/sha256")) {
    if (entry.path() == store.base) continue;
    fs::permissions(entry, fs::perms::owner_write, fs::perm_options::add);
    fs::resize_file(entry, 1);
  }
  CHECK(Ask(live).at("tokens") == store.tokens);
  CHECK(live.Finish().status == 0);
}

TEST_CASE("lost blob: generate over a file of the user's ends with E305 naming it when that is cut in the middle, or with the right text") {
  const LostBlob store;
  const std::string copy = store.Path("base.gguf");
  const auto arguments = [&] { return LostBlob::With({"generate", "--base", copy, "-p", kPrompt}); };
  WriteAll(copy, ReadAll(DemoData() / "fable-q4_0.gguf"));
  const std::string right = Veneer(arguments()).out;
  int lost = 0;
  for (int i = 0; i < 12; ++i) {
    WriteAll(copy, ReadAll(DemoData() / "fable-q4_0.gguf"));
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
    LiveVeneer live(arguments());
    std::string shown = live.Read(64);
    fs::resize_file(copy, 100'000 * static_cast<std::uint64_t>(i + 1));
    const ProcessResult rest = live.Finish();
    shown += rest.out;
    CAPTURE(i, rest.err);
    if (rest.status == 0) {
      CHECK(shown == right);
      continue;
    }
    ++lost;
    CHECK(rest.status == 3);
    CHECK(rest.err.find("ERR GENERATE E305 BLOB_CHANGED at=" + copy) != std::string::npos);
    CHECK(right.starts_with(shown.substr(0, shown.size() - 1)));  // the line is ended
  }
  CHECK(lost > 0);
}
