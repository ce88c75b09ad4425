// What is said of repeated measurements. Means and minima say nothing on a shared machine; medians and paired ratios do.
#ifndef VENEER_CORE_BENCH_STATISTICS_H_
#define VENEER_CORE_BENCH_STATISTICS_H_

#include <chrono>
#include <vector>

namespace veneer {

using BenchClock = std::chrono::steady_clock;
double MsSince(BenchClock::time_point start);

struct Quantiles {
  double median_ms = 0, p99_ms = 0;
};
Quantiles QuantilesOf(std::vector<double> ms);  // at least one

double MedianOf(std::vector<double> values);  // at least one; the lower of two middle ones

// A median with the interval that covers the true one in at least 95 of 100 series, by order statistics: nothing is assumed of the
// distribution. With fewer than 6 values it is their whole range.
struct Interval {
  double median = 0, low = 0, high = 0;
};
Interval IntervalOf(std::vector<double> values);  // at least one

}  // namespace veneer

#endif  // VENEER_CORE_BENCH_STATISTICS_H_
