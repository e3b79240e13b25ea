// SPDX-License-Identifier: Apache-2.0
// The reports of all ranks about one visit, made one. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/commands.h"
#include "netpipe/module.h"

namespace netpipe {

// Makes a report of another process fit to be used: a failure where it cannot be one, "" at the end of its sentence, no
// control character in it. counters: how many the layer has; samples: of the visit.
Outcome accept_report(Report& report, std::size_t counters, std::uint64_t samples);

class Reports {
 public:
  explicit Reports(int nranks) : progress_(static_cast<std::size_t>(nranks), 0) {}
  void add(int rank, const Report& report);
  [[nodiscard]] bool good() const { return worst_.status == NP_OK; }
  // The first report that is not good, with the bytes that all ranks verified, and the longest pause of a rank. A rank
  // that was only stopped because another had reported gives way to one that knows more, and all to one that was moved.
  // Where the deadline passed, the sentence ends with the rank that the others waited for.
  [[nodiscard]] Report joined() const;

 private:
  Report worst_;
  bool echo_ = false;  // worst_ is of a rank that was only stopped because another had reported
  std::vector<std::int32_t> statuses_;
  std::vector<std::uint64_t> progress_;  // by rank
};

}  // namespace netpipe
