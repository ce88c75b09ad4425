// A store in a temporary folder with two compositions over tiny files, built by hand and not by the code under test.
#ifndef VENEER_TESTS_CORE_STORE_FIXTURE_H_
#define VENEER_TESTS_CORE_STORE_FIXTURE_H_

#include <sys/types.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/store/posix_sys.h"
#include "core/store/store.h"
#include "tests/support/files.h"
#include "tests/support/sim_sys.h"
#include "tests/support/temp_dir.h"

template <class T>
T Must(veneer::Result<T> result) {
  if (!result) throw std::runtime_error(result.error().Text());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// Replaces the bytes of a file in place, whatever its mode was.
inline void WriteFile(const std::filesystem::path& path, const std::string& bytes) {
  namespace fs = std::filesystem;
  if (fs::exists(path)) fs::permissions(path, fs::perms::owner_write, fs::perm_options::add);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

// Bytes of the files, each known by its digest.
inline const std::string kBaseBytes(4096, 'b');
inline const std::string kTokenizerBytes = "veneer test tokenizer\n";
inline const std::string kStyleBytes = "veneer test adapter 0\n";
inline const std::string kSafetyBytes = "veneer test adapter 1\n";
inline const std::string kConfigBytes = "veneer test adapter config 1\n";

// Composition A has the adapter style, B has safety (with a configuration), `kNone` no adapter.
std::string CompositionText(const std::vector<std::string>& adapters);

class StoreFixture {
 public:
  StoreFixture();  // with all blobs and both compositions; nothing active

  [[nodiscard]] std::filesystem::path root() const { return dir_.path() / "store"; }
  [[nodiscard]] std::filesystem::path state() const { return root() / "veneer/state/CURRENT"; }
  [[nodiscard]] std::filesystem::path blob(const veneer::Digest& digest) const { return root() / "blobs/sha256" / digest.Hex(); }
  [[nodiscard]] std::filesystem::path blob(const std::string& bytes) const { return blob(veneer::Sha256::Of(bytes)); }
  [[nodiscard]] veneer::Result<veneer::Store> TryOpen(veneer::Sys& sys, std::chrono::milliseconds timeout = std::chrono::milliseconds(200));
  [[nodiscard]] veneer::Store Open() { return Must(TryOpen(posix)); }

  // A fresh handle each: the state on disk decides.
  veneer::Result<veneer::Activation> Activate(const veneer::Digest& composition) { return Open().Activate(composition, std::nullopt, {}); }
  veneer::Result<veneer::Activation> Rollback() { return Open().Rollback(std::nullopt, {}); }
  veneer::Current Current() { return Must(Open().ReadCurrent()); }
  veneer::FsckReport Fsck(bool full = true, bool repair = false) { return Must(Open().Fsck({full, repair, {}})); }

  // Everything below the root as text, for "nothing changed": path, mode and bytes; stamps, which are hints, left out.
  [[nodiscard]] std::string Snapshot() const;
  // Copies a store that no process uses, with times.
  void CopyTo(const std::filesystem::path& to) const;
  void RestoreFrom(const std::filesystem::path& from) const;
  [[nodiscard]] std::filesystem::path Aside(const std::string& name) const { return dir_.path() / name; }

  veneer::PosixSys posix;
  veneer::Digest a, b, none;  // compositions
 private:
  TempDir dir_;
};

// Puts the temporary folders of this process on a memory disk where there is one: for loops of hundreds of killed or failing runs,
// which need no disk and would wait for thousands of syncs.
void UseMemoryDisk();

// What fork leaves: the exit status, or 128 + the signal.
int RunInChild(const std::function<int()>& body);
pid_t StartChild(const std::function<int()>& body);  // the two halves of it
int WaitForChild(pid_t child);

// The same of `body` on a handle of its own, killed before its n-th system call; 0 or 1 when it came to its end, as `body` says.
int RunKilledBefore(StoreFixture& store, std::uint64_t n, const std::function<bool(veneer::Store&)>& body);

// One line per finding.
std::string Text(const veneer::FsckReport& report);

#endif  // VENEER_TESTS_CORE_STORE_FIXTURE_H_
