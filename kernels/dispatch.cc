// Which tables this machine can run, and the choice among them.
#include <cstdlib>
#include <cstring>

#include "kernels/kernels.h"
#include "kernels/tables.h"

#if defined(VENEER_KERNELS_AVX2)
#include <cpuid.h>
#endif

namespace veneer::kernels {
namespace {

#if defined(VENEER_KERNELS_AVX2)

// Both the processor and the operating system must agree: without XCR0 bits 1 and 2 the upper halves of YMM registers are lost at a
// context switch. CPUID bits: Intel SDM vol. 2A, "CPUID".
bool HasAvx2() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kFma = 1u << 12, kOsXsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
  constexpr unsigned kNeeded = kFma | kOsXsave | kAvx | kF16c;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kNeeded) != kNeeded) return false;
  unsigned xcr0 = 0, high = 0;
  __asm__("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0));
  constexpr unsigned kSseAndYmm = 6;
  if ((xcr0 & kSseAndYmm) != kSseAndYmm) return false;
  constexpr unsigned kAvx2 = 1u << 5;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kAvx2) != 0;
}

#endif

struct Found {
  const Table* tables[2];
  std::size_t count = 0;

  Found() {
#if defined(VENEER_KERNELS_AVX2)
    if (HasAvx2()) tables[count++] = &Avx2Table();
#endif
    tables[count++] = &ScalarTable();
  }
};

}  // namespace

TableList Runnable() {
  static const Found found;
  return {found.tables, found.count};
}

const Table* Permitted(std::uint64_t cpu_features) {
  const TableList list = Runnable();
  return list.tables[PermitsAvx2(cpu_features) ? 0 : list.count - 1];
}

const Table* Select() {
  const TableList list = Runnable();
  const char* forced = std::getenv("VENEER_FORCE_ISA");
  if (forced == nullptr || *forced == '\0') return list.tables[0];
  for (std::size_t i = 0; i < list.count; ++i) {
    if (std::strcmp(list.tables[i]->isa, forced) == 0) return list.tables[i];
  }
  return nullptr;
}

}  // namespace veneer::kernels
