// SPDX-License-Identifier: Apache-2.0
#include "engine/processes/hosted.h"

#include <unistd.h>

namespace netpipe {
namespace {

// What follows process_text and the blank behind it; place_ranks has read the three words before.
std::string address_in(const std::string& text) {
  std::size_t at = 0;
  for (int word = 0; word < 3 && at != std::string::npos; ++word) at = text.find(' ', word == 0 ? 0 : at + 1);
  return at == std::string::npos ? "" : text.substr(at + 1);
}

}  // namespace

Result<std::string> HostedProcess::address(Endpoint& endpoint) {
  Result<std::string> address = endpoint.address();
  if (!address) return address;
  // Its host is known already, and a name may have blanks in it.
  return process_text(endpoint.rank(), endpoint.nranks(), "-") + " " + *address;
}

Outcome HostedProcess::connect(Endpoint& endpoint, const std::vector<std::string>& addresses) {
  Result<Placement> placement = place_ranks(addresses, endpoint.module().name);
  if (!placement) return placement.failure();
  std::vector<std::string> by_rank;
  std::vector<bool> far;
  for (const int member : placement->member_of_rank) {
    by_rank.push_back(address_in(addresses[static_cast<std::size_t>(member)]));
    far.push_back(!far.empty());  // two hosts of one name have two clocks all the same, so all are compared
  }
  endpoint.place(std::move(placement->member_of_rank), std::move(far));
  return endpoint.connect(by_rank);
}

std::string HostedProcess::last_words(const StuckIn& where, const std::string& sentence) const {
  const std::string size = where.pattern != nullptr ? ", " + std::to_string(where.size_bytes) + " bytes" : "";
  return "netpipe-worker: rank " + std::to_string(rank_) + ", " + where.variant + size + ": " + sentence + "\n";
}

int HostedProcess::last_words_fd() const { return STDERR_FILENO; }

}  // namespace netpipe
