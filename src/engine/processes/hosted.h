// SPDX-License-Identifier: Apache-2.0
// Started on its host by ssh or srun: one of the ranks of netpipe's own layers, which knows its number from the
// start. The conductor, who is member 0 of the group and no rank, tells it what to do.
#pragma once

#include "engine/processes/placement.h"
#include "engine/processes/process.h"

namespace netpipe {

class HostedProcess final : public RankProcess {
 public:
  // cpu: that this process is pinned to, -1: none. local: where it stands among the ranks of its host.
  HostedProcess(int rank, int cpu, Placement::Local local) : rank_(rank), cpu_(cpu), local_(local) {}

  [[nodiscard]] Identity identity(const Variant& variant) const override {
    return {rank_, variant.ranks, local_.index};
  }
  [[nodiscard]] int members(const Variant&, int whole) const override { return whole; }
  // The conductor reads which rank this is, and the others what their module needs.
  Result<std::string> address(Endpoint& endpoint) override;
  Outcome connect(Endpoint& endpoint, const std::vector<std::string>& addresses) override;
  [[nodiscard]] int cpu() const override { return cpu_; }
  np_status after_visit(Endpoint&) override { return NP_OK; }
  [[nodiscard]] int ranks_sharing(const Endpoint&) const override { return local_.count; }
  // A line for ssh or srun, whose output the conductor quotes.
  [[nodiscard]] std::string last_words(const StuckIn& where, const std::string& sentence) const override;
  [[nodiscard]] int last_words_fd() const override;

 private:
  int rank_, cpu_;
  Placement::Local local_;
};

}  // namespace netpipe
