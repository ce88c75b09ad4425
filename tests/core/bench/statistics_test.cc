#include "core/bench/statistics.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/support/catch.h"

using namespace veneer;

namespace {

std::vector<double> Counting(std::size_t n) {
  std::vector<double> values(n);
  std::iota(values.begin(), values.end(), 1.0);
  std::ranges::reverse(values);  // the order given must not matter
  return values;
}

}  // namespace

// Ranks from the table of sign-test intervals in any text on nonparametric statistics (confidence at least 95 %): n = 6: 1 and 6,
// 10: 2 and 9, 15: 4 and 12, 20: 6 and 15, 25: 8 and 18, 100: 40 and 61.
TEST_CASE("statistics: the interval of a median has the ranks of the sign test") {
  struct Row {
    std::size_t n;
    double low, high;
  };
  for (const Row& row : {Row{1, 1, 1}, Row{2, 1, 2}, Row{5, 1, 5}, Row{6, 1, 6}, Row{10, 2, 9}, Row{15, 4, 12}, Row{20, 6, 15},
                         Row{25, 8, 18}, Row{100, 40, 61}}) {
    INFO(row.n);
    const Interval interval = IntervalOf(Counting(row.n));
    CHECK(interval.low == row.low);
    CHECK(interval.high == row.high);
    CHECK(interval.median == static_cast<double>((row.n + 1) / 2));
  }
  const Interval many = IntervalOf(Counting(10'000));  // half the values less or more 0.98 sqrt(n)
  CHECK(many.low == Approx(4902).margin(1));
  CHECK(many.high == Approx(5099).margin(1));
}

TEST_CASE("statistics: the 99th percentile of 200 values is the third largest, of few the one before the largest") {
  CHECK(QuantilesOf(Counting(200)).p99_ms == 198);
  CHECK(QuantilesOf(Counting(200)).median_ms == 100);
  CHECK(QuantilesOf({3}).p99_ms == 3);
}
