// SPDX-License-Identifier: Apache-2.0
// Which member of a job's group is which rank, and on which host. The library numbers the ranks; netpipe numbered the
// processes in the order in which they joined.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace netpipe {

struct Placement {
  std::vector<int> member_of_rank;
  std::vector<std::string> host_of_rank;

  [[nodiscard]] int nranks() const { return static_cast<int>(member_of_rank.size()); }
  // How many ranks run on this host, and how many of them have a lower number than this rank.
  struct Local {
    int index = 0, count = 0;
  };
  [[nodiscard]] Local local(int rank, const std::string& host) const;
};

// What one process tells the others about itself.
std::string process_text(int rank, int nranks, const std::string& host);

// texts: by member of the group. Member 0 is the conductor and not a rank; its text is not read. The failure says
// which processes do not belong together (Exit::usage where the launcher belongs to another library).
Result<Placement> place_ranks(const std::vector<std::string>& texts, const std::string& module);

}  // namespace netpipe
