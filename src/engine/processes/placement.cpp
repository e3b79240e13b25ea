// SPDX-License-Identifier: Apache-2.0
#include "engine/processes/placement.h"

#include "base/text.h"

namespace netpipe {

Placement::Local Placement::local(int rank, const std::string& host) const {
  Local local;
  for (std::size_t other = 0; other < host_of_rank.size(); ++other) {
    if (host_of_rank[other] != host) continue;
    ++local.count;
    if (static_cast<int>(other) < rank) ++local.index;
  }
  return local;
}

std::string process_text(int rank, int nranks, const std::string& host) {
  return std::to_string(rank) + " " + std::to_string(nranks) + " " + host;
}

Result<Placement> place_ranks(const std::vector<std::string>& texts, const std::string& module) {
  const std::size_t members = texts.empty() ? 0 : texts.size() - 1;
  Placement placement;
  placement.member_of_rank.assign(members, -1);
  placement.host_of_rank.assign(members, "");
  for (std::size_t member = 1; member < texts.size(); ++member) {
    const std::vector<std::string> words = split(texts[member], ' ');
    const Result<std::int64_t> rank = parse_integer(words[0]);
    const Result<std::int64_t> size = parse_integer(words.size() > 2 ? words[1] : "");
    if (!rank || !size) return failed("a process of " + module + " did not say which rank it is");
    if (*size == 1 && members > 1) {
      return usage("each of the " + std::to_string(members) + " processes of " + module +
                   " believes that it is alone: the launcher that started them belongs to another library; see "
                   "netpipe modules for the one that was added with it");
    }
    const auto at = static_cast<std::size_t>(*rank);
    if (*rank < 0 || at >= members || static_cast<std::size_t>(*size) != members || placement.member_of_rank[at] >= 0) {
      return failed("the " + std::to_string(members) + " processes of " + module +
                    " do not form one job: one is rank " + std::to_string(*rank) + " of " + std::to_string(*size));
    }
    placement.member_of_rank[at] = static_cast<int>(member);
    placement.host_of_rank[at] = words[2];
  }
  return placement;
}

}  // namespace netpipe
