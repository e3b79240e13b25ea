// SPDX-License-Identifier: Apache-2.0
// Forked here: netpipe made the ranks of this host itself, any number of them, so a process knows its rank from the
// start. Between two hosts there is one rank on each.
#pragma once

#include "engine/processes/process.h"
#include "plan/plan.h"

namespace netpipe {

class ForkedProcess final : public RankProcess {
 public:
  struct Setting {
    const Plan* plan = nullptr;
    int rank = 0;
    int cpu = -1;          // that this process is pinned to
    bool one_host = true;  // all ranks share a host and its clock
    int record_fd = -1;    // the run file, for the watchdog's last words
  };
  explicit ForkedProcess(Setting setting) : set_(setting) {}

  [[nodiscard]] Identity identity(const Variant& variant) const override;
  // None in a variant whose ranks a launcher starts.
  [[nodiscard]] int members(const Variant& variant, int) const override {
    return launched(*variant.module) ? 0 : identity(variant).nranks;
  }
  Result<std::string> address(Endpoint& endpoint) override;
  Outcome connect(Endpoint& endpoint, const std::vector<std::string>& addresses) override;
  [[nodiscard]] int cpu() const override { return set_.cpu; }
  np_status after_visit(Endpoint&) override { return NP_OK; }
  [[nodiscard]] int ranks_sharing(const Endpoint& endpoint) const override;
  // An `error` record.
  [[nodiscard]] std::string last_words(const StuckIn& where, const std::string& sentence) const override;
  [[nodiscard]] int last_words_fd() const override { return set_.record_fd; }

 private:
  Setting set_;
};

}  // namespace netpipe
