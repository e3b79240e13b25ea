// SPDX-License-Identifier: Apache-2.0
// One rank's side of a measurement: its open variants, their memory, and how it carries out a command together with the
// other ranks.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "catalog/plan.h"
#include "engine/buffer_pool.h"
#include "engine/commands.h"
#include "engine/yardsticks.h"
#include "link/group.h"
#include "machine/footprint.h"

namespace netpipe {

struct RigSetting {
  Group* group = nullptr;
  const Plan* plan = nullptr;
  const Resolved* resolved = nullptr;
  Arena* arena = nullptr;     // shared by the ranks of one host, or nullptr
  std::string job;            // the same on all ranks, unguessable
  std::string local_address;  // numeric
  int cpu = -1;               // that this rank is pinned to
  bool oversubscribed = false;
  Cost loading;                 // of a library with a launcher, before it is opened
  int ranks_here = 1;           // in this process: all ranks of the job, where its library simulates them
  std::int64_t silence_ns = 0;  // how long rank 0 may be silent before this rank gives up; 0: as long as it lives
  int record_fd = -1;           // for the watchdog's last words; those of a job are for its launcher
  // A job's process: pins itself, as number `local` of `locals` of its job on this host, and says to which processor.
  std::function<Result<int>(int local, int locals)> settle;
};

// What opening a variant came to. Whether it did is the same on all ranks; what is in it is for rank 0.
struct Opening {
  int nranks = 0;
  double launch_s = -1;               // from the request to the launcher until all processes of a job had come
  np_limits limits{};                 // of rank 0
  std::string below;                  // the layer that it really stands on, where the module found that out
  std::vector<std::string> settings;  // by rank, JSON objects: the `ranks` of a `variant` record
};

// The processes of a job, which its library has numbered. texts: what each member of the group said of itself, the
// conductor first, who is none of them. by_rank: members of the group.
struct Placement {
  std::vector<int> by_rank;
  std::vector<std::string> hosts;  // by rank
};
Result<Placement> place_ranks(const std::vector<std::string>& texts, const std::string& module);

// Collective, as Rig::open, for the conductor of a job, who is member 0 of its group and opens nothing.
Result<Opening> open_job(Group& group, const Plan& plan, const Resolved& resolved, const Layer& module,
                         Placement& placement);

struct MemoryUse {
  std::uint64_t rss_bytes = 0;     // the most that was resident: a rank's part of its process
  std::uint64_t buffer_bytes = 0;  // the most that message buffers took, all open variants together
};

class Rig {
 public:
  explicit Rig(RigSetting setting);
  ~Rig();
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  // The life of every rank but 0: carries out commands until finish, or until rank 0 has gone.
  Outcome follow();

  // Collective: each rank opens the variant, they exchange addresses, connect and make buffers.
  Result<Opening> open(std::uint32_t variant);
  void close(std::uint32_t variant);
  // Counters of the variant on each rank, as JSON objects; empty when the module has none. Collective.
  Result<std::vector<std::string>> counters(std::uint32_t variant);

  // Collective. What this rank noted is in notes(): nothing, where its clock does not count.
  Report visit(const Command& command);
  [[nodiscard]] std::vector<std::int64_t>& notes() { return notes_; }

  Yardstick yardstick();

  [[nodiscard]] MemoryUse memory() const;
  [[nodiscard]] int ranks(std::uint32_t variant) const;

 private:
  struct Opened;
  Result<std::string> open_here(std::uint32_t variant);
  Outcome connect_here(std::uint32_t variant, const std::vector<std::string>& addresses);
  Outcome ready_here(std::uint32_t variant);
  Outcome reach_all_here(std::uint32_t variant);
  Outcome settle_here(std::uint32_t variant, const std::vector<std::string>& texts);
  Result<std::string> expose_here(std::uint32_t variant);
  Outcome attach_here(std::uint32_t variant, const std::vector<std::string>& keys);
  np_status synchronise(Opened& opened, Stage& stage);
  [[nodiscard]] std::uint64_t seed_of(const Command& command, const Pattern& pattern, const Part& part,
                                      std::uint64_t i) const;
  std::string describe_here(std::uint32_t variant) const;
  std::string counters_here(std::uint32_t variant) const;
  void prepare(const Command& command, Opened& opened, Stage& stage, std::uint64_t rounds) const;
  Report check(const Command& command, const Pattern& pattern, const Stage& stage, std::uint64_t rounds) const;
  [[nodiscard]] bool takes_part(std::uint32_t variant) const;
  [[nodiscard]] std::string error_line(const Command& command, const std::string& sentence) const;
  Failure fault(const Layer& module, const char* step, np_status status) const;

  RigSetting set_;
  std::vector<std::unique_ptr<Opened>> opened_;
  std::array<char, 256> message_{};  // where modules leave their sentence
  std::vector<std::int64_t> notes_;
  std::vector<std::int64_t> scratch_;  // for notes that do not count
  std::vector<np_request> requests_;
  std::vector<char> yard_memory_;
  std::uint64_t most_buffer_bytes_ = 0;
  std::shared_ptr<BufferPool> common_pool_;  // of all variants whose module has no memory of its own
};

std::string host_name();

}  // namespace netpipe
