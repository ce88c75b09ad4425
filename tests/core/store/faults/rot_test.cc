// L7: bits that flip and files that are cut short, by hand or by a bad disk: an error with its code, never another composition, never a
// crash. Times stay as they were, as with rot below the file system, so stamps say nothing against it.
#include <fmt/format.h>

#include <functional>
#include <set>

#include "tests/core/store/faults/harness.h"
#include "tests/core/store/fixture.h"
#include "tests/support/catch.h"

using namespace veneer;

namespace {

constexpr std::uint64_t kFullCheckEvery = 16;  // damages between two that fsck is asked about as well

std::string Path(const std::string& below) { return fmt::format("{}/{}", kStore, below); }
std::string BlobPath(const std::string& bytes) { return Path("blobs/sha256/" + Sha256::Of(bytes).Hex()); }

struct Target {
  std::string name, path;
  bool every_bit;                // else one bit of each byte
  std::set<Code> of_reader;      // what OpenActive may answer; empty: it answers with composition A, unharmed
  std::set<Code> of_activation;  // what Activate(B) may answer; empty: it works
  bool torn_is_clean = false;    // a shorter file may be a whole one: the log ends where it ends
};

std::vector<Target> Targets() {
  using enum Code;
  return {
      {"CURRENT", Path("veneer/state/CURRENT"), true, {STATE_CORRUPT}, {STATE_CORRUPT}},
      {"the active record", Path("veneer/gen/4"), true, {}, {STATE_CORRUPT}},
      {"a name", Path("veneer/refs/composition/song"), true, {}, {}},
      {"the active composition", BlobPath(CompositionText({"style"})), true, {HASH_MISMATCH}, {}},
      {"the log", Path("veneer/audit/seg-1"), false, {}, {AUDIT_CHAIN, GENERATION_REGRESSED}, true},
      {"the base", BlobPath(kBaseBytes), false, {HASH_MISMATCH, SIZE_MISMATCH}, {HASH_MISMATCH, SIZE_MISMATCH}},
      {"the tokenizer", BlobPath(kTokenizerBytes), false, {HASH_MISMATCH, SIZE_MISMATCH}, {HASH_MISMATCH, SIZE_MISMATCH}},
      {"an adapter", BlobPath(kStyleBytes), false, {HASH_MISMATCH, SIZE_MISMATCH}, {}},
      {"a view", Path("index.json"), false, {}, {}},
  };
}

void CheckReader(SimDisk& disk, const Target& target, std::vector<std::string>& violations, Cases& cases) {
  const auto active = Must(OpenStore(disk)).OpenActive(VerifyMode::kFull);
  if (!active) {
    cases.Saw(active.error().code);
    if (!target.of_reader.contains(active.error().code)) violations.push_back("a reader gets " + active.error().Text());
    return;
  }
  if (!target.of_reader.empty()) violations.push_back("a reader does not notice");
  if (active->opened.id != IdOfA() || Sha256::Of(active->opened.canonical) != IdOfA())
    violations.push_back("a reader gets another composition");
}

void CheckActivation(SimDisk& disk, const Target& target, std::vector<std::string>& violations, Cases& cases) {
  const auto before = disk.image().Read(Path("veneer/state/CURRENT"));
  const auto done = Must(OpenStore(disk)).Activate(IdOfB(), std::nullopt, {.verify = VerifyMode::kFull});
  const auto facts = ReadFacts(disk.image());
  if (done && (!facts || facts->composition != IdOfB())) violations.push_back("an activation that worked is not in force");
  if (done) return;
  cases.Saw(done.error().code);
  if (!target.of_activation.contains(done.error().code)) violations.push_back("an activation gets " + done.error().Text());
  if (disk.image().Read(Path("veneer/state/CURRENT")) != before) violations.push_back("a refused activation changes CURRENT");
}

void CheckName(SimDisk& disk, const Target& target, std::vector<std::string>& violations) {
  const auto ref = Must(OpenStore(disk)).GetRef(RefKind::kComposition, "song");
  if (target.name == "a name" && (ref || ref.error().code != Code::STATE_CORRUPT)) violations.push_back("a damaged name is read");
  if (target.name != "a name" && !ref) violations.push_back("a name is lost: " + ref.error().Text());
}

// The check of the whole store says so, and a repair leaves what it cannot mend and never another composition.
void CheckFsck(SimDisk& disk, std::vector<std::string>& violations) {
  Store store = Must(OpenStore(disk));
  const auto report = store.Fsck({true, false, {}});
  if (report && report->clean()) violations.push_back("fsck finds nothing");
  const auto before = ReadFacts(disk.image());
  (void)store.Fsck({true, true, {}});
  if (ReadFacts(disk.image()) != before) violations.push_back("a repair changes what is active");
}

void Damage(const SimImage& used, const Target& target, const std::string& bytes, bool may_be_clean, Cases& cases,
            const std::function<std::string()>& what) {
  if (!cases.Next()) return;
  SimImage image = used;
  image.Write(target.path, bytes);
  std::vector<std::string> violations;
  for (const auto check : {CheckReader, CheckActivation}) {
    SimDisk disk(image);
    check(disk, target, violations, cases);
  }
  SimDisk disk(image);
  CheckName(disk, target, violations);
  if (cases.ran() % kFullCheckEvery == 0 && !may_be_clean) CheckFsck(disk, violations);
  cases.Report(violations, what);
}

void Rot(const Target& target) {
  const SimImage used = UsedStore();
  const std::string good = *used.Read(target.path);
  Cases cases("L7 " + target.name);
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      if (!target.every_bit && bit != at % 8) continue;
      std::string bad = good;
      bad[at] = static_cast<char>(static_cast<unsigned char>(bad[at]) ^ (1u << bit));
      Damage(used, target, bad, false, cases, [&] { return fmt::format("bit {} of byte {} of {}", bit, at, target.path); });
    }
  }
  for (std::size_t size = 0; size < good.size(); ++size)
    Damage(used, target, good.substr(0, size), target.torn_is_clean, cases,
           [&] { return fmt::format("{} cut to {} bytes", target.path, size); });
}

}  // namespace

TEST_CASE("L7: any flipped bit and any truncation of any file is an error with its code, or harms nothing") {
  for (const Target& target : Targets()) Rot(target);
}
