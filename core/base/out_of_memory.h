// Where refused memory becomes an error of ours. Below such a boundary std::bad_alloc travels as an exception and undoes by destructors.
#ifndef VENEER_CORE_BASE_OUT_OF_MEMORY_H_
#define VENEER_CORE_BASE_OUT_OF_MEMORY_H_

#include <new>
#include <string>
#include <system_error>

#include "core/base/error.h"

namespace veneer {

// Calls `body`, which returns a Result, and gives E504 at `at` when it ends with std::bad_alloc, or with the std::system_error of a
// thread that the system refused. What the body had changed it must undo by destructors; the caller may say so.
template <class Body>
[[nodiscard]] auto RefusedMemoryIsAnError(const char* at, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Fail(Code::OUT_OF_MEMORY, at, "the system refused memory; nothing was changed, free some or raise the limit and try again");
  } catch (const std::system_error& error) {
    return Fail(Code::OUT_OF_MEMORY, at,
                std::string("the system refused a thread (") + error.what() + "); nothing was changed, give fewer --threads");
  }
}

}  // namespace veneer

#endif  // VENEER_CORE_BASE_OUT_OF_MEMORY_H_
