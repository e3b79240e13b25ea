// SPDX-License-Identifier: Apache-2.0
#include "engine/launched.h"

#include <unistd.h>

#include "base/host_name.h"
#include "engine/pinning.h"

namespace netpipe {

void LaunchedProcess::prepare(const Pinning& pin, const Cost& loading) {
  pin_ = pin;
  loading_ = loading;
}

Result<std::string> LaunchedProcess::address(Endpoint& endpoint) {
  if (Outcome known = endpoint.bootstrap(); !known) return known.failure();
  return process_text(endpoint.rank(), endpoint.nranks(), host_name());
}

Outcome LaunchedProcess::connect(Endpoint& endpoint, const std::vector<std::string>& addresses) {
  Result<Placement> placement = place_ranks(addresses, endpoint.module().name);
  if (!placement) return placement.failure();
  std::vector<bool> far;
  for (const std::string& host : placement->host_of_rank) far.push_back(host != placement->host_of_rank[0]);
  const Placement::Local local = placement->local(endpoint.rank(), host_name());
  endpoint.place(std::move(placement->member_of_rank), std::move(far));
  return settle(local);
}

Outcome LaunchedProcess::settle(const Placement::Local& local) {
  if (pin_.kind == Pinning::Kind::nearness && local.count != 2) {
    return usage("pin " + pin_text(pin_) + " places two ranks on one host, and here there " +
                 (local.count == 1 ? "is one" : "are " + std::to_string(local.count)) + "; name the processors");
  }
  const Result<std::vector<int>> cpus = choose_cpus(pin_, local.count);
  if (!cpus) return cpus.failure();
  cpu_ = (*cpus)[static_cast<std::size_t>(local.index)];
  return pin_to(cpu_);
}

np_status LaunchedProcess::after_visit(Endpoint& endpoint) {
  return endpoint.module().barrier != nullptr ? endpoint.module().barrier(endpoint.handle()) : NP_OK;
}

std::string LaunchedProcess::last_words(const StuckIn& where, const std::string& sentence) const {
  const std::string who = where.rank >= 0 ? "rank " + std::to_string(where.rank) : "a process";
  const std::string size = where.size_bytes != 0 ? ", " + std::to_string(where.size_bytes) + " bytes" : "";
  return "netpipe-worker: " + who + size + ": " + sentence + "\n";
}

int LaunchedProcess::last_words_fd() const { return STDERR_FILENO; }

}  // namespace netpipe
