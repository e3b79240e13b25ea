// SPDX-License-Identifier: Apache-2.0
// A log-bucketed histogram of durations: relative error below 1/128, in the manner of HdrHistogram. docs/method.md says
// why.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>

namespace netpipe {

class Histogram {
 public:
  static constexpr int sub_bits = 7;                           // buckets per octave: 128
  static constexpr double resolution = 1.0 / (1 << sub_bits);  // width of a bucket over its lower edge

  void add(double ns, std::uint64_t count = 1);
  void add(const Histogram& other);
  // The value that a share p of all lie below, as far as the buckets tell; at least ten must lie beyond it.
  [[nodiscard]] std::optional<double> supported_quantile(double p) const;
  // Lower edge of a bucket, in ns.
  static double lower_ns(int bucket);
  static int bucket_of(double ns);
  [[nodiscard]] const std::map<int, std::uint64_t>& counts() const { return counts_; }
  [[nodiscard]] std::uint64_t total() const { return total_; }
  // Exact, of what was added; of nothing they say nothing.
  [[nodiscard]] double min_ns() const { return min_ns_; }
  [[nodiscard]] double max_ns() const { return max_ns_; }
  [[nodiscard]] double mean_ns() const { return sum_ns_ / static_cast<double>(total_); }

 private:
  std::map<int, std::uint64_t> counts_;  // sparse: a point fills a few dozen of thousands of buckets
  std::uint64_t total_ = 0;
  double sum_ns_ = 0;
  double min_ns_ = std::numeric_limits<double>::infinity();
  double max_ns_ = -std::numeric_limits<double>::infinity();
};

}  // namespace netpipe
