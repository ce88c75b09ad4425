// The lock file of a store. Byte 0: every writer, alone. Byte 1: readers share it while they open files; garbage collection takes it
// alone. Order: byte 0 before byte 1. The locks belong to the open file, so they exclude threads and processes alike and vanish with
// their holder; the file is never renamed or deleted.
#ifndef VENEER_CORE_STORE_LOCK_H_
#define VENEER_CORE_STORE_LOCK_H_

#include <chrono>

#include "core/base/error.h"
#include "core/store/layout.h"

namespace veneer {

class StoreLock {
 public:
  // E601 when byte 0 (byte 1) cannot be had within the time given in the store's options.
  static Result<StoreLock> ForWriter(const StoreContext& store);
  static Result<StoreLock> ForReader(const StoreContext& store);
  // Byte 1 alone, for a writer that takes names away; it holds byte 0 already.
  static Result<StoreLock> ForCollector(const StoreContext& store);

  // Makes the lock file when it is absent: Init only.
  static Status Create(const StoreContext& store);

 private:
  explicit StoreLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;  // the lock ends when this closes
};

}  // namespace veneer

#endif  // VENEER_CORE_STORE_LOCK_H_
