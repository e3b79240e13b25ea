// SPDX-License-Identifier: Apache-2.0
// What is to be measured: the text of a plan (docs/reference/worker.md), and what it resolves to with the modules of
// this host. The keys of the text are in plan_keys.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/port.h"
#include "base/result.h"
#include "catalog/registry.h"
#include "catalog/variant.h"
#include "machine/environment.h"
#include "patterns/kit/pattern.h"
#include "plan/pool_need.h"
#include "sampling/schedule.h"
#include "sampling/statistics.h"

namespace netpipe {

struct Pinning {
  enum class Kind { automatic, none, list, nearness } kind = Kind::automatic;
  std::vector<int> cpus;              // list: one per rank
  Nearness nearness = Nearness::smt;  // of the two ranks of one host
};

struct Plan {
  std::string record = "-";
  int launch = 0;
  int launches = 1;  // that share the budget
  std::vector<std::string> variants;
  std::vector<std::string> patterns;
  std::vector<std::string> module_files;
  Schedule schedule;
  std::vector<std::string> wanted;  // of schedule adaptive: VARIANT PATTERN SIZES
  BufferPolicy buffers;             // of patterns that do not choose their own
  double target = 0.01;             // half width of the interval over the median
  double budget_s = 3;              // for one curve, in all launches
  double timeout_s = 10;            // for any wait
  bool verify = false;
  bool paced = false;
  std::uint64_t seed = 1;
  Pinning pin;
  int ranks = default_ranks;       // of variants that do not choose their own
  std::string hosts;               // with commas: where all ranks are started; "": netpipe's own layers run here
  std::string bind = "127.0.0.1";  // the address that the processes of a job connect to
  double joining_s = 60;           // for the launcher of a library to start them
  std::string host, token_file;    // of a run between two hosts
  int port = default_port;
};

// What an earlier launch of the run measured of a curve. This one begins with the same sizes beside the octaves, so
// that all of its launches say something about a step, and looks for steps in all of them together.
struct Wanted {
  std::string variant, pattern;
  std::map<std::uint64_t, Spread> sizes;  // without visits: nothing is known but that it was measured
};

// A plan with its modules, patterns and sizes. Points into the registry.
struct Resolved {
  std::vector<Variant> variants;
  std::vector<ChosenPattern> patterns;  // empty: opening the variants is all that is measured
  std::vector<std::uint64_t> sizes;
  std::vector<Wanted> wanted;
  PoolNeed pool;
  int nranks = 1;  // processes on this side that the largest variant needs, without those of a library's launcher
  std::vector<std::pair<std::string, std::string>> stack;  // each known module, and the one whose layer it stands on
};

// Whether the buffers of this side's ranks fit into the memory that this host has left. The sentence of a failure says
// what needs how much.
Outcome fits_here(const Plan& plan, const Resolved& resolved, std::uint64_t available_bytes);

// Bytes of the buffers of all ranks together, on whatever host they are. The variants that the same processes measure
// share them. UINT64_MAX: more than can be counted.
std::uint64_t buffer_bytes(const Plan& plan, const Resolved& resolved);

// Why nothing can be measured of this curve, as far as the plan and this host tell before a process is started; or "".
// More may be known once the variant is open (its largest message, whether it has empty ones).
std::string foreseen_obstacle(const Plan& plan, const ChosenPattern& pattern, const Variant& variant);

// Are the ranks of netpipe's own layers processes of a job, which ssh or srun starts on the hosts of the plan? Where it
// names a host that serves, they are forked here and there.
bool starts_on_hosts(const Plan& plan);

std::string pin_text(const Pinning& pin);  // as parse_pinning reads it
Result<Pinning> parse_pinning(std::string_view text);

// For one curve in this launch.
inline double launch_budget_s(const Plan& plan) { return plan.budget_s / plan.launches; }

Result<Plan> parse_plan(std::string_view text);
std::vector<std::string> modules_of(const Plan& plan);  // the names of its variants' modules
Result<Resolved> resolve(const Plan& plan, const Registry& registry);

// What both ends of a measurement must agree on, a line for each value with every default written out; its SHA-256 is
// the plan's hash. only: with these variants alone; none: with all.
std::string canonical_text(const Plan& plan, const Resolved& resolved, const std::vector<std::uint32_t>& only = {});
std::string plan_hash(const std::string& canonical);

// The `plan` record (docs/reference/record.md). pin: the processor of each rank, -1 for one that is not pinned.
std::string plan_record(const Plan& plan, const Resolved& resolved, const std::string& hash,
                        const std::vector<int>& pin);

// Why this pattern cannot run over this module or variant, or "".
std::string skip_reason(const Pattern& pattern, const Layer& module, int ranks = default_ranks);
std::string skip_reason(const ChosenPattern& pattern, const Variant& variant);

// The variants of netpipe's own layers; ranks: those with so many, 0: all.
std::vector<std::uint32_t> own_variants(const Resolved& resolved, int ranks = 0);

// The variants that the processes of this one measure, and know of; none: all of the plan.
std::vector<std::uint32_t> measured_with(const Plan& plan, const Resolved& resolved, std::uint32_t variant);

// What the patterns need of a pool whose places begin at multiples of alignment, in processes that know these variants
// alone (none: all).
PoolNeed pool_need(const Plan& plan, const Resolved& resolved, std::uint64_t alignment,
                   const std::vector<std::uint32_t>& only = {});

// How many rounds the samples of a visit may have together where each message needs a place of its own, because it is
// verified or its buffer is fresh. One of them is not timed. The same on every host.
std::uint64_t most_rounds(const PoolNeed& pool, const ChosenPattern& pattern, int nranks, std::uint64_t size_bytes);

// Why messages of this open variant cannot lie in pages that were mapped for them, where the pattern wants that; or "".
std::string fresh_obstacle(const ChosenPattern& pattern, const Layer& module, const np_limits& limits, int nranks);

// Whether this pattern is measured at this size of the plan.
bool takes_size(const Resolved& resolved, const ChosenPattern& pattern, int nranks, std::uint64_t size_bytes);

}  // namespace netpipe
