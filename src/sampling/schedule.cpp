// SPDX-License-Identifier: Apache-2.0
#include "sampling/schedule.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/text.h"

namespace netpipe {
namespace {

constexpr std::uint64_t largest = 1ULL << 62;  // far from overflow when an increment or an offset is added

std::vector<std::uint64_t> classic(const Schedule& s) {
  std::vector<std::uint64_t> sizes;
  const std::uint64_t p = s.perturbation_bytes;
  // A start above 1 begins with half of itself as the increment, and as if one step had been made.
  std::uint64_t increment = std::max<std::uint64_t>(s.start_bytes / 2, 1);
  std::uint64_t length = std::max<std::uint64_t>(s.start_bytes, 1);
  for (std::uint64_t step = length > 1 ? 1 : 0; length <= s.end_bytes; length += increment, ++step) {
    if (step > 2 && step % 2 == 1) increment *= 2;
    if (p > 0 && increment > p + 1) {
      if (length > p) sizes.push_back(length - p);
      sizes.push_back(length);
      sizes.push_back(length + p);
    } else {
      sizes.push_back(length);
    }
  }
  return sizes;
}

std::vector<std::uint64_t> powers(const Schedule& s) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t length = 1; length <= s.end_bytes; length *= 2) {
    if (length >= s.start_bytes) sizes.push_back(length);
  }
  return sizes;
}

// Whoever asks for less than an octave wants to know where in it something begins.
bool is_close(const Schedule& s) { return s.start_bytes < s.end_bytes && s.end_bytes < 2 * s.start_bytes; }

// So many gaps, which lie evenly over the bytes: to one byte where the range is no longer.
constexpr std::uint64_t close_gaps = 256, coarse_gaps = 8;

std::uint64_t close_size(const Schedule& s, std::uint64_t place, std::uint64_t gaps) {
  const std::uint64_t range = s.end_bytes - s.start_bytes;  // (range / gaps) * place does not overflow
  return s.start_bytes + range / gaps * place + range % gaps * place / gaps;
}

std::uint64_t gaps_of(const Schedule& s) { return std::min(s.end_bytes - s.start_bytes, close_gaps); }

std::vector<std::uint64_t> close(const Schedule& s) {
  std::vector<std::uint64_t> sizes;
  const std::uint64_t gaps = gaps_of(s);
  for (std::uint64_t place = 0; place <= gaps; ++place) sizes.push_back(close_size(s, place, gaps));
  return sizes;
}

std::vector<std::uint64_t> adaptive(const Schedule& s) {
  if (is_close(s)) return close(s);
  constexpr int steps = 16;
  std::vector<std::uint64_t> sizes = {s.start_bytes, s.end_bytes};
  for (std::uint64_t octave = 1; octave <= s.end_bytes; octave *= 2) {
    for (int step = 0; step < steps; ++step) {
      const auto size = static_cast<std::uint64_t>(std::llround(static_cast<double>(octave) * std::exp2(step / 16.0)));
      if (size >= s.start_bytes && size <= s.end_bytes) sizes.push_back(size);
    }
  }
  return sizes;
}

}  // namespace

bool is_coarse(const Schedule& schedule, std::uint64_t size_bytes) {
  if (is_close(schedule)) {
    const std::uint64_t gaps = gaps_of(schedule);
    for (std::uint64_t i = 0; i <= coarse_gaps; ++i) {
      if (size_bytes == close_size(schedule, gaps * i / coarse_gaps, gaps)) return true;
    }
    return false;
  }
  return std::has_single_bit(size_bytes) || size_bytes == schedule.start_bytes || size_bytes == schedule.end_bytes;
}

Result<std::vector<std::uint64_t>> sizes_of(const Schedule& s) {
  std::vector<std::uint64_t> sizes = s.list;
  if (s.kind != Schedule::Kind::list) {
    if (s.end_bytes < s.start_bytes) {
      return usage("the schedule ends at " + size_text(s.end_bytes) + " bytes, below its start at " +
                   size_text(s.start_bytes) + "; give an end that is not smaller");
    }
    if (s.end_bytes > largest) return usage("the schedule ends above 4 EiB");
    if (s.perturbation_bytes > largest) return usage("the perturbation is above 4 EiB");
    sizes = s.kind == Schedule::Kind::classic ? classic(s) : s.kind == Schedule::Kind::powers ? powers(s) : adaptive(s);
    if (s.start_bytes == 0) sizes.push_back(0);  // an empty message, and then as from 1 byte on
  }
  if (sizes.empty()) {
    return usage("the schedule has no sizes: the list is empty, or there is no power of two from " +
                 size_text(s.start_bytes) + " to " + size_text(s.end_bytes) + " bytes");
  }
  std::sort(sizes.begin(), sizes.end());
  const bool as_given = s.kind == Schedule::Kind::list;
  if (!as_given) sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (sizes.back() > largest) return usage("a size above 4 EiB is in the schedule");
  return sizes;
}

}  // namespace netpipe
