#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "tests/kernels/oracle.h"
#include "tests/support/catch.h"
#include "veneer/abi.h"

namespace veneer::kernels_test {
namespace {

class ForcedIsa {  // sets VENEER_FORCE_ISA and puts the old value back
 public:
  explicit ForcedIsa(const char* name) {
    if (const char* old = std::getenv(kName)) old_ = old, had_ = true;
    if (name != nullptr) {
      ::setenv(kName, name, 1);
    } else {
      ::unsetenv(kName);
    }
  }
  ForcedIsa(const ForcedIsa&) = delete;
  ForcedIsa& operator=(const ForcedIsa&) = delete;
  ~ForcedIsa() {
    if (had_) {
      ::setenv(kName, old_.c_str(), 1);
    } else {
      ::unsetenv(kName);
    }
  }

 private:
  static constexpr const char* kName = "VENEER_FORCE_ISA";
  std::string old_;
  bool had_ = false;
};

}  // namespace

TEST_CASE("dispatch: scalar is always runnable and last; the best table is first and chosen by default", "[kernels]") {
  REQUIRE(!Tables().empty());
  CHECK(std::string(Tables().back()->isa) == "scalar");
  const ForcedIsa unset(nullptr);
  CHECK(kernels::Select() == Tables().front());
  const ForcedIsa empty("");
  CHECK(kernels::Select() == Tables().front());
}

TEST_CASE("dispatch: VENEER_FORCE_ISA chooses any runnable table by its name", "[kernels]") {
  for (const kernels::Table* table : Tables()) {
    const ForcedIsa forced(table->isa);
    CHECK(kernels::Select() == table);
  }
}

TEST_CASE("dispatch: an unknown name in VENEER_FORCE_ISA chooses nothing, not a fallback", "[kernels]") {
  for (const char* name : {"avx", "AVX2", "scalar ", "avx512vnni", "none"}) {
    const ForcedIsa forced(name);
    CHECK(kernels::Select() == nullptr);
  }
}

// The compiler's own check asks the processor and the operating system as well. Every processor with AVX2 has F16C.
TEST_CASE("dispatch: avx2 and avx512 are offered exactly when the compiler's own check finds all they need", "[kernels]") {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
#else
  const bool avx2 = false, avx512 = false;
#endif
  std::vector<std::string> expected;
  if (avx512) expected.emplace_back("avx512");
  if (avx2) expected.emplace_back("avx2");
  expected.emplace_back("scalar");
  std::vector<std::string> offered;
  for (const kernels::Table* table : Tables()) offered.emplace_back(table->isa);
  CHECK(offered == expected);
  // Tests of kernels run on every table that is offered.
  if (!avx2) WARN("SKIP: no AVX2 here, so no test ran on the avx2 table");
  if (!avx512) WARN("SKIP: no AVX-512 with VNNI here, so no test ran on the avx512 table");
}

TEST_CASE("dispatch: a permission covers the best runnable table that needs no more than it", "[kernels]") {
  const auto best = [](std::uint64_t features) { return std::string(kernels::Permitted(features)->isa); };
  const auto has = [](const char* isa) {
    return std::ranges::any_of(Tables(), [&](auto* table) { return std::string(table->isa) == isa; });
  };
  const std::string avx2 = has("avx2") ? "avx2" : "scalar", avx512 = has("avx512") ? "avx512" : avx2;
  constexpr std::uint64_t kAvx2 = VNR_CPU_AVX2 | VNR_CPU_FMA | VNR_CPU_F16C;
  CHECK(best(0) == "scalar");
  CHECK(best(VNR_CPU_AVX512) == "scalar");
  CHECK(best(kAvx2 & ~std::uint64_t{VNR_CPU_F16C}) == "scalar");
  CHECK(best(kAvx2) == avx2);
  CHECK(best(kAvx2 | VNR_CPU_AVX512) == avx512);
}

TEST_CASE("dispatch: every entry of every table that does not depend on a type is set", "[kernels]") {
  for (const kernels::Table* table : Tables()) {
    CHECK(table->quantize_activations != nullptr);
    CHECK(table->dot != nullptr);
    CHECK(table->dot_f16 != nullptr);
    CHECK(table->axpy != nullptr);
    CHECK(table->axpy_f16 != nullptr);
    CHECK(table->mul != nullptr);
    CHECK(table->add != nullptr);
    CHECK(table->to_f16 != nullptr);
    CHECK(table->rms_norm != nullptr);
    CHECK(table->silu_mul != nullptr);
    CHECK(table->softmax != nullptr);
    CHECK(table->rope != nullptr);
    CHECK(table->exp != nullptr);
  }
}

}  // namespace veneer::kernels_test
