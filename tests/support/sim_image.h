// What a disk holds, what of it a power cut keeps, and every way a cut can leave it. A value: copies share what is equal, so whole disks
// are copied thousands of times a second. SimDisk (sim_disk.h) is the system calls on top.
//
// The model. A file's bytes are durable once the file is synced; before that a cut leaves the durable ones, or these and a prefix, a torn
// half or the right number of zeros of the others, or all. A change of directories (mkdir, link, unlink; rename in one piece) is durable
// once each directory it touches is synced; before that the changes survive in order up to a point, or any subset of them does. A failed
// sync drops the bytes it should have written, and the next one has nothing left to write and succeeds.
#ifndef VENEER_TESTS_SUPPORT_SIM_IMAGE_H_
#define VENEER_TESTS_SUPPORT_SIM_IMAGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/store/sys.h"

using SimInode = std::uint64_t;  // 0: none

struct SimContent {
  std::string bytes;
  std::size_t hash = 0;  // of the bytes; images are compared by it
};
using SimBytes = std::shared_ptr<const SimContent>;
SimBytes MakeSimBytes(std::string bytes);

struct SimNode {
  veneer::FileType type = veneer::FileType::kRegular;
  std::uint32_t permissions = 0, durable_permissions = 0;
  std::int64_t mtime_ns = 0, ctime_ns = 0;
  // Of a file: what reads see, what the next sync makes durable (after a failed one less than what is seen), what is durable.
  SimBytes seen, kept, durable;
  std::map<std::string, SimInode> names, durable_names;  // of a directory
};

enum class CutOrder { kOrdered, kSubset };  // which of the changes of directories survive

class SimImage {
 public:
  explicit SimImage(std::uint64_t seed = 1);  // an empty directory

  // --- durability ----------------------------------------------------------------------------------------------------------------
  // In how many ways a power cut now can leave the disk, equal ones counted as often as they come; saturates. 1: only one, and
  // everything is durable or forgotten.
  [[nodiscard]] std::uint64_t Cuts(CutOrder order) const;
  // One of them, 0 <= choice < Cuts(order). Choice 0 keeps as little as possible.
  [[nodiscard]] SimImage PowerCut(CutOrder order, std::uint64_t choice) const;
  void SyncAll();

  // --- looking -------------------------------------------------------------------------------------------------------------------
  // Equal for two images that show the same tree: names, modes and bytes. Inodes and times do not count, nor does what is below the
  // directory `without`.
  [[nodiscard]] std::uint64_t Fingerprint(std::string_view without = {}) const;
  // The same, and equal in what is durable of it.
  [[nodiscard]] std::uint64_t FullFingerprint(std::string_view without = {}) const;
  // By path from the root of the disk: "store/veneer/state/CURRENT".
  [[nodiscard]] std::optional<std::string> Read(std::string_view path) const;  // nothing: no such file
  [[nodiscard]] std::optional<std::uint32_t> Permissions(std::string_view path) const;
  [[nodiscard]] std::vector<std::string> List(std::string_view path) const;  // empty for no directory
  [[nodiscard]] bool IsDirectory(std::string_view path) const;

  // --- damage and preparation, durable at once -----------------------------------------------------------------------------------
  void Write(std::string_view path, std::string bytes, std::uint32_t permissions = 0644);  // an existing file in place, times as they were
  void MakeDirectory(std::string_view path, std::uint32_t permissions);
  void Remove(std::string_view path);

  // --- for SimDisk ---------------------------------------------------------------------------------------------------------------
  static constexpr SimInode kRoot = 1;
  [[nodiscard]] const SimNode& node(SimInode inode) const { return *nodes_.at(inode); }
  SimNode& Change(SimInode inode);  // a node of this image alone
  SimInode AddNode(veneer::FileType type, std::uint32_t permissions);
  struct Edit {
    SimInode dir;
    std::string name;
    SimInode target;  // 0: the name is gone
  };
  void ChangeDirectories(std::vector<Edit> edits);  // in one piece
  void SyncFile(SimInode inode, bool fails);
  void SyncDirectory(SimInode inode);
  [[nodiscard]] std::uint64_t Links(SimInode inode) const;
  [[nodiscard]] SimInode Find(std::string_view path) const;  // 0: nothing there
  std::uint64_t NextRandom();

  std::int64_t wall_ns = 1'700'000'000'000'000'000;  // goes on with every look at it

 private:
  struct Pending {
    std::vector<Edit> edits;
    std::set<SimInode> unsynced;  // directories
  };
  // What cuts choose between: the changes, then for each file that is not durable one of its remainders.
  struct Choices {
    std::uint64_t changes = 1;
    std::vector<std::pair<SimInode, std::vector<SimBytes>>> files;
  };
  [[nodiscard]] Choices AllChoices(CutOrder order) const;
  void HashTree(SimInode inode, SimInode without, std::uint64_t& hash) const;
  void DropUnreachable();
  void Place(std::string_view path, SimInode inode);  // durably

  std::map<SimInode, std::shared_ptr<const SimNode>> nodes_;
  std::vector<Pending> pending_;
  SimInode next_ = kRoot + 1;
  std::uint64_t random_;
};

#endif  // VENEER_TESTS_SUPPORT_SIM_IMAGE_H_
