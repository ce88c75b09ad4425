// Short work for several threads that are gone afterwards.
#ifndef VENEER_CORE_BASE_RUN_ON_THREADS_H_
#define VENEER_CORE_BASE_RUN_ON_THREADS_H_

#include <cstdint>
#include <functional>

namespace veneer {

// Calls work(0) on the calling thread and work(1) to work(n - 1) on others at the same time; returns when all have returned. The system
// may refuse threads: then fewer run, so the work must be such that however many there are share it. Nothing may be thrown by `work`
// but on the calling thread, whose exception comes out when the others have returned.
void RunOnThreads(std::uint32_t n, const std::function<void(std::uint32_t thread)>& work);

}  // namespace veneer

#endif  // VENEER_CORE_BASE_RUN_ON_THREADS_H_
