// SPDX-License-Identifier: Apache-2.0
// What differs between the process models, as one rank's process sees it: forked here (forked.h), started by a
// library's launcher (launched.h) or by ssh or srun on another host (hosted.h), or one of many in the process of a
// simulator (engine/simulated/process.h). The rest of the engine asks no other question about where a process came
// from. The half of rank 0, or of a job's conductor, is src/worker/workers/workers.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "catalog/variant.h"
#include "engine/opening/endpoint.h"

namespace netpipe {

// A module that does not return, for the sentence that the watchdog leaves behind.
struct StuckIn {
  std::string variant;
  const char* pattern = nullptr;  // nullptr: opening the variant
  std::uint64_t size_bytes = 0;
  int rank = -1;  // -1: not known yet
};

class RankProcess {
 public:
  RankProcess() = default;
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;
  virtual ~RankProcess() = default;

  // Who the ranks are. Before a variant is open: {-1, 0} where only its library knows.
  struct Identity {
    int rank, nranks;
    int host_rank = 0;  // which of the ranks of its host this one is
  };
  [[nodiscard]] virtual Identity identity(const Variant& variant) const = 0;
  // How many members of the group take part in it, from member 0 on, a conductor included. whole: all members.
  [[nodiscard]] virtual int members(const Variant& variant, int whole) const = 0;

  // How addresses travel. address: what this rank tells all others once its endpoint is open. connect: what it does
  // with everybody's, by member of the group; it also settles where the rank runs (Endpoint::place, pinning).
  virtual Result<std::string> address(Endpoint& endpoint) = 0;
  virtual Outcome connect(Endpoint& endpoint, const std::vector<std::string>& addresses) = 0;
  [[nodiscard]] virtual int cpu() const = 0;  // that the rank is pinned to, -1: none

  // Between visits the process sleeps: what has to happen before, once a visit has ended well.
  virtual np_status after_visit(Endpoint& endpoint) = 0;

  // Which costs are known. in_process: ranks that share this process; of one of several neither its memory nor the time
  // that it took to open can be told.
  [[nodiscard]] virtual int in_process() const { return 1; }
  [[nodiscard]] virtual Cost loading() const { return {}; }  // of the library, before its variant opens
  // Ranks of this host whose message buffers have to fit into its memory together.
  [[nodiscard]] virtual int ranks_sharing(const Endpoint&) const { return 1; }
  [[nodiscard]] virtual bool computes() const { return true; }  // does computation take time here?

  // What the watchdog writes before it ends the process of a module that does not return, with its newline, and where.
  [[nodiscard]] virtual std::string last_words(const StuckIn& where, const std::string& sentence) const = 0;
  [[nodiscard]] virtual int last_words_fd() const = 0;
};

}  // namespace netpipe
