#include "core/base/run_on_threads.h"

#include <system_error>
#include <thread>
#include <vector>

namespace veneer {

void RunOnThreads(std::uint32_t n, const std::function<void(std::uint32_t thread)>& work) {
  std::vector<std::jthread> others;  // joined by its end, on every way out
  if (n > 1) others.reserve(n - 1);
  try {
    for (std::uint32_t thread = 1; thread < n; ++thread) others.emplace_back(std::cref(work), thread);
  } catch (const std::system_error&) {
  }
  work(0);
}

}  // namespace veneer
