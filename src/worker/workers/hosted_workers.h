// SPDX-License-Identifier: Apache-2.0
// Processes on the hosts of the plan, which ssh or srun started for all variants of netpipe's own layers that have so
// many ranks.
#pragma once

#include <optional>

#include "worker/workers/launched_workers.h"

namespace netpipe {

class HostedWorkers final : public LaunchedWorkers {
 public:
  HostedWorkers(JobServer& server, const Plan& plan, const Resolved& resolved, int ranks);

  // What a process says before its first variant opens.
  struct Host {
    int cpu = -1;             // that it is pinned to
    std::string environment;  // record of its host; "": another rank's is of the same host
  };
  // Starts the processes. By rank. Exit::unavailable: a host cannot be reached, or netpipe is missing there or another
  // version; nothing is left of the job then.
  Result<std::vector<Host>> begin();

  Result<Opening> open(std::uint32_t variant) override;
  Result<Report> visit(const Command& command, Gathered& gathered) override;
  Result<std::vector<std::string>> close(std::uint32_t variant) override;
  // The other variants go on with the same processes. Where these were lost, that has been seen to.
  void abandon() override {}
  [[nodiscard]] bool replaceable() const override { return false; }

 protected:
  Outcome admit(const std::string& words, Caller process) override;
  [[nodiscard]] Exit lack() const override { return Exit::unavailable; }
  [[nodiscard]] std::string remedy() const override;
  [[nodiscard]] std::pair<std::string, std::string> requested() const override { return {}; }

 private:
  Result<std::vector<Host>> hear();
  void lose();

  const int ranks_;
  std::vector<std::string> names_;  // of the hosts, by rank
};

}  // namespace netpipe
