// SPDX-License-Identifier: Apache-2.0
#include "sampling/histogram.h"

#include <algorithm>
#include <cmath>

namespace netpipe {

int Histogram::bucket_of(double ns) {
  int exponent = 0;
  const double mantissa = std::frexp(std::max(ns, 1e-6), &exponent);  // in [0.5, 1)
  return exponent * (1 << sub_bits) + static_cast<int>((mantissa - 0.5) * 2 * (1 << sub_bits));
}

double Histogram::lower_ns(int bucket) {
  const int octave = static_cast<int>(std::floor(static_cast<double>(bucket) / (1 << sub_bits)));
  const int sub = bucket - octave * (1 << sub_bits);
  return std::ldexp(0.5 + 0.5 * static_cast<double>(sub) / (1 << sub_bits), octave);
}

void Histogram::add(double ns, std::uint64_t count) {
  counts_[bucket_of(ns)] += count;
  total_ += count;
  sum_ns_ += ns * static_cast<double>(count);
  min_ns_ = std::min(min_ns_, ns);
  max_ns_ = std::max(max_ns_, ns);
}

void Histogram::add(const Histogram& other) {
  for (const auto& [bucket, count] : other.counts_) counts_[bucket] += count;
  total_ += other.total_;
  sum_ns_ += other.sum_ns_;
  min_ns_ = std::min(min_ns_, other.min_ns_);
  max_ns_ = std::max(max_ns_, other.max_ns_);
}

std::optional<double> Histogram::supported_quantile(double p) const {
  constexpr double needed_beyond = 10 - 1e-6;  // 1 - 0.9 is a little less than a tenth
  const auto all = static_cast<double>(total_);
  if (all * (1 - p) < needed_beyond) return std::nullopt;
  double below = 0;
  for (const auto& [bucket, count] : counts_) {
    const auto here = static_cast<double>(count);
    if (below + here >= all * p) {
      const double low = lower_ns(bucket);
      return low + (lower_ns(bucket + 1) - low) * (all * p - below) / here;
    }
    below += here;
  }
  return std::nullopt;
}

}  // namespace netpipe
