// The one place where a lack of memory becomes an error: every public call of the store runs its work through it, and so does the commit,
// where an exception must not hide what has become visible.
#ifndef VENEER_CORE_STORE_MEMORY_H_
#define VENEER_CORE_STORE_MEMORY_H_

#include <new>
#include <type_traits>
#include <utility>

#include "core/base/error.h"

namespace veneer {

inline constexpr const char* kNoMemory = "no memory left";  // short enough to be kept inside a std::string: it must need no memory

// What the body returns, or E504.
template <class Body>
std::invoke_result_t<Body> OrOutOfMemory(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return Fail(Code::OUT_OF_MEMORY, "", kNoMemory);
  }
}

}  // namespace veneer

#endif  // VENEER_CORE_STORE_MEMORY_H_
