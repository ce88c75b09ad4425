// kernels/onednn: numbers against f64, and the rules of DESIGN 5 for calling it from host threads.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "kernels/onednn/matmul.h"
#include "tests/plugins/harness.h"
#include "tests/support/catch.h"

using namespace plugin_test;
using veneer::kernels::onednn::Matmul;

namespace {

std::ptrdiff_t Threads() { return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}); }

struct Scratch {
  explicit Scratch(std::uint64_t bytes) : data(std::aligned_alloc(64, (bytes / 64 + 1) * 64)) {}
  ~Scratch() { std::free(data); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data;
};

}  // namespace

TEST_CASE("onednn matmul: both layouts of b, plain and accumulating, odd strides, any number of tokens: within g(k + 1) of f64") {
  std::mt19937 rng(73);
  for (const bool is_transposed : {false, true})
    for (const bool accumulate : {false, true})
      for (const auto& [k, n] : {std::pair<std::uint64_t, std::uint64_t>{1, 1}, {7, 5}, {64, 33}, {500, 64}}) {
        const auto product = Matmul::Create({k, n, is_transposed, accumulate});
        REQUIRE(product);
        const Scratch scratch(product->scratch_bytes());
        for (const std::uint32_t tokens : {1U, 2U, 8U, 31U, 32U}) {
          const std::uint64_t a_stride = k + 3, c_stride = n + 5;
          const std::vector<float> a = RandomFloats(rng, tokens * a_stride), b = RandomFloats(rng, k * n);
          const std::vector<float> before = RandomFloats(rng, tokens * c_stride);
          std::vector<float> c = before;
          REQUIRE(product->Run(tokens, a.data(), a_stride, b.data(), c.data(), c_stride, scratch.data));
          for (std::uint32_t t = 0; t < tokens; ++t)
            for (std::uint64_t j = 0; j < c_stride; ++j) {
              const float found = c[t * c_stride + j], old = before[t * c_stride + j];
              if (j >= n) {
                REQUIRE(found == old);  // beside the product
                continue;
              }
              double exact = accumulate ? static_cast<double>(old) : 0, magnitude = std::abs(exact);
              for (std::uint64_t i = 0; i < k; ++i) {
                const double term =
                    static_cast<double>(a[t * a_stride + i]) * static_cast<double>(b[is_transposed ? j * k + i : i * n + j]);
                exact += term;
                magnitude += std::abs(term);
              }
              REQUIRE(std::abs(static_cast<double>(found) - exact) <= static_cast<double>(k + 2) * 0x1p-24 * magnitude);
            }
        }
      }
}

TEST_CASE("onednn matmul: neither creating nor running starts a thread, however large the product") {
  const std::uint64_t k = 1024, n = 64;
  const std::uint32_t tokens = 256;
  const auto product = Matmul::Create({k, n, true, false});
  REQUIRE(product);
  const std::vector<float> a(tokens * k, 1.0F), b(k * n, 0.5F);
  std::vector<float> c(tokens * n);
  const Scratch scratch(product->scratch_bytes());
  REQUIRE(product->Run(tokens, a.data(), k, b.data(), c.data(), n, scratch.data));
  CHECK(c[0] == 512.0F);
  CHECK(Threads() == 1);  // no test leaves one behind, and a team would stay
}
