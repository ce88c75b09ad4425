// A file that has no name yet. It gets one, once, when it is whole and synced; until then a crash leaves nothing.
#ifndef VENEER_CORE_STORE_STAGING_H_
#define VENEER_CORE_STORE_STAGING_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/store/layout.h"

namespace veneer {

class StagedFile {
 public:
  // An unnamed file (O_TMPFILE); where the file system has none, a random name in staging/ that is locked while it is in use.
  static Result<StagedFile> Create(const StoreContext& store, std::uint32_t permissions);
  // The same with these bytes, synced.
  static Result<StagedFile> Create(const StoreContext& store, std::uint32_t permissions, std::string_view bytes);

  StagedFile(StagedFile&& other) noexcept;
  StagedFile& operator=(StagedFile&& other) noexcept;
  ~StagedFile();

  [[nodiscard]] const UniqueFd& fd() const { return fd_; }
  // Gives the file its name. false: the name is taken, by whatever; the file stays as it is.
  Result<bool> LinkInto(const Dir& dir, const std::string& name) const;

 private:
  StagedFile(const StoreContext& store, UniqueFd fd, std::string name);
  Sys* sys_;
  int staging_;  // descriptor of staging/, owned by the store
  UniqueFd fd_;
  std::string name_;  // empty: unnamed
};

// A name found in staging/. An abandoned file is locked as long as the descriptor is open, so nobody takes it for its own.
struct Leftover {
  enum State { kGone, kInUse, kAbandoned, kForeign } state;  // kForeign: nothing of ours, or not to be opened
  UniqueFd fd;
};
Leftover InspectStaged(const StoreContext& store, const std::string& name);
// Removes the named files in staging/ that nobody holds a lock on; under byte 0. Returns how many.
Result<int> SweepStaging(const StoreContext& store);

}  // namespace veneer

#endif  // VENEER_CORE_STORE_STAGING_H_
