// SPDX-License-Identifier: Apache-2.0
#include "core/histogram.h"

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
}

}  // namespace netpipe
