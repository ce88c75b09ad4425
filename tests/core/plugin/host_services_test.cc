#include "core/plugin/host_services.h"

#include <cstdlib>
#include <optional>
#include <string>

#include "kernels/kernels.h"
#include "tests/support/catch.h"

namespace {

// Sets VENEER_FORCE_ISA and puts it back.
class ForcedIsa {
 public:
  explicit ForcedIsa(const char* isa) {
    if (const char* before = std::getenv("VENEER_FORCE_ISA")) before_ = before;
    isa == nullptr ? unsetenv("VENEER_FORCE_ISA") : setenv("VENEER_FORCE_ISA", isa, 1);
  }
  ~ForcedIsa() { before_ ? setenv("VENEER_FORCE_ISA", before_->c_str(), 1) : unsetenv("VENEER_FORCE_ISA"); }
  ForcedIsa(const ForcedIsa&) = delete;
  ForcedIsa& operator=(const ForcedIsa&) = delete;

 private:
  std::optional<std::string> before_;
};

std::uint64_t Features(const char* isa) {
  const ForcedIsa forced(isa);
  veneer::MemoryBudget budget(1024);
  const veneer::HostServices services(budget, {});
  return services.raw()->cpu_features;
}

constexpr std::uint64_t kAvx2 = VNR_CPU_AVX2 | VNR_CPU_FMA | VNR_CPU_F16C;

}  // namespace

TEST_CASE("host services: a plugin sees no instruction set beyond the one that VENEER_FORCE_ISA names") {
  CHECK(Features("scalar") == 0);
  CHECK(Features("no-such-isa") == 0);
  const auto has = [](const char* isa) {
    const ForcedIsa forced(isa);
    return veneer::kernels::Select() != nullptr;
  };
  const bool has_avx2 = has("avx2");
  CHECK(Features("avx2") == (has_avx2 ? kAvx2 : 0));  // and no AVX-512 either
  CHECK(Features("avx512") == (has("avx512") ? kAvx2 | VNR_CPU_AVX512 : 0));
  CHECK((Features(nullptr) & kAvx2) == (has_avx2 ? kAvx2 : 0));
  CHECK(Features("") == Features(nullptr));
}
