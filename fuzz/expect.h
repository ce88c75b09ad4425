// What a fuzz target says when a promise is broken: unlike assert, also in release builds.
#ifndef VENEER_FUZZ_EXPECT_H_
#define VENEER_FUZZ_EXPECT_H_

#include <cstdio>
#include <cstdlib>

#define FUZZ_EXPECT(condition)                                                     \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (false)

#endif  // VENEER_FUZZ_EXPECT_H_
