// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include <algorithm>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include "base/host_name.h"
#include "base/sha256.h"
#include "base/text.h"
#include "catalog/contract.h"
#include "plan/plan_keys.h"
#include "record/json.h"
#include "sampling/statistics.h"
#include "sampling/yardstick.h"

namespace netpipe {
namespace {

constexpr std::string_view first_line = "netpipe-plan 1";
constexpr const char* no_pattern = "none";  // the variants are opened, their ranks reach each other, and that is all
constexpr const char* every_pattern = "all";

const PlanKey& key_named(std::string_view name) {
  const std::span<const PlanKey> keys = plan_keys();
  return *std::find_if(keys.begin(), keys.end(), [&](const PlanKey& key) { return key.name == name; });
}

}  // namespace

bool starts_on_hosts(const Plan& plan) { return plan.host.empty() && !plan.hosts.empty(); }

std::string pin_text(const Pinning& pin) {
  if (pin.kind == Pinning::Kind::nearness) return nearness_names[static_cast<std::size_t>(pin.nearness)];
  if (pin.kind != Pinning::Kind::list) return pin.kind == Pinning::Kind::automatic ? "auto" : "none";
  std::string text;
  for (const int cpu : pin.cpus) text += (text.empty() ? "" : ",") + std::to_string(cpu);
  return text;
}

Result<Plan> parse_plan(std::string_view text) {
  const std::span<const PlanKey> keys = plan_keys();
  Plan plan;
  bool first = true;
  for (const std::string& line : split(text, '\n')) {
    if (line.empty()) continue;
    if (line == "end") break;
    if (first && line != first_line) {
      return usage("the plan begins with '" + line + "' instead of '" + std::string(first_line) +
                   "'; it was written by another version of netpipe");
    }
    if (std::exchange(first, false)) continue;
    const auto blank = line.find(' ');
    const std::string name = line.substr(0, blank);
    const std::string_view value =
        blank == std::string::npos ? std::string_view{} : trim(std::string_view(line).substr(blank));
    const auto key = std::find_if(keys.begin(), keys.end(), [&](const PlanKey& k) { return k.name == name; });
    if (key == keys.end()) {
      std::vector<std::string> names;
      for (const PlanKey& k : keys) names.emplace_back(k.name);
      return usage("the plan has an unknown key '" + name + "'" + did_you_mean(name, names));
    }
    if (const Outcome set = set_value(*key, plan, value); !set) {
      return Failure{set.failure().exit, name + ": " + set.failure().sentence};
    }
  }
  if (first) return usage("the plan is empty; its first line must be '" + std::string(first_line) + "'");
  for (const PlanKey& key : keys) {
    if (key.if_absent == nullptr || !values_of(key, plan).empty()) continue;
    if (Outcome set = set_value(key, plan, key.if_absent); !set) return set.failure();
  }
  for (const auto& [key, name] : {std::pair{"host", &plan.host}, std::pair{"bind", &plan.bind}}) {
    if (const Outcome fits = check_host_name(*name); !fits) return usage(key + (": " + fits.failure().sentence));
  }
  if (plan.variants.empty()) return usage("the plan names no variant; name at least one module, such as tcp");
  return plan;
}

namespace {

// Messages that one round moves from or to one rank, whichever has most.
std::uint64_t messages_of_round(const ChosenPattern& chosen, int nranks, std::uint64_t size_bytes) {
  std::uint32_t most = 1;
  for (int rank = 0; rank < nranks; ++rank) {
    const Part part = chosen.part(rank, nranks, size_bytes);
    most = std::max({most, chosen.pattern->arrivals(part), chosen.pattern->departures(part)});
  }
  return most;
}

// Messages of the shortest visit that this pattern can make of this size.
std::uint64_t shortest_visit(const ChosenPattern& chosen, int nranks, std::uint64_t size_bytes) {
  return all_rounds(*chosen.pattern, chosen.part(0, nranks, size_bytes), 1, 1) *
         messages_of_round(chosen, nranks, size_bytes);
}

// The largest place that a rank has in a visit of this size.
std::uint64_t largest_place(const ChosenPattern& chosen, int nranks, std::uint64_t size_bytes) {
  std::uint64_t bytes = size_bytes;
  for (int rank = 0; rank < nranks; ++rank) {
    bytes = std::max(bytes, chosen.pattern->place_bytes(chosen.part(rank, nranks, size_bytes)));
  }
  return bytes;
}

// How many rounds the samples of a visit may have together where it may have so many messages. The sampler leaves room
// for one round that is not timed. A pattern that pauses has its own with each sample.
std::uint64_t rounds_of(const ChosenPattern& chosen, int nranks, std::uint64_t size_bytes, std::uint64_t messages) {
  const std::uint64_t rounds = messages / messages_of_round(chosen, nranks, size_bytes);
  const Part part = chosen.part(0, nranks, size_bytes);
  const std::uint64_t extra = chosen.pattern->extra_rounds(part);
  if (chosen.pattern->pauses(part)) return std::max<std::uint64_t>(rounds / (1 + extra), 1);
  return rounds > extra ? rounds + 1 - extra : 1;
}

bool among(const std::vector<std::uint32_t>& only, std::uint32_t variant) {
  return only.empty() || std::find(only.begin(), only.end(), variant) != only.end();
}

// What these patterns need of a pool together; of verified messages, what their shortest visit moves.
PoolNeed need_of(const Plan& plan, const Resolved& resolved, std::span<const ChosenPattern> patterns,
                 std::uint64_t alignment = line_bytes, const std::vector<std::uint32_t>& only = {}) {
  int nranks = 1;
  for (std::uint32_t v = 0; v < resolved.variants.size(); ++v) {
    if (among(only, v)) nranks = std::max(nranks, resolved.variants[v].ranks);
  }
  PoolNeed need;
  need.alignment = std::max(alignment, line_bytes);
  need.place_bytes = resolved.sizes.back();
  need.verify = plan.verify;
  for (const ChosenPattern& chosen : patterns) {
    const Pattern& pattern = *chosen.pattern;
    need.spreads |= chosen.buffers.kind == Buffers::cold;
    need.offset_bytes =
        std::max({need.offset_bytes, chosen.buffers.send_offset_bytes, chosen.buffers.recv_offset_bytes});
    for (const std::uint64_t size : resolved.sizes) {
      std::uint64_t places = 1;
      const std::uint64_t place_bytes = largest_place(chosen, nranks, size);
      for (int rank = 0; rank < nranks; ++rank) {
        const Part part = chosen.part(rank, nranks, size);
        places = std::max<std::uint64_t>({places, pattern.in_flight(part), pattern.starts(part)});
      }
      if (plan.verify) places = std::max(places, shortest_visit(chosen, nranks, size));
      if (chosen.buffers.fresh_percent() > 0) {
        const std::uint64_t shortest = shortest_visit(chosen, nranks, size);
        need.fresh_bytes =
            std::max(need.fresh_bytes, fresh_room(chosen.buffers, place_bytes, need.alignment, shortest));
      }
      need.place_bytes = std::max(need.place_bytes, place_bytes);
      need.at_once_bytes = std::max(need.at_once_bytes, places_bytes(places, place_bytes, need.alignment));
    }
  }
  return need;
}

}  // namespace

PoolNeed pool_need(const Plan& plan, const Resolved& resolved, std::uint64_t alignment,
                   const std::vector<std::uint32_t>& only) {
  if (alignment <= line_bytes && only.empty()) return resolved.pool;
  return need_of(plan, resolved, resolved.patterns, alignment, only);
}

std::vector<std::uint32_t> own_variants(const Resolved& resolved, int ranks) {
  std::vector<std::uint32_t> own;
  for (std::uint32_t v = 0; v < resolved.variants.size(); ++v) {
    const Variant& variant = resolved.variants[v];
    if (!launched(*variant.module) && (ranks == 0 || variant.ranks == ranks)) own.push_back(v);
  }
  return own;
}

std::vector<std::uint32_t> measured_with(const Plan& plan, const Resolved& resolved, std::uint32_t variant) {
  if (launched(*resolved.variants[variant].module)) return {variant};
  // On hosts there is a job for each number of ranks.
  return starts_on_hosts(plan) ? own_variants(resolved, resolved.variants[variant].ranks)
                               : std::vector<std::uint32_t>{};
}

std::uint64_t most_rounds(const PoolNeed& pool, const ChosenPattern& chosen, int nranks, std::uint64_t size_bytes) {
  const std::uint64_t place_bytes = largest_place(chosen, nranks, size_bytes);
  const bool fresh = chosen.buffers.fresh_percent() > 0;
  const std::uint64_t messages =
      fresh ? fresh_messages(chosen.buffers, place_bytes, pool.alignment, shortest_visit(chosen, nranks, size_bytes))
            : verified_places(pool, place_bytes);
  return rounds_of(chosen, nranks, size_bytes, messages);
}

std::string fresh_obstacle(const ChosenPattern& chosen, const Layer& module, const np_limits& limits, int nranks) {
  if (chosen.buffers.fresh_percent() == 0) return {};
  if (chosen.reaches() || (nranks == 1 && module.put != nullptr)) {
    return "its messages lie in memory that is open to the peer, and fresh buffers are not: measure it with buffers "
           "warm, apart or cold";
  }
  if (module.own_memory() != nullptr && limits.any_memory == 0) {
    return "messages of this variant lie in memory of the layer's own, and fresh buffers do not: measure it with "
           "buffers warm, apart or cold";
  }
  return {};
}

bool takes_size(const Resolved& resolved, const ChosenPattern& chosen, int nranks, std::uint64_t size_bytes) {
  if (chosen.pattern->sizeless(chosen.part(0, nranks, size_bytes))) {
    // One that reaches into memory needs some: the first size that has bytes.
    const auto& sizes = resolved.sizes;
    const bool empty = chosen.reaches() && sizes.size() > 1 && sizes.front() == 0;
    return size_bytes == sizes[empty ? 1 : 0];
  }
  return size_bytes % chosen.pattern->unit_bytes(chosen.part(0, nranks, size_bytes)) == 0;
}

std::string skip_reason(const Pattern& pattern, const Layer& module, int ranks) {
  const int nranks = possible_ranks(module, ranks);
  if (nranks < pattern.min_ranks || nranks > pattern.max_ranks) {
    const std::string needs = std::string("pattern ") + pattern.name + " needs " + std::to_string(pattern.min_ranks);
    if (module.max_ranks < pattern.min_ranks) {
      return needs + " ranks, module " + module.name + " has " + std::to_string(nranks);
    }
    return needs + " ranks, there are " + std::to_string(nranks) + " (--ranks)";
  }
  if (nranks > 1 && nranks % pattern.multiple_of != 0) {
    return std::string("pattern ") + pattern.name + " needs a multiple of " + std::to_string(pattern.multiple_of) +
           " ranks, there are " + std::to_string(nranks);
  }
  if (const char* operation = pattern.missing(module, nranks); operation != nullptr) {
    return std::string("module ") + module.name + " has no " + operation + ", which pattern " + pattern.name + " needs";
  }
  return {};
}

std::string skip_reason(const ChosenPattern& chosen, const Variant& variant) {
  const Pattern& pattern = *chosen.pattern;
  if (std::string reason = skip_reason(pattern, *variant.module, variant.ranks); !reason.empty()) return reason;
  const Part part = chosen.part(0, variant.ranks, 0);
  const std::uint32_t groups = groups_of(pattern, part);
  for (std::size_t i = 0; i < variant.options.size(); ++i) {
    const std::uint32_t obeyed_by = variant.options[i].applies_to;
    if (!variant.changed[i] || obeyed_by == 0 || (obeyed_by & groups) != 0) continue;
    return std::string("pattern ") + pattern.name + " does not obey " + variant.options[i].name + "=" +
           variant.texts[i] + " of module " + variant.module->name + ": measure it without that setting";
  }
  if (!pattern.starts_in_buffers && chosen.buffers.send_offset_bytes > 0) {
    return std::string("pattern ") + pattern.name +
           " does not obey send_offset=" + size_text(chosen.buffers.send_offset_bytes) +
           ": nothing that it moves starts in a buffer";
  }
  if (variant.pages.chosen() && chosen.buffers.fresh_percent() > 0) {
    return "pattern " + chosen.name + " maps pages for its messages, and pages and node of a variant are those of " +
           "buffers that are kept: measure it with buffers warm, apart or cold";
  }
  const std::string lack = pattern.unfit(part, *variant.module);
  return lack.empty() ? lack : "pattern " + chosen.name + " " + lack;
}

std::vector<std::string> modules_of(const Plan& plan) {
  std::vector<std::string> names;
  for (const std::string& text : plan.variants) names.push_back(name_in(text));
  return names;
}

namespace {

Result<std::vector<Variant>> resolve_variants(const Plan& plan, const Registry& registry) {
  std::vector<Variant> variants;
  for (const std::string& text : plan.variants) {
    const Result<const LoadedModule*> loaded = registry.require(name_in(text));
    if (!loaded) return loaded.failure();
    Result<Variant> variant = parse_variant(text, registry, plan.ranks);
    if (!variant) return variant.failure();
    for (const Variant& other : variants) {
      if (other.name == variant->name) {
        return usage("variant " + variant->name + " is named twice; name it once, or " + variant->name +
                     "#2 to measure it beside itself");
      }
    }
    variants.push_back(std::move(*variant));
  }
  return variants;
}

// Whether messages can lie as it is chosen.
Outcome check_places(const Plan& plan, const ChosenPattern& chosen) {
  const BufferPolicy& buffers = chosen.buffers;
  const bool reuses = buffers.kind != Buffers::fresh && buffers.reuse_percent > 0;
  if (plan.verify && buffers.fresh_percent() > 0 && reuses) {
    return usage("pattern " + chosen.name +
                 " cannot be verified: a buffer that is used again holds its last message only; use reuse=0");
  }
  if (!chosen.pattern->overwrites(chosen.part(0, 1, 0))) return ok();
  if (plan.verify) {
    return usage("pattern " + chosen.name + " cannot be verified: its messages land on each other");
  }
  if (buffers.kind == Buffers::cold || buffers.fresh_percent() > 0) {
    return usage("pattern " + chosen.name +
                 " has one place for all messages of a window, which cannot be cold or fresh for each of them");
  }
  return ok();
}

Result<std::vector<ChosenPattern>> resolve_patterns(const Plan& plan) {
  std::vector<ChosenPattern> chosen;
  if (plan.patterns == std::vector<std::string>{no_pattern}) return chosen;
  std::vector<std::string> texts;
  for (const std::string& text : plan.patterns) {
    if (text != every_pattern) {
      texts.push_back(text);
      continue;
    }
    texts.emplace_back("pingpong");  // what one looks at first
    for (const Pattern* pattern : all_patterns()) texts.emplace_back(pattern->name);
  }
  for (const std::string& text : texts) {
    if (text == no_pattern) {
      return usage("pattern none measures nothing, so it cannot be combined with another pattern");
    }
    Result<ChosenPattern> pattern = parse_pattern(text, plan.buffers);
    if (!pattern) return pattern.failure();
    if (Outcome can = check_places(plan, *pattern); !can) return can.failure();
    const bool twice = std::any_of(chosen.begin(), chosen.end(),
                                   [&](const ChosenPattern& other) { return other.name == pattern->name; });
    if (!twice) chosen.push_back(std::move(*pattern));
  }
  return chosen;
}

// What can be said of the pinning without looking at the processors of this host.
Outcome check_pinning(const Plan& plan, const Resolved& resolved) {
  const std::string pin = "pin " + pin_text(plan.pin);
  if (plan.pin.kind == Pinning::Kind::nearness) {
    if (!plan.host.empty() || (starts_on_hosts(plan) && !own_variants(resolved).empty())) {
      return usage(pin + " selects two processors of one host; with --hosts name the processors");
    }
    for (const Variant& variant : resolved.variants) {
      if (variant.ranks > 2) {
        return usage(pin + " selects two processors, and variant " + variant.name + " has " +
                     std::to_string(variant.ranks) + " ranks; name one processor for each rank");
      }
    }
  }
  // Of hosts each rank takes the processor with its number on its own host.
  const bool too_few = plan.pin.kind == Pinning::Kind::list && plan.host.empty() && plan.hosts.empty() &&
                       plan.pin.cpus.size() < static_cast<std::size_t>(resolved.nranks);
  if (!too_few) return ok();
  return usage(pin + " names " + counted(plan.pin.cpus.size(), "processor") + " for " +
               counted(static_cast<std::uint64_t>(resolved.nranks), "rank") + "; name one for each rank");
}

// The name of a variant may contain blanks.
Result<Wanted> parse_wanted(const std::string& text) {
  const auto malformed = [&] {
    return usage(
        "wanted: '" + text +
        "' is not a variant, a pattern and sizes with commas, each with the median, its standard error in ns and the "
        "number of visits where they are known, such as tcp pingpong 1000=5120.5/31.2/24,1040");
  };
  const std::size_t before_sizes = text.rfind(' ');
  const std::size_t before_pattern = before_sizes == 0 ? std::string::npos : text.rfind(' ', before_sizes - 1);
  if (before_sizes == std::string::npos || before_pattern == std::string::npos) return malformed();
  Wanted wanted{.variant = text.substr(0, before_pattern),
                .pattern = text.substr(before_pattern + 1, before_sizes - before_pattern - 1),
                .sizes = {}};
  for (const std::string& one : split(text.substr(before_sizes + 1), ',')) {
    const std::size_t equals = one.find('=');
    const Result<std::uint64_t> size = parse_size(one.substr(0, equals));
    if (!size) return malformed();
    Spread spread{1, std::numeric_limits<double>::infinity()};  // weighs nothing
    if (equals != std::string::npos) {
      const std::vector<std::string> numbers = split(one.substr(equals + 1), '/');
      if (numbers.size() != 3) return malformed();
      const Result<double> median = parse_real(numbers[0]);
      const Result<double> error = parse_real(numbers[1]);
      const Result<std::int64_t> visits = parse_integer(numbers[2]);
      if (!median || !error || !visits || !(*median > 0) || !(*error >= 0) || *visits < 1) return malformed();
      spread = {*median, *error, static_cast<std::size_t>(*visits)};
    }
    wanted.sizes[*size] = spread;
  }
  return wanted;
}

}  // namespace

Result<Resolved> resolve(const Plan& plan, const Registry& registry) {
  Resolved resolved;
  Result<std::vector<Variant>> variants = resolve_variants(plan, registry);
  if (!variants) return variants.failure();
  resolved.variants = std::move(*variants);
  for (const Variant& variant : resolved.variants) {
    // Two processes measure the yardsticks where a launcher starts all others.
    const bool elsewhere = launched(*variant.module) || starts_on_hosts(plan);
    resolved.nranks = std::max(resolved.nranks, elsewhere ? 2 : variant.ranks);
  }
  Result<std::vector<ChosenPattern>> patterns = resolve_patterns(plan);
  if (!patterns) return patterns.failure();
  resolved.patterns = std::move(*patterns);
  Result<std::vector<std::uint64_t>> sizes = sizes_of(plan.schedule);
  if (!sizes) return sizes.failure();
  resolved.sizes = std::move(*sizes);
  for (const std::string& text : plan.wanted) {
    Result<Wanted> wanted = parse_wanted(text);
    if (!wanted) return wanted.failure();
    resolved.wanted.push_back(std::move(*wanted));
  }
  resolved.pool = need_of(plan, resolved, resolved.patterns);
  for (const LoadedModule& module : registry.modules()) {
    if (module.layer->below != nullptr) resolved.stack.emplace_back(module.layer->name, module.layer->below);
  }
  if (Outcome pinned = check_pinning(plan, resolved); !pinned) return pinned.failure();
  return resolved;
}

namespace {

// Two halves. UINT64_MAX: too much to count.
std::uint64_t pool_bytes(const PoolNeed& need, Pages pages) {
  constexpr std::uint64_t too_much = 1ULL << 62U;  // or it would wrap around
  const std::uint64_t half = half_bytes(need, pages);
  return half >= too_much || need.fresh_bytes >= too_much ? UINT64_MAX : 2 * (half + need.fresh_bytes);
}

// Of one pool for all of these variants (none: of all) that leave their pages to the kernel, and one for each other.
// UINT64_MAX: too much to count.
std::uint64_t per_rank(const Resolved& resolved, const PoolNeed& need, const std::vector<std::uint32_t>& only = {}) {
  std::uint64_t bytes = 0;
  bool shared = false;
  for (std::uint32_t v = 0; v < resolved.variants.size(); ++v) {
    const PageChoice& pages = resolved.variants[v].pages;
    if (!among(only, v) || (shared && !pages.chosen())) continue;
    shared = shared || !pages.chosen();
    if (__builtin_add_overflow(bytes, pool_bytes(need, pages.kind), &bytes)) return UINT64_MAX;
  }
  return bytes;
}

}  // namespace

std::uint64_t buffer_bytes(const Plan& plan, const Resolved& resolved) {
  std::uint64_t total = 0;
  std::set<std::vector<std::uint32_t>> seen;
  for (std::uint32_t v = 0; v < resolved.variants.size(); ++v) {
    const std::vector<std::uint32_t> together = measured_with(plan, resolved, v);
    if (!seen.insert(together).second) continue;
    std::uint64_t ranks = 0;
    for (const std::uint32_t one : together.empty() ? own_variants(resolved) : together) {
      ranks = std::max(ranks, static_cast<std::uint64_t>(resolved.variants[one].ranks));
    }
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(ranks, per_rank(resolved, pool_need(plan, resolved, line_bytes, together), together),
                               &bytes) ||
        __builtin_add_overflow(total, bytes, &total)) {
      return UINT64_MAX;
    }
  }
  return total;
}

std::string foreseen_obstacle(const Plan& plan, const ChosenPattern& pattern, const Variant& variant) {
  // Where a launcher or ssh starts the ranks on other hosts, those hosts count.
  if (!variant.lack.empty() && plan.hosts.empty()) {
    return std::string("module ") + variant.module->name + " is not available: " + variant.lack;
  }
  return skip_reason(pattern, variant);
}

Outcome fits_here(const Plan& plan, const Resolved& resolved, std::uint64_t available_bytes) {
  // Of each rank of this host. Ranks that a library's launcher starts may be elsewhere: each checks its
  // own.
  const bool here = plan.host.empty() && plan.hosts.empty();
  const auto ranks = static_cast<std::uint64_t>(here ? resolved.nranks : 1);
  if (per_rank(resolved, resolved.pool) <= available_bytes / ranks) return ok();
  const auto alone = [&](const ChosenPattern& chosen) {
    return per_rank(resolved, need_of(plan, resolved, {&chosen, 1}));
  };
  const auto largest =
      std::max_element(resolved.patterns.begin(), resolved.patterns.end(),
                       [&](const ChosenPattern& a, const ChosenPattern& b) { return alone(a) < alone(b); });
  const auto shown = [](std::uint64_t bytes) { return size_text(bytes >> 20U << 20U); };  // in whole MiB
  return usage("pattern " + largest->name + " with messages up to " + size_text(resolved.sizes.back()) + " needs " +
               shown(per_rank(resolved, resolved.pool)) + " of buffers on " +
               (ranks == 1 ? "one rank" : "each of " + std::to_string(ranks) + " ranks") + ", and this host has " +
               shown(available_bytes) + " available; choose smaller messages, or fewer of them at once");
}

std::string canonical_text(const Plan& plan, const Resolved& resolved, const std::vector<std::uint32_t>& only) {
  Plan full = plan;
  full.variants.clear();
  for (std::uint32_t v = 0; v < resolved.variants.size(); ++v) {
    if (among(only, v)) full.variants.push_back(resolved.variants[v].full_name());
  }
  full.patterns.clear();
  for (const ChosenPattern& chosen : resolved.patterns) full.patterns.push_back(chosen.full_name());
  if (resolved.patterns.empty()) full.patterns.emplace_back(no_pattern);
  full.schedule.kind = Schedule::Kind::list;
  full.schedule.list = resolved.sizes;
  std::string text = std::string(first_line) + "\n";
  for (const PlanKey& key : plan_keys()) {
    if (!key.agreed) continue;
    for (const std::string& value : values_of(key, full)) text += std::string(key.name) + " " + value + "\n";
  }
  return text;
}

std::string plan_hash(const std::string& canonical) { return hex(Sha256().update(canonical).finish()); }

std::string plan_record(const Plan& plan, const Resolved& resolved, const std::string& hash,
                        const std::vector<int>& pin) {
  Json json;
  json.open('{').field("type", "plan").field("launch", plan.launch).field("hash", hash).key("variants").open('[');
  for (const Variant& variant : resolved.variants) {
    json.open('{').field("variant", variant.name).field("module", variant.module->name).key("options").open('{');
    for (std::size_t i = 0; i < variant.options.size(); ++i) json.field(variant.options[i].name, variant.texts[i]);
    json.close('}').key("tunable").open('[');
    for (const np_option& option : variant.options) {
      if (tunable_of(option) == NP_TUNABLE) json.value(option.name);
    }
    json.close(']');
    variant.copy.empty() ? json.field_null("copy_of") : json.field("copy_of", variant.original());
    json.close('}');
  }
  json.close(']').key("patterns").open('[');
  for (const ChosenPattern& chosen : resolved.patterns) json.value(chosen.name);
  json.close(']').key("modes").open('[');
  for (const ChosenPattern& chosen : resolved.patterns) {
    json.open('{').field("pattern", chosen.name).field("name", chosen.pattern->name).key("options").open('{');
    for (std::size_t i = 0; i < chosen.options.size(); ++i) json.field(chosen.options[i].name, chosen.texts[i]);
    json.close('}').key("tunable").open('[');
    for (const np_option& option : chosen.options) {
      if (option.tunable != 0) json.value(option.name);
    }
    json.close(']').close('}');
  }
  const bool list = plan.schedule.kind == Schedule::Kind::list;
  json.close(']').key("schedule").open('{');
  json.field("kind", values_of(key_named("schedule"), plan).front());
  json.field("start_bytes", list ? resolved.sizes.front() : plan.schedule.start_bytes);
  json.field("end_bytes", list ? resolved.sizes.back() : plan.schedule.end_bytes);
  json.field("perturbation_bytes",
             plan.schedule.kind == Schedule::Kind::classic ? plan.schedule.perturbation_bytes : 0);
  json.close('}').key("sizes").open('[');
  for (const std::uint64_t size : resolved.sizes) {
    if (plan.schedule.kind != Schedule::Kind::adaptive || is_coarse(plan.schedule, size)) json.value(size);
  }
  const std::uint64_t pool = half_bytes(resolved.pool);
  json.close(']').key("buffers").open('{').field("policy", values_of(key_named("buffers"), plan).front());
  json.field("send_offset_bytes", plan.buffers.send_offset_bytes)
      .field("recv_offset_bytes", plan.buffers.recv_offset_bytes);
  json.field("pool_bytes", 2 * pool).field("fresh_bytes", 2 * resolved.pool.fresh_bytes).close('}');
  json.field("target", plan.target).field("confidence", confidence).field("budget_s", plan.budget_s);
  json.field("launches", plan.launches);
  json.field("verify", plan.verify).field("timeout_s", plan.timeout_s).field("seed", plan.seed);
  json.field("placement", pin_text(plan.pin)).key("pin").open('[');
  for (const int cpu : pin) {
    if (cpu >= 0) {
      json.value(cpu);
    } else {
      json.null();
    }
  }
  json.close(']').key("stack").open('{');
  for (const auto& [module, below] : resolved.stack) json.field(module, below);
  json.close('}').key("state_tolerances").open('{');
  json.field("bounce", MachineStates::bounce_tolerance).field("copy", MachineStates::copy_tolerance).close('}');
  json.close('}');
  return json.take();
}

}  // namespace netpipe
