// SPDX-License-Identifier: Apache-2.0
// The processes of a job, which a library's launcher started for one variant. This process conducts the job and is no
// rank of it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "catalog/plan.h"
#include "link/rendezvous.h"
#include "worker/launcher_io.h"
#include "worker/workers.h"

namespace netpipe {

// Where the processes of all jobs join, and how jobs are requested.
struct JobServer {
  Listener listener;
  std::string job;                                // the same on all ranks of the run, unguessable
  LauncherInput* input = nullptr;                 // says when a launcher has failed
  std::function<void(const std::string&)> event;  // asks the Python side to start or stop a job
  const Registry* registry = nullptr;
  int jobs = 0;  // requested so far
};

class LaunchedWorkers final : public Workers {
 public:
  LaunchedWorkers(JobServer& server, const Plan& plan, const Resolved& resolved)
      : server_(server), plan_(plan), resolved_(resolved) {}
  Result<Opening> open(std::uint32_t variant) override;
  Result<Report> visit(const Command& command, Gathered& gathered) override;
  Result<std::vector<std::string>> close(std::uint32_t variant) override;
  MemoryUse finish() override;
  void abandon() override;
  [[nodiscard]] bool replaceable() const override { return true; }

 private:
  Result<Opening> open_new(std::uint32_t variant);
  void request(std::uint32_t variant, int ranks, const std::string& secret);
  Outcome gather(std::uint32_t variant, int ranks);
  void admit_one(const std::string& secret);
  Outcome welcome(std::uint32_t variant);
  [[nodiscard]] Failure with_last_words(const Failure& failure) const;
  [[nodiscard]] std::string plan_of(std::uint32_t variant) const;

  JobServer& server_;
  const Plan& plan_;
  const Resolved& resolved_;
  int job_ = -1;  // number of this job in the run
  struct Joined {
    Descriptor fd;
    FrameKeys keys;
  };
  std::vector<Joined> joined_;  // connections, until the group has them
  std::unique_ptr<Group> group_;
  Placement placement_;
};

}  // namespace netpipe
