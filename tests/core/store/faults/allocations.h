// operator new of this test program: on demand one allocation, or all from one on, fail; and it knows what is left of those it counted.
#ifndef VENEER_TESTS_CORE_STORE_FAULTS_ALLOCATIONS_H_
#define VENEER_TESTS_CORE_STORE_FAULTS_ALLOCATIONS_H_

#include <cstdint>

namespace allocations {

void FailAt(std::uint64_t nth, bool once);  // counts from now on, in this thread; nth 0: none fails
std::uint64_t Stop();                       // no more counting and faults; how many allocations were counted
std::int64_t Alive();                       // blocks that were counted, by whatever FailAt, and not released

// What the test's own machinery allocates meanwhile neither counts nor fails.
class Pause {
 public:
  Pause();
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;
};

}  // namespace allocations

#endif  // VENEER_TESTS_CORE_STORE_FAULTS_ALLOCATIONS_H_
