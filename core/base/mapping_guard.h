// What becomes of a mapped file that someone else makes shorter: reading past its new end raises SIGBUS, which ends a process that is
// not prepared. A guarded mapping gets zero pages in place of what was lost and is marked, so that the reader comes to its next check
// and can refuse with the file's name.
#ifndef VENEER_CORE_BASE_MAPPING_GUARD_H_
#define VENEER_CORE_BASE_MAPPING_GUARD_H_

#include <cstddef>
#include <utility>

#include "core/base/error.h"

namespace veneer {

// Installs the handler of SIGBUS for this process, once: a second call does nothing. Faults outside all guarded mappings go to the
// handler that was there before. The program's main calls this; an embedding program does so where its own handlers allow. Without it
// a lost page ends the process, as everywhere. E603 when the system refuses.
Status InstallMappingGuard();

// Makes one mapping known to the handler for as long as this object lives. Threads may make, ask and destroy any number at any time.
class MappingGuard {
 public:
  MappingGuard() = default;  // guards nothing
  // Throws std::bad_alloc. `begin` is where the mapping begins; end the guard before the mapping is removed.
  MappingGuard(const void* begin, std::size_t size);
  ~MappingGuard();
  MappingGuard(MappingGuard&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  MappingGuard& operator=(MappingGuard&& other) noexcept {
    std::swap(slot_, other.slot_);
    return *this;
  }

  // True once part of the mapping was lost. What was read from it before the call returned false was the file.
  [[nodiscard]] bool is_broken() const;

 private:
  struct Slot* slot_ = nullptr;
};

}  // namespace veneer

#endif  // VENEER_CORE_BASE_MAPPING_GUARD_H_
