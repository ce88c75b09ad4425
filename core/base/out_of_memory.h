// Where refused memory becomes an error of ours. Below such a boundary std::bad_alloc travels as an exception and undoes by destructors:
// every public call of the store, of staging and of a switch is one.
#ifndef VENEER_CORE_BASE_OUT_OF_MEMORY_H_
#define VENEER_CORE_BASE_OUT_OF_MEMORY_H_

#include <new>
#include <system_error>
#include <type_traits>
#include <utility>

#include "core/base/error.h"

namespace veneer {

// Short enough to lie inside a std::string: to say it takes no memory.
inline constexpr const char* kNoMemory = "no memory left";

// E504, with the remedy where there is memory to say it.
inline Error OutOfMemory(const char* at, const char* what = "memory") {
  try {
    return {Code::OUT_OF_MEMORY, at, std::string("the system refused ") + what + "; free some, raise the limit or use fewer --threads"};
  } catch (const std::bad_alloc&) {
    return {Code::OUT_OF_MEMORY, "", kNoMemory};
  }
}

// What the body returns, a Result, or E504 at `at` when it ends with std::bad_alloc, or with the std::system_error of a thread that the
// system refused.
template <class Body>
[[nodiscard]] std::invoke_result_t<Body> OrOutOfMemory(Body&& body, const char* at = "") {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return std::unexpected(OutOfMemory(at));
  } catch (const std::system_error&) {
    return std::unexpected(OutOfMemory(at, "a thread"));
  }
}

}  // namespace veneer

#endif  // VENEER_CORE_BASE_OUT_OF_MEMORY_H_
