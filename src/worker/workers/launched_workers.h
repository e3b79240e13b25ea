// SPDX-License-Identifier: Apache-2.0
// The processes of a job, which a launcher started. This process conducts the job and is no rank of it. A library's job
// measures one variant; that of netpipe's own layers (hosted_workers.h) measures all of theirs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "link/reception.h"
#include "link/rendezvous.h"
#include "plan/plan.h"
#include "worker/workers/launcher_io.h"
#include "worker/workers/workers.h"

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

class LaunchedWorkers : public Workers {
 public:
  // variants: of the plan, which the processes measure.
  LaunchedWorkers(JobServer& server, const Plan& plan, const Resolved& resolved, std::vector<std::uint32_t> variants)
      : server_(server), plan_(plan), resolved_(resolved), variants_(std::move(variants)) {}
  Result<Opening> open(std::uint32_t variant) override;
  Result<Report> visit(const Command& command, Gathered& gathered) override;
  Result<std::vector<std::string>> close(std::uint32_t variant) override;
  MemoryUse finish() override;
  void abandon() override;
  [[nodiscard]] bool replaceable() const override { return true; }

 protected:
  // Requests so many processes and welcomes them: the group is there.
  Outcome start(int ranks);
  Result<Opening> conduct(std::uint32_t variant);
  [[nodiscard]] Failure with_last_words(const Failure& failure) const;

  // A process that has proved the secret. words: what it says beside the number of its job. A failure ends the start.
  virtual Outcome admit(const std::string& words, Caller process);
  // What a start that failed comes to, and what to do where processes do not come.
  [[nodiscard]] virtual Exit lack() const { return Exit::failed; }
  [[nodiscard]] virtual std::string remedy() const {
    return "try the launcher by hand: netpipe modules shows its command";
  }
  // The variant and the module that the request names.
  [[nodiscard]] virtual std::pair<std::string, std::string> requested() const;

  [[nodiscard]] const JobServer& server() const { return server_; }
  [[nodiscard]] const Plan& plan() const { return plan_; }
  // nullptr: no process is there.
  [[nodiscard]] Group* group() const { return group_.get(); }
  // Connections, in the order of their members, until the group has them.
  [[nodiscard]] std::map<int, Caller>& joined() { return joined_; }

 private:
  Result<Opening> open_new(std::uint32_t variant);
  void request(int ranks, const std::string& secret);
  Outcome gather(int ranks);
  Outcome admit_one(Caller caller);
  Outcome welcome();
  [[nodiscard]] std::string plan_there() const;
  // What the processes know the variant by: its number in the plan that they receive.
  [[nodiscard]] std::uint32_t number_there(std::uint32_t variant) const;

  JobServer& server_;
  const Plan& plan_;
  const Resolved& resolved_;
  const std::vector<std::uint32_t> variants_;
  int job_ = -1;  // number of this job in the run
  std::map<int, Caller> joined_;
  std::unique_ptr<Group> group_;
  Placement placement_;
};

}  // namespace netpipe
