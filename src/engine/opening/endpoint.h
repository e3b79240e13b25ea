// SPDX-License-Identifier: Apache-2.0
// One open variant on one rank: what its module gave, the memory of its messages, and what opening it cost. Every step
// of an opening is local to this rank; opening.h says in which order the ranks take the steps.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "catalog/variant.h"
#include "engine/memory/buffer_pool.h"
#include "engine/opening/opening_text.h"
#include "machine/footprint.h"

namespace netpipe {

struct EndpointSetting {
  const Variant* variant = nullptr;
  int rank = -1;  // -1 and 0 ranks: the library says so once it is open
  int nranks = 0;
  int host_rank = 0;  // which of the ranks of its host
  std::string job;    // unguessable and the same on all ranks of this variant
  std::string local_address;
  std::uint64_t max_bytes = 0;
  std::int64_t timeout_ns = 0;
  bool oversubscribed = false;
  int ranks_in_process = 1;
};

class Endpoint {
 public:
  // Opens the module's endpoint. The failure names the module, as it does in every step below.
  static Result<std::unique_ptr<Endpoint>> open(EndpointSetting setting);
  ~Endpoint();  // withdraws the memory and closes the endpoint
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  [[nodiscard]] const Layer& module() const { return module_; }
  [[nodiscard]] np_endpoint* handle() const { return handle_; }
  [[nodiscard]] int rank() const { return context_.rank; }
  [[nodiscard]] int nranks() const { return context_.nranks; }
  [[nodiscard]] const np_limits& limits() const { return limits_; }
  [[nodiscard]] BufferPool& pool() const { return *pool_; }
  [[nodiscard]] bool has_own_pool(const BufferPool* common) const { return pool_ != nullptr && pool_.get() != common; }
  // Is the clock of this rank another than that of rank 0?
  [[nodiscard]] bool far(int rank) const { return far_[static_cast<std::size_t>(rank)]; }
  // The peer's regions, where its messages land and where they start; nullptr where nothing was attached.
  [[nodiscard]] const np_region* far_in() const { return attached_.empty() ? nullptr : attached_.data(); }
  [[nodiscard]] const np_region* far_out() const { return attached_.empty() ? nullptr : &attached_[1]; }
  [[nodiscard]] const std::string& unreachable() const { return unreachable_; }  // why nothing was attached
  // Where the module leaves its sentence; an empty one before a call that may fail.
  [[nodiscard]] std::span<char> message() { return message_; }
  void clear_message() { message_[0] = '\0'; }
  [[nodiscard]] const char* detail(np_status status) const;  // the module's sentence, or what the status means
  [[nodiscard]] Failure fault(const char* step, np_status status) const;

  // What the others need to connect to it; "" where the module needs nothing.
  Result<std::string> address();
  // Asks the library which rank this is; the rank and the number of ranks are known afterwards.
  Outcome bootstrap();
  // Who the ranks are: by rank the member of the group, and whether its clock is another than that of rank 0.
  void place(std::vector<int> member_of_rank, std::vector<bool> far);
  // addresses: by rank.
  Outcome connect(const std::vector<std::string>& addresses);
  // Reads the limits.
  Outcome ask_limits();
  // Where the places of messages begin: what the layer asks for, or a line of the caches.
  [[nodiscard]] std::uint64_t alignment() const { return std::max<std::uint64_t>(limits_.alignment, line_bytes); }
  // Makes the buffers. common: the pool of all variants that want no memory, alignment or pages of their own, made by
  // the first of them. ranks_sharing: ranks of this host that make such a pool out of the same memory.
  Outcome make_buffers(const PoolNeed& need, int ranks_sharing, std::shared_ptr<BufferPool>& common);
  // Opens both halves of the pool to peers. Their keys; "" where the layer cannot do this.
  Result<std::string> expose();
  // Attaches to the memory of the mirrored rank. keys: by member of the group. All ranks read the same keys and come to
  // the same conclusion.
  Outcome attach(const std::vector<std::string>& keys);
  // What it costs until all ranks have met in one barrier and nothing else, where the module has one, as in the barrier
  // program of Liu et al. 2003; then until each has exchanged a byte with every other: many libraries only then make a
  // connection and the memory for it.
  Outcome reach_all();

  // The settings as they really are. cpu: that the rank is pinned to, -1: none. with_cost: false where it is not known.
  [[nodiscard]] RankFacts describe(int cpu, bool with_cost) const;
  [[nodiscard]] std::string counters() const;  // a JSON object, or "" where the module has none
  void add_cost(const Cost& cost) { cost_ += cost; }

 private:
  explicit Endpoint(EndpointSetting setting);

  EndpointSetting set_;
  const Layer& module_;
  np_context context_{};
  std::array<char, 256> message_{};
  np_endpoint* handle_ = nullptr;
  np_limits limits_{};
  np_bootstrap bootstrap_{};  // of a library with a launcher of its own
  Cost cost_;
  std::optional<Cost> barrier_cost_;  // of it, what had been spent when all ranks had met
  std::shared_ptr<BufferPool> pool_;
  std::vector<int> member_of_rank_;
  std::vector<bool> far_;
  std::vector<np_region> exposed_;   // the incoming half and the outgoing half of the pool
  std::vector<np_region> attached_;  // the same of the mirrored rank
  std::string unreachable_;
};

}  // namespace netpipe
