#include "core/bench/kernel_bench.h"

#include <algorithm>

#include "tests/support/catch.h"

using namespace veneer;

TEST_CASE("bench kernels: every type that a table multiplies is measured once, by its name") {
  const kernels::TableList tables = kernels::Runnable();
  for (std::size_t i = 0; i < tables.count; ++i) {
    const kernels::Table& table = *tables.tables[i];
    CAPTURE(table.isa);
    const auto results = BenchKernels(table, {.bytes = 1 << 18, .threads = 2, .tokens = 6, .runs = 1});
    REQUIRE(results);
    CHECK(static_cast<std::ptrdiff_t>(results->size()) ==
          std::ranges::count_if(table.dot_rows, [](auto kernel) { return kernel != nullptr; }));
    for (const KernelResult& result : *results) {
      CAPTURE(result.type);
      CHECK(result.is_integer == (result.type.starts_with("q") || result.type == "iq4_nl"));
      CHECK(result.gb_per_s > 0);
      CHECK(result.control_gb_per_s > 0);
      CHECK(result.gop_per_s > 0);
    }
  }
}
