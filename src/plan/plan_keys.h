// SPDX-License-Identifier: Apache-2.0
// The keys of a plan as one table. How a plan is read and written, what its values may be, the text that both ends
// agree on, the options of `netpipe run` and the table of docs/reference/worker.md all follow from it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "plan/plan.h"

namespace netpipe {

enum class PlanType {
  text,
  integer,
  real,
  percent,     // a fraction: "1%" or "0.01"
  size,        // bytes: "64k"
  sizes,       // several, separated by commas
  choice,      // one of the key's words
  yes_no,      // "yes" or "no"
  processors,  // one of the key's words, or processor numbers separated by commas
};

struct PlanKey {
  // Where the value is kept in a plan.
  using Field = std::variant<std::string*, std::vector<std::string>*, double*, bool*, int*, std::uint64_t*,
                             std::vector<std::uint64_t>*, Schedule::Kind*, Buffers*, Pinning*>;

  const char* name;
  const char* option = nullptr;   // its name on the command line of `netpipe run`; nullptr: it has no option there
  const char* metavar = nullptr;  // what stands for the value in the help of that option
  PlanType type = PlanType::text;
  std::optional<double> least = {}, most = {};  // NOLINT(readability-redundant-member-init): inclusive, in `unit`
  std::vector<std::string> choices = {};        // NOLINT(readability-redundant-member-init)
  const char* unit = "";
  const char* help;                 // one sentence without a full stop
  bool agreed = false;              // both ends of a measurement must have the same value
  const char* if_absent = nullptr;  // the value of a repeatable key that a plan does not have
  Field (*field)(Plan& plan);
};

std::span<const PlanKey> plan_keys();

std::string_view type_name(PlanType type);

// A repeatable key adds a value to those that the plan has.
bool repeatable(const PlanKey& key);

// Sets one value from its text. The sentence of a failure does not name the key.
Outcome set_value(const PlanKey& key, Plan& plan, std::string_view text);

// The values of this key as texts that set_value reads back exactly: none, one, or several of a repeatable key.
std::vector<std::string> values_of(const PlanKey& key, const Plan& plan);

// The value in a plan that does not have this key; nothing when there is none.
std::optional<std::string> default_of(const PlanKey& key);

}  // namespace netpipe
