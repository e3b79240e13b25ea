// SPDX-License-Identifier: Apache-2.0
#include "worker/results/reports.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include "base/text.h"
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

Outcome accept_report(Report& report, std::size_t counters, std::uint64_t samples) {
  const bool known = report.status == verification_failed || report.status == processors_changed ||
                     (report.status >= NP_OK && report.status <= NP_LOST);
  if (!known) return failed("sent a report with the status " + std::to_string(report.status));
  if (report.cause > static_cast<std::uint32_t>(Cause::peer_gone)) {
    return failed("sent a report with the cause " + std::to_string(report.cause));
  }
  if (report.status == NP_OK && (report.counters != counters || (report.losses != 0 && report.losses != samples))) {
    return failed("sent a report of " + std::to_string(report.counters) + " counters and " +
                  std::to_string(report.losses) + " losses, and its layer has " + std::to_string(counters) +
                  " counters and the visit " + std::to_string(samples) + " samples");
  }
  const std::string_view room(report.sentence, sizeof report.sentence - 1);
  const std::string clean = without_controls(room.substr(0, room.find('\0')));
  std::memset(report.sentence, 0, sizeof report.sentence);
  std::memcpy(report.sentence, clean.data(), clean.size());  // no longer than it was
  return ok();
}

void Reports::add(int rank, const Report& report) {
  statuses_.push_back(report.status);
  progress_[static_cast<std::size_t>(rank)] = report.progress;
  const bool echo = cause_of(report) == Cause::peer_gone;
  const std::uint64_t verified_bytes = worst_.verified_bytes + report.verified_bytes;
  const std::uint32_t paused_ms = std::max(worst_.paused_ms, report.paused_ms);
  const bool explains = report.status == processors_changed && worst_.status != processors_changed;
  if (report.status != NP_OK && (good() || (echo_ && !echo) || explains)) {
    worst_ = report;
    echo_ = echo;
  }
  worst_.verified_bytes = verified_bytes;
  worst_.paused_ms = paused_ms;
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
