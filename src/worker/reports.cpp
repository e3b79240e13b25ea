// SPDX-License-Identifier: Apache-2.0
#include "worker/reports.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>

#include "engine/watchdog.h"

namespace netpipe {
namespace {

Cause cause_of(const Report& report) { return static_cast<Cause>(report.cause); }

// The rank that the others waited for, as the end of a sentence; "" where their progress does not tell.
std::string laggard(const std::vector<std::uint64_t>& progress) {
  const auto [least, most] = std::minmax_element(progress.begin(), progress.end());
  if (*least == *most) return {};
  const std::uint64_t operation = *least / 2 + 1;
  return "; the others waited for rank " + std::to_string(least - progress.begin()) + ", which " +
         (*least % 2 == 0 ? "had not begun operation " : "did not come back from operation ") +
         std::to_string(operation) + " of this visit";
}

}  // namespace

void Reports::add(int rank, const Report& report) {
  statuses_.push_back(report.status);
  progress_[static_cast<std::size_t>(rank)] = report.progress;
  const bool echo = cause_of(report) == Cause::peer_gone;
  const std::uint64_t verified_bytes = worst_.verified_bytes + report.verified_bytes;
  if (report.status != NP_OK && (good() || (echo_ && !echo))) {
    worst_ = report;
    echo_ = echo;
  }
  worst_.verified_bytes = verified_bytes;
}

Report Reports::joined() const {
  Report report = worst_;
  report.unanimous = std::adjacent_find(statuses_.begin(), statuses_.end(), std::not_equal_to<>()) == statuses_.end();
  if (!good() && cause_of(report) == Cause::deadline) {
    const std::size_t length = std::char_traits<char>::length(report.sentence);
    std::snprintf(report.sentence + length, sizeof report.sentence - length, "%s", laggard(progress_).c_str());
  }
  return report;
}

}  // namespace netpipe
