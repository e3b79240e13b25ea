// SPDX-License-Identifier: Apache-2.0
// Started by a library's launcher (mpirun, oshrun): one process of a job. Its library says which rank it is once the
// variant is open, and the conductor, who is member 0 of the group and no rank, tells it what to do.
#pragma once

#include "engine/processes/placement.h"
#include "engine/processes/process.h"
#include "plan/plan.h"

namespace netpipe {

class LaunchedProcess : public RankProcess {
 public:
  // Before its variant opens. loading: what loading the module, and with it the library, cost this process.
  void prepare(const Pinning& pin, const Cost& loading);

  [[nodiscard]] Identity identity(const Variant&) const override { return {-1, 0}; }
  [[nodiscard]] int members(const Variant&, int whole) const override { return whole; }
  Result<std::string> address(Endpoint& endpoint) override;
  // Pins this process by its number among those of this host, which only now is known.
  Outcome connect(Endpoint& endpoint, const std::vector<std::string>& addresses) override;
  [[nodiscard]] int cpu() const override { return cpu_; }
  // A library may move bytes only while it is called (buffered sends, queues that were full): nobody leaves before
  // everybody has everything.
  np_status after_visit(Endpoint& endpoint) override;
  [[nodiscard]] Cost loading() const override { return loading_; }
  // A line for the launcher, whose output the conductor quotes.
  [[nodiscard]] std::string last_words(const StuckIn& where, const std::string& sentence) const override;
  [[nodiscard]] int last_words_fd() const override;

 private:
  Outcome settle(const Placement::Local& local);
  Pinning pin_;
  Cost loading_;
  int cpu_ = -1;
};

}  // namespace netpipe
