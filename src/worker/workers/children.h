// SPDX-License-Identifier: Apache-2.0
// The processes of the ranks that netpipe forks on this host.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "link/group.h"

namespace netpipe {

class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  ~Children() { reap(); }

  // Makes ranks 1 to ranks - 1, connected to this process, which is rank 0: its group. In each of them life runs, with
  // standard input and output closed to it, and its value is the exit code of the process.
  Result<std::unique_ptr<Group>> fork_ranks(int ranks, const std::function<int(Group& group, int rank)>& life);

  // Gives them 2.5 s to end by themselves, then ends those that are left. Only after the group is gone, or they do not
  // know.
  void reap();

 private:
  std::vector<pid_t> pids_;
};

}  // namespace netpipe
