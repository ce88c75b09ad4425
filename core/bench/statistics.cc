#include "core/bench/statistics.h"

#include <algorithm>
#include <cmath>

namespace veneer {

double MsSince(BenchClock::time_point start) { return std::chrono::duration<double, std::milli>(BenchClock::now() - start).count(); }

Quantiles QuantilesOf(std::vector<double> ms) {
  std::ranges::sort(ms);
  const std::size_t last = ms.size() - 1;
  return {ms[last / 2], ms[last * 99 / 100]};
}

double MedianOf(std::vector<double> values) { return IntervalOf(std::move(values)).median; }

// The median lies between the k-th smallest and the k-th largest value unless fewer than k of n values fall on one side of it, whose
// probability is twice the sum of binomial(n, i) / 2^n over i < k.
Interval IntervalOf(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t n = values.size();
  double term = std::exp2(-static_cast<double>(n)), outside = 0;  // term: binomial(n, k) / 2^n; 0 by underflow above 1000 values
  std::size_t k = 0;
  for (; k < n / 2 && outside + 2 * term <= 0.05; ++k) {
    outside += 2 * term;
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
  }
  if (n > 1000) k = static_cast<std::size_t>(static_cast<double>(n) / 2 - 0.98 * std::sqrt(static_cast<double>(n)));  // normal
  const std::size_t low = k == 0 ? 0 : k - 1;
  return {values[(n - 1) / 2], values[low], values[n - 1 - low]};
}

}  // namespace veneer
