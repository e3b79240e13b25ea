// SPDX-License-Identifier: Apache-2.0
#include "catalog/plan.h"

#include <algorithm>
#include <array>
#include <functional>

#include "base/sha256.h"
#include "base/text.h"
#include "record/json.h"
#include "sampling/statistics.h"

namespace netpipe {
namespace {

using Setter = std::function<Outcome(Plan&, std::string_view)>;

struct Key {
  std::string name;
  Setter set;
};

// Setters for the kinds of value that a plan has. Each says nothing of the key: parse_plan puts it in front.
Setter text_into(std::string Plan::* field) {
  return [field](Plan& plan, std::string_view value) -> Outcome {
    plan.*field = std::string(value);
    return ok();
  };
}

Setter append_to(std::vector<std::string> Plan::* field) {
  return [field](Plan& plan, std::string_view value) -> Outcome {
    (plan.*field).emplace_back(value);
    return ok();
  };
}

Setter size_into(const std::function<std::uint64_t&(Plan&)>& field, std::uint64_t most = UINT64_MAX) {
  return [field, most](Plan& plan, std::string_view value) -> Outcome {
    const Result<std::uint64_t> size = parse_size(value);
    if (!size) return size.failure();
    if (*size > most) return usage(std::string(value) + " is outside 0 to " + size_text(most));
    field(plan) = *size;
    return ok();
  };
}

Setter yes_into(bool Plan::* field) {
  return [field](Plan& plan, std::string_view value) -> Outcome {
    const Result<bool> yes = parse_yes_no(value);
    if (!yes) return yes.failure();
    plan.*field = *yes;
    return ok();
  };
}

Setter real_into(double Plan::* field, double least, double most) {
  return [=](Plan& plan, std::string_view value) -> Outcome {
    const Result<double> real = parse_real(value);
    if (!real) return real.failure();
    if (*real < least || *real > most) {
      Json range;
      range.value(least);
      Json until;
      until.value(most);
      return usage(std::string(value) + " is outside " + range.text() + " to " + until.text());
    }
    plan.*field = *real;
    return ok();
  };
}

Setter integer_into(const std::function<void(Plan&, std::int64_t)>& put, std::int64_t least, std::int64_t most) {
  return [=](Plan& plan, std::string_view value) -> Outcome {
    const Result<std::int64_t> number = parse_integer(value);
    if (!number) return number.failure();
    if (*number < least || *number > most) {
      return usage(std::string(value) + " is outside " + std::to_string(least) + " to " + std::to_string(most));
    }
    put(plan, *number);
    return ok();
  };
}

Outcome set_schedule(Plan& plan, std::string_view value) {
  const std::vector<std::string> kinds = {"classic", "powers", "list"};
  const auto at = std::find(kinds.begin(), kinds.end(), value);
  if (at == kinds.end()) return usage("there is no schedule '" + std::string(value) + "'" + did_you_mean(value, kinds));
  plan.schedule.kind = static_cast<Schedule::Kind>(at - kinds.begin());
  return ok();
}

Outcome set_sizes(Plan& plan, std::string_view value) {
  plan.schedule.list.clear();
  for (const std::string& one : split(value, ',')) {
    const Result<std::uint64_t> size = parse_size(one);
    if (!size) return size.failure();
    plan.schedule.list.push_back(*size);
  }
  return ok();
}

Outcome set_buffers(Plan& plan, std::string_view value) {
  if (value != "warm" && value != "cold") {
    return usage("there is no buffer policy '" + std::string(value) + "'" + did_you_mean(value, {"warm", "cold"}));
  }
  plan.buffers.cold = value == "cold";
  return ok();
}

Outcome set_pin(Plan& plan, std::string_view value) {
  plan.pin.cpus.clear();
  if (value == "auto" || value == "none") {
    plan.pin.kind = value == "auto" ? Pinning::Kind::automatic : Pinning::Kind::none;
    return ok();
  }
  const auto near = std::find(nearness_names.begin(), nearness_names.end(), value);
  if (near != nearness_names.end()) {
    plan.pin.kind = Pinning::Kind::nearness;
    plan.pin.nearness = static_cast<Nearness>(near - nearness_names.begin());
    return ok();
  }
  plan.pin.kind = Pinning::Kind::list;
  for (const std::string& one : split(value, ',')) {
    const Result<std::int64_t> cpu = parse_integer(one);
    if (!cpu || *cpu < 0 || *cpu > 65535) {
      return usage("'" + std::string(value) +
                   "' is no pinning; write auto, none, smt, cache, socket, sockets, or one processor number per rank "
                   "such as 0,1");
    }
    plan.pin.cpus.push_back(static_cast<int>(*cpu));
  }
  return ok();
}

constexpr std::uint64_t most_offset = 1ULL
                                      << 30;  // far below what would overflow when a message and its pool are added

const std::vector<Key>& keys() {
  static const std::vector<Key> table = {
      {"record", text_into(&Plan::record)},
      {"launch", integer_into([](Plan& p, std::int64_t v) { p.launch = static_cast<int>(v); }, 0, 1'000'000)},
      {"variant", append_to(&Plan::variants)},
      {"pattern", append_to(&Plan::patterns)},
      {"module-file", append_to(&Plan::module_files)},
      {"schedule", set_schedule},
      {"sizes", set_sizes},
      {"start", size_into([](Plan& p) -> std::uint64_t& { return p.schedule.start_bytes; })},
      {"end-size", size_into([](Plan& p) -> std::uint64_t& { return p.schedule.end_bytes; })},
      {"perturbation", size_into([](Plan& p) -> std::uint64_t& { return p.schedule.perturbation_bytes; })},
      {"buffers", set_buffers},
      {"send-offset", size_into([](Plan& p) -> std::uint64_t& { return p.buffers.send_offset_bytes; }, most_offset)},
      {"recv-offset", size_into([](Plan& p) -> std::uint64_t& { return p.buffers.recv_offset_bytes; }, most_offset)},
      {"target", real_into(&Plan::target, 1e-5, 1)},
      {"budget", real_into(&Plan::budget_s, 0.01, 86400)},
      {"bind", text_into(&Plan::bind)},
      {"joining", real_into(&Plan::joining_s, 0.1, 3600)},
      {"timeout", real_into(&Plan::timeout_s, 0.1, 3600)},
      {"verify", yes_into(&Plan::verify)},
      {"paced", yes_into(&Plan::paced)},
      {"seed", integer_into([](Plan& p, std::int64_t v) { p.seed = static_cast<std::uint64_t>(v); }, 0, INT64_MAX)},
      {"pin", set_pin},
      {"ranks", integer_into([](Plan& p, std::int64_t v) { p.ranks = static_cast<int>(v); }, 1, 1 << 20)},
      {"host", text_into(&Plan::host)},
      {"port", integer_into([](Plan& p, std::int64_t v) { p.port = static_cast<int>(v); }, 1, 65535)},
      {"token-file", text_into(&Plan::token_file)},
  };
  return table;
}

std::string number_text(double value) {
  Json json;
  json.value(value);
  return json.take();
}

std::string joined(const std::vector<std::uint64_t>& sizes) {
  std::string text;
  for (const std::uint64_t size : sizes) text += (text.empty() ? "" : ",") + std::to_string(size);
  return text;
}

// Variants are opened, their ranks all reach each other, and that is all.
constexpr const char* no_pattern = "none";
constexpr const char* every_pattern = "all";

constexpr std::array<const char*, 3> schedule_names = {"classic", "powers", "list"};

}  // namespace

std::string pin_text(const Pinning& pin) {
  if (pin.kind == Pinning::Kind::nearness) return nearness_names[static_cast<std::size_t>(pin.nearness)];
  if (pin.kind != Pinning::Kind::list) return pin.kind == Pinning::Kind::automatic ? "auto" : "none";
  std::string text;
  for (const int cpu : pin.cpus) text += (text.empty() ? "" : ",") + std::to_string(cpu);
  return text;
}

Result<Plan> parse_plan(std::string_view text) {
  Plan plan;
  bool first = true;
  for (const std::string& line : split(text, '\n')) {
    if (line.empty()) continue;
    if (line == "end") break;
    const auto blank = line.find(' ');
    const std::string name = line.substr(0, blank);
    const std::string_view value =
        blank == std::string::npos ? std::string_view{} : trim(std::string_view(line).substr(blank));
    if (first) {
      if (name != "netpipe-plan" || value != "1") {
        return usage("the plan begins with '" + line + "' instead of 'netpipe-plan 1': another version wrote it");
      }
      first = false;
      continue;
    }
    const auto key = std::find_if(keys().begin(), keys().end(), [&](const Key& k) { return k.name == name; });
    if (key == keys().end()) {
      std::vector<std::string> names;
      for (const Key& k : keys()) names.push_back(k.name);
      return usage("the plan has an unknown key '" + name + "'" + did_you_mean(name, names));
    }
    if (const Outcome set = key->set(plan, value); !set) {
      return Failure{set.failure().exit, name + ": " + set.failure().sentence};
    }
  }
  if (first) return usage("the plan is empty; its first line is 'netpipe-plan 1'");
  if (plan.patterns.empty()) plan.patterns.emplace_back("pingpong");
  if (plan.variants.empty()) return usage("the plan names no variant; name at least one module, such as tcp");
  return plan;
}

int ranks_of(const Layer& module, int ranks) { return std::clamp(ranks, module.min_ranks, module.max_ranks); }

namespace {

// Messages that one round moves from or to one rank, whichever has most.
std::uint64_t messages_of_round(const Mode& mode, int nranks, std::uint64_t size_bytes) {
  std::uint32_t most = 1;
  for (int rank = 0; rank < nranks; ++rank) {
    const Part part = mode.part(rank, nranks, size_bytes);
    most = std::max({most, mode.pattern->arrivals(part), mode.pattern->departures(part)});
  }
  return most;
}

// What the modes ask of a pool, all together or one alone; of verified messages, what their shortest visit moves.
PoolNeed pool_need(const Plan& plan, const Resolved& resolved, const Mode* only = nullptr) {
  int nranks = 1;
  for (const Variant& variant : resolved.variants) nranks = std::max(nranks, ranks_of(*variant.module, plan.ranks));
  PoolNeed need;
  need.place_bytes = resolved.sizes.back();
  need.verify = plan.verify;
  for (const Mode& mode : resolved.modes) {
    if (only != nullptr && &mode != only) continue;
    const Pattern& pattern = *mode.pattern;
    need.spreads |= mode.buffers.spreads();
    need.offset_bytes = std::max({need.offset_bytes, mode.buffers.send_offset_bytes, mode.buffers.recv_offset_bytes});
    for (const std::uint64_t size : resolved.sizes) {
      std::uint64_t places = 1;
      std::uint64_t place_bytes = size;
      for (int rank = 0; rank < nranks; ++rank) {
        const Part part = mode.part(rank, nranks, size);
        places = std::max<std::uint64_t>(places, pattern.in_flight(part));
        place_bytes = std::max(place_bytes, pattern.place_bytes(part));
      }
      if (plan.verify) {
        const std::uint64_t shortest = all_rounds(pattern, mode.part(0, nranks, size), 1, 1);
        places = std::max(places, shortest * messages_of_round(mode, nranks, size));
      }
      need.place_bytes = std::max(need.place_bytes, place_bytes);
      need.at_once_bytes = std::max(need.at_once_bytes, places_bytes(places, place_bytes));
    }
  }
  return need;
}

}  // namespace

std::uint64_t verified_rounds(const Resolved& resolved, const Mode& mode, int nranks, std::uint64_t size_bytes) {
  std::uint64_t place_bytes = size_bytes;
  for (int rank = 0; rank < nranks; ++rank) {
    place_bytes = std::max(place_bytes, mode.pattern->place_bytes(mode.part(rank, nranks, size_bytes)));
  }
  const std::uint64_t places = verified_places(resolved.pool, place_bytes);
  const std::uint64_t rounds = places / messages_of_round(mode, nranks, size_bytes);
  // The sampler leaves room for one round that is not timed. A pattern that pauses has its own with each sample.
  const std::uint64_t extra = mode.pattern->extra_rounds(mode.part(0, nranks, size_bytes));
  if (mode.pattern->pauses) return std::max<std::uint64_t>(rounds / (1 + extra), 1);
  return rounds > extra ? rounds + 1 - extra : 1;
}

bool takes_size(const Resolved& resolved, const Mode& mode, int nranks, std::uint64_t size_bytes) {
  if (mode.pattern->sizeless(mode.part(0, nranks, size_bytes))) return size_bytes == resolved.sizes.front();
  return size_bytes % mode.pattern->unit_bytes(mode.part(0, nranks, size_bytes)) == 0;
}

std::string skip_reason(const Pattern& pattern, const Layer& module, int ranks) {
  const int nranks = ranks_of(module, ranks);
  if (nranks < pattern.min_ranks || nranks > pattern.max_ranks) {
    return std::string("pattern ") + pattern.name + " needs " + std::to_string(pattern.min_ranks) + " ranks, module " +
           module.name + " has " + std::to_string(nranks);
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

std::string skip_reason(const Mode& mode, const Layer& module, int ranks) {
  const Pattern& pattern = *mode.pattern;
  if (std::string reason = skip_reason(pattern, module, ranks); !reason.empty()) return reason;
  const std::string lack = pattern.unfit(mode.part(0, ranks_of(module, ranks), 0), module);
  return lack.empty() ? lack : "pattern " + mode.name + " " + lack;
}

Result<Resolved> resolve(const Plan& plan, const Registry& registry) {
  Resolved resolved;
  for (const std::string& text : plan.variants) {
    Result<Variant> variant = parse_variant(text, registry);
    if (!variant) return variant.failure();
    const bool twice = std::any_of(resolved.variants.begin(), resolved.variants.end(),
                                   [&](const Variant& other) { return other.name == variant->name; });
    if (twice) return usage("variant " + variant->name + " is named twice; each has one curve");
    // The yardsticks need two processes as well.
    resolved.nranks =
        std::max(resolved.nranks, launched(*variant->module) ? 2 : ranks_of(*variant->module, plan.ranks));
    resolved.variants.push_back(std::move(*variant));
  }
  const bool none = plan.patterns == std::vector<std::string>{no_pattern};
  std::vector<std::string> patterns;
  for (const std::string& text : plan.patterns) {
    if (none) break;
    if (text != every_pattern) {
      patterns.push_back(text);
      continue;
    }
    patterns.emplace_back("pingpong");  // what one looks at first
    for (const Pattern* pattern : all_patterns()) patterns.emplace_back(pattern->name);
  }
  for (const std::string& text : patterns) {
    if (text == no_pattern) return usage("pattern none leaves nothing to measure, so no other is named beside it");
    Result<Mode> mode = parse_mode(text, plan.buffers);
    if (!mode) return mode.failure();
    const bool twice = std::any_of(resolved.modes.begin(), resolved.modes.end(),
                                   [&](const Mode& other) { return other.name == mode->name; });
    if (!twice) resolved.modes.push_back(std::move(*mode));
  }
  Result<std::vector<std::uint64_t>> sizes = sizes_of(plan.schedule);
  if (!sizes) return sizes.failure();
  resolved.sizes = std::move(*sizes);
  resolved.pool = pool_need(plan, resolved);
  if (plan.pin.kind == Pinning::Kind::nearness) {
    if (!plan.host.empty()) {
      return usage("pin " + pin_text(plan.pin) + " is of two processors of one host; between two name one of each");
    }
    const auto crowd = std::find_if(resolved.variants.begin(), resolved.variants.end(),
                                    [&](const Variant& variant) { return ranks_of(*variant.module, plan.ranks) > 2; });
    if (crowd != resolved.variants.end()) {
      return usage("pin " + pin_text(plan.pin) + " is of two ranks, and " + crowd->name + " has " +
                   std::to_string(ranks_of(*crowd->module, plan.ranks)) + "; name one processor per rank");
    }
  }
  const bool too_few = plan.pin.kind == Pinning::Kind::list && plan.host.empty() &&
                       plan.pin.cpus.size() < static_cast<std::size_t>(resolved.nranks);
  if (too_few) {
    return usage("pin names " + std::to_string(plan.pin.cpus.size()) + " processors for " +
                 std::to_string(resolved.nranks) + " ranks; name one per rank");
  }
  return resolved;
}

Outcome fits_here(const Plan& plan, const Resolved& resolved, std::uint64_t available_bytes) {
  // Two halves of each rank of this host: those of jobs may be elsewhere, and refuse by themselves.
  const auto ranks = static_cast<std::uint64_t>(plan.host.empty() ? resolved.nranks : 1);
  const auto per_rank = [](const PoolNeed& need) { return 2 * half_bytes(need); };
  if (per_rank(resolved.pool) <= available_bytes / ranks) return ok();
  const Mode* largest = &resolved.modes.front();
  for (const Mode& mode : resolved.modes) {
    if (per_rank(pool_need(plan, resolved, &mode)) > per_rank(pool_need(plan, resolved, largest))) largest = &mode;
  }
  const auto shown = [](std::uint64_t bytes) { return size_text(bytes >> 20U << 20U); };  // in whole MiB
  return usage("pattern " + largest->name + " with messages up to " + size_text(resolved.sizes.back()) + " needs " +
               shown(per_rank(resolved.pool)) + " bytes of buffers on each of " + std::to_string(ranks) +
               " ranks, and this host has " + shown(available_bytes) +
               " available; choose smaller messages or fewer of them at once");
}

std::string canonical_text(const Plan& plan, const Resolved& resolved, std::optional<std::size_t> only) {
  std::string text = "netpipe-plan 1\n";
  const auto line = [&](const std::string& key, const std::string& value) { text += key + " " + value + "\n"; };
  line("launch", std::to_string(plan.launch));
  for (const Variant& variant : resolved.variants) {
    if (only && &variant != &resolved.variants[*only]) continue;
    line("variant", variant.whole(variant.module->name, variant.module->options));
  }
  for (const Mode& mode : resolved.modes) line("pattern", mode.all());
  if (resolved.modes.empty()) line("pattern", no_pattern);
  line("schedule", "list");
  line("sizes", joined(resolved.sizes));
  line("buffers", plan.buffers.cold ? "cold" : "warm");
  line("send-offset", std::to_string(plan.buffers.send_offset_bytes));
  line("recv-offset", std::to_string(plan.buffers.recv_offset_bytes));
  line("verify", plan.verify ? "yes" : "no");
  line("seed", std::to_string(plan.seed));  // of verified messages: both ends must expect the same bytes
  line("target", number_text(plan.target));
  line("budget", number_text(plan.budget_s));
  line("timeout", number_text(plan.timeout_s));
  line("ranks", std::to_string(plan.ranks));
  return text;
}

std::string plan_hash(const std::string& canonical) { return hex(Sha256().update(canonical).finish()); }

std::string plan_record(const Plan& plan, const Resolved& resolved, const std::string& hash,
                        const std::vector<int>& pin) {
  Json json;
  json.open('{').field("type", "plan").field("launch", plan.launch).field("hash", hash).key("variants").open('[');
  for (const Variant& variant : resolved.variants) {
    json.open('{').field("variant", variant.name).field("module", variant.module->name).key("options").open('{');
    for (std::uint32_t i = 0; i < variant.module->noptions; ++i)
      json.field(variant.module->options[i].name, variant.texts[i]);
    json.close('}').close('}');
  }
  json.close(']').key("patterns").open('[');
  for (const Mode& mode : resolved.modes) json.value(mode.name);
  json.close(']').key("modes").open('[');
  for (const Mode& mode : resolved.modes) {
    json.open('{').field("pattern", mode.name).field("name", mode.pattern->name).key("options").open('{');
    for (std::size_t i = 0; i < mode.options.size(); ++i) json.field(mode.options[i].name, mode.texts[i]);
    json.close('}').close('}');
  }
  const bool list = plan.schedule.kind == Schedule::Kind::list;
  json.close(']').key("schedule").open('{');
  json.field("kind", schedule_names[static_cast<std::size_t>(plan.schedule.kind)]);
  json.field("start_bytes", list ? resolved.sizes.front() : plan.schedule.start_bytes);
  json.field("end_bytes", list ? resolved.sizes.back() : plan.schedule.end_bytes);
  json.field("perturbation_bytes",
             plan.schedule.kind == Schedule::Kind::classic ? plan.schedule.perturbation_bytes : 0);
  json.close('}').key("sizes").open('[');
  for (const std::uint64_t size : resolved.sizes) json.value(size);
  const std::uint64_t pool = half_bytes(resolved.pool);
  json.close(']').key("buffers").open('{').field("policy", plan.buffers.cold ? "cold" : "warm");
  json.field("send_offset_bytes", plan.buffers.send_offset_bytes)
      .field("recv_offset_bytes", plan.buffers.recv_offset_bytes);
  json.field("pool_bytes", 2 * pool).close('}');
  json.field("target", plan.target).field("confidence", confidence).field("budget_s", plan.budget_s);
  json.field("verify", plan.verify).field("timeout_s", plan.timeout_s).field("seed", plan.seed);
  json.field("placement", pin_text(plan.pin)).key("pin").open('[');
  for (const int cpu : pin) {
    if (cpu >= 0) {
      json.value(cpu);
    } else {
      json.null();
    }
  }
  json.close(']').close('}');
  return json.take();
}

}  // namespace netpipe
