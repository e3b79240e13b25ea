// SPDX-License-Identifier: Apache-2.0
// What is to be measured: the plan's text (docs/reference/worker.md), and what it comes to with the modules that are
// here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "catalog/pool_need.h"
#include "catalog/registry.h"
#include "catalog/variant.h"
#include "machine/environment.h"
#include "patterns/kit/pattern.h"
#include "sampling/schedule.h"

namespace netpipe {

struct Pinning {
  enum class Kind { automatic, none, list, nearness } kind = Kind::automatic;
  std::vector<int> cpus;              // list: one per rank
  Nearness nearness = Nearness::smt;  // of the two ranks of one host
};

struct Plan {
  std::string record = "-";
  int launch = 0;
  std::vector<std::string> variants;
  std::vector<std::string> patterns;
  std::vector<std::string> module_files;
  Schedule schedule;
  BufferPolicy buffers;   // of modes that say nothing else
  double target = 0.01;   // relative half width of the interval
  double budget_s = 3;    // of one curve
  double timeout_s = 10;  // of any wait
  bool verify = false;
  bool paced = false;
  std::uint64_t seed = 1;
  Pinning pin;
  int ranks = 2;                   // of a variant whose module takes any number
  std::string bind = "127.0.0.1";  // where the processes of jobs come to: an address that they can reach
  double joining_s = 60;           // how long the launcher of a library may take to bring them to life
  std::string host, token_file;    // of a two-host run
  int port = 0;
};

// A plan with its modules, modes (patterns with their settings) and sizes found. Points into the registry.
struct Resolved {
  std::vector<Variant> variants;
  std::vector<Mode> modes;  // none: opening the variants is all that is measured
  std::vector<std::uint64_t> sizes;
  PoolNeed pool;
  int nranks = 1;  // processes on this side that the largest variant needs, those of launched ones not counted
};

// Whether the buffers of this side's ranks fit into the memory that this host has left; the sentence says what takes
// how much.
Outcome fits_here(const Plan& plan, const Resolved& resolved, std::uint64_t available_bytes);

std::string pin_text(const Pinning& pin);  // as parse_plan reads it

Result<Plan> parse_plan(std::string_view text);
Result<Resolved> resolve(const Plan& plan, const Registry& registry);

// What both ends of a measurement must agree on, one line a setting, every default written out; its SHA-256 is the
// plan's hash. only: of this variant alone.
std::string canonical_text(const Plan& plan, const Resolved& resolved, std::optional<std::size_t> only = std::nullopt);
std::string plan_hash(const std::string& canonical);

// The `plan` record without its braces closed over run-time facts: see docs/reference/record.md.
std::string plan_record(const Plan& plan, const Resolved& resolved, const std::string& hash,
                        const std::vector<int>& pin);

// Why this pattern cannot run over this variant, or "".
std::string skip_reason(const Pattern& pattern, const Layer& module, int ranks = 2);
std::string skip_reason(const Mode& mode, const Layer& module, int ranks);

// Ranks that take part in one variant when `ranks` are wanted.
int ranks_of(const Layer& module, int ranks);

// How many rounds the samples of a visit of a verified message may have together: each message needs a place of its
// own. The same on every host.
std::uint64_t verified_rounds(const Resolved& resolved, const Mode& mode, int nranks, std::uint64_t size_bytes);

// Whether this mode is measured at this size of the plan.
bool takes_size(const Resolved& resolved, const Mode& mode, int nranks, std::uint64_t size_bytes);

}  // namespace netpipe
