// SPDX-License-Identifier: Apache-2.0
#include "engine/processes/forked.h"

#include <numeric>

#include "base/host_name.h"
#include "record/error_record.h"

namespace netpipe {

RankProcess::Identity ForkedProcess::identity(const Variant& variant) const {
  return {set_.rank, variant.ranks, set_.one_host ? set_.rank : 0};
}

Result<std::string> ForkedProcess::address(Endpoint& endpoint) {
  const auto count = static_cast<std::size_t>(endpoint.nranks());
  std::vector<int> members(count);  // rank r is member r of the group
  std::iota(members.begin(), members.end(), 0);
  std::vector<bool> far(count, !set_.one_host);
  far[0] = false;
  endpoint.place(std::move(members), std::move(far));
  return endpoint.address();
}

Outcome ForkedProcess::connect(Endpoint& endpoint, const std::vector<std::string>& addresses) {
  return endpoint.connect(addresses);
}

int ForkedProcess::ranks_sharing(const Endpoint& endpoint) const { return set_.one_host ? endpoint.nranks() : 1; }

std::string ForkedProcess::last_words(const StuckIn& where, const std::string& sentence) const {
  return to_json({.launch = set_.plan->launch,
                  .variant = where.variant,
                  .pattern = where.pattern,
                  .size_bytes = where.size_bytes,
                  .rank = where.rank,
                  .host = host_name(),
                  .code = Exit::failed,
                  .message = sentence}) +
         "\n";
}

}  // namespace netpipe
