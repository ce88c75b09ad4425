// Which tables this machine can run, and the choice among them.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "kernels/kernels.h"
#include "kernels/tables.h"

#if defined(VENEER_KERNELS_X86)
#include <cpuid.h>
#endif

namespace veneer::kernels {
namespace {

#if defined(VENEER_KERNELS_X86)

// Both the processor and the operating system must agree: registers whose bits in XCR0 are clear lose their upper parts at a context
// switch. CPUID bits: Intel SDM vol. 2A, "CPUID"; XCR0: vol. 1, 13.3.
struct Processor {
  unsigned leaf1_ecx = 0, leaf7_ebx = 0, leaf7_ecx = 0, xcr0 = 0;

  Processor() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kOsXsave = 1u << 27;  // without it xgetbv is no instruction
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kOsXsave) == 0) return;
    leaf1_ecx = c;
    __asm__("xgetbv" : "=a"(xcr0), "=d"(d) : "c"(0));
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return;
    leaf7_ebx = b;
    leaf7_ecx = c;
  }
};

constexpr bool Has(unsigned value, unsigned bits) { return (value & bits) == bits; }

bool HasAvx2(const Processor& cpu) {
  constexpr unsigned kFma = 1u << 12, kAvx = 1u << 28, kF16c = 1u << 29, kAvx2 = 1u << 5;
  constexpr unsigned kXmmAndYmm = 3u << 1;
  return Has(cpu.leaf1_ecx, kFma | kAvx | kF16c) && Has(cpu.leaf7_ebx, kAvx2) && Has(cpu.xcr0, kXmmAndYmm);
}

bool HasAvx512(const Processor& cpu) {
  constexpr unsigned kF = 1u << 16, kDq = 1u << 17, kBw = 1u << 30, kVl = 1u << 31, kVnni = 1u << 11;
  constexpr unsigned kMasksAndZmm = 7u << 5;  // masks, upper halves of ZMM 0..15, ZMM 16..31
  return HasAvx2(cpu) && Has(cpu.leaf7_ebx, kF | kDq | kBw | kVl) && Has(cpu.leaf7_ecx, kVnni) && Has(cpu.xcr0, kMasksAndZmm);
}

#endif

struct Found {
  const Table* tables[3];
  std::uint64_t needs[3];  // permission bits
  std::size_t count = 0;

  void Add(const Table& table, std::uint64_t features) {
    tables[count] = &table;
    needs[count++] = features;
  }

  Found() {
#if defined(VENEER_KERNELS_X86)
    const Processor cpu;
    if (HasAvx512(cpu)) Add(Avx512Table(), kAvx2Features | VNR_CPU_AVX512);
    if (HasAvx2(cpu)) Add(Avx2Table(), kAvx2Features);
#endif
    Add(ScalarTable(), 0);
  }
};

const Found& Known() {
  static const Found found;
  return found;
}

}  // namespace

TableList Runnable() {
  const Found& found = Known();
  return {found.tables, found.count};
}

const Table* Permitted(std::uint64_t cpu_features) {
  const Found& found = Known();
  std::size_t i = 0;
  while ((cpu_features & found.needs[i]) != found.needs[i]) ++i;  // the last needs nothing
  return found.tables[i];
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
