#include <cstdlib>
#include <string>

#include "kernels/kernels.h"
#include "tests/kernels/oracle.h"
#include "tests/support/catch.h"

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
  for (const char* name : {"avx", "AVX2", "scalar ", "avx512", "none"}) {
    const ForcedIsa forced(name);
    CHECK(kernels::Select() == nullptr);
  }
}

#if defined(__x86_64__)
TEST_CASE("dispatch: avx2 is offered exactly when the compiler's own check finds AVX2, FMA and F16C", "[kernels]") {
  const bool expected = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  CHECK((std::string(Tables().front()->isa) == "avx2") == expected);  // every processor with AVX2 has F16C
}
#endif

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
