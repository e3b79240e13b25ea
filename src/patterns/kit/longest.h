// SPDX-License-Identifier: Apache-2.0
// The search for the most of something that does not yet make something else longer, from times that are noisy.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

namespace netpipe {

// Reorders the values. Of an even number the upper one of the two in the middle.
inline std::int64_t median_of(std::span<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// How much longer something may be that counts as no longer, ns. alike: how far pairs of the same thing are apart; of
// 2.5 times their median the median of five differences without a cause is hardly ever more. least: at any rate.
inline std::int64_t tolerance_of(std::span<std::int64_t> alike, double least) {
  for (std::int64_t& apart : alike) apart = apart < 0 ? -apart : apart;
  return std::llround(std::max(2.5 * static_cast<double>(median_of(alike)), least));
}

// The middle of what is left after so many steps of bisection between 0 and most. lengthens(x): whether so much does.
template <typename Lengthens>
double longest_unnoticed(double most, std::uint32_t steps, const Lengthens& lengthens) {
  double low = 0, high = most;
  for (std::uint32_t step = 0; step < steps; ++step) {
    const double middle = (low + high) / 2;
    (lengthens(middle) ? high : low) = middle;
  }
  return (low + high) / 2;
}

}  // namespace netpipe
