// SPDX-License-Identifier: Apache-2.0
#include "engine/command_check.h"

#include <algorithm>
#include <string>

#include "plan/plan.h"
#include "sampling/sampler.h"

namespace netpipe {
namespace {

std::string text(std::uint64_t number) { return std::to_string(number); }

Outcome refuse(const std::string& why) { return failed("sent a command that the plan does not have: " + why); }

// The variant is there, and this rank takes part in it.
Outcome check_variant(const RankSetting& setting, const Command& command) {
  const std::vector<Variant>& variants = setting.resolved->variants;
  if (command.variant >= variants.size()) {
    return refuse("variant " + text(command.variant) + " of " + text(variants.size()));
  }
  const Variant& variant = variants[command.variant];
  if (setting.group->rank() < setting.process->members(variant, setting.group->size())) return ok();
  return refuse("this rank takes no part in variant " + variant.name);
}

// As many rounds as the sampler asks for (sampling/sampler.cpp: within_sample, Sampler::next).
Outcome check_length(const RankSetting& setting, const ChosenPattern& chosen, const OpenHere& open,
                     const Command& command) {
  const Pattern& pattern = *chosen.pattern;
  const Part part = chosen.part(pattern.clock_rank(open.nranks), open.nranks, command.size_bytes);
  if (command.samples < 1 || command.samples > most_samples_per_visit) {
    return refuse(text(command.samples) + " samples in a visit; there are 1 to " + text(most_samples_per_visit));
  }
  std::uint64_t most = std::max(most_rounds_per_sample, pattern.fewest_rounds(part));
  if (const std::uint64_t own = pattern.most_rounds(part); own != 0) most = std::min(most, own);
  if (command.rounds < 1 || command.rounds > most) {
    return refuse(text(command.rounds) + " rounds in a sample of pattern " + chosen.name + "; there are 1 to " +
                  text(most));
  }
  const bool verified = setting.plan->verify && open.limits.delivers != 0;
  if (!verified && chosen.buffers.fresh_percent() == 0) return ok();
  const PoolNeed pool = pool_need(*setting.plan, *setting.resolved, open.limits.alignment);
  const std::uint64_t rounds = most_rounds(pool, chosen, open.nranks, command.size_bytes);
  const std::uint64_t placed = std::max<std::uint64_t>(rounds, 2) - 1;
  if (command.samples * command.rounds <= placed) return ok();
  return refuse(text(command.samples) + " samples of " + text(command.rounds) + " rounds" +
                (verified ? " to verify" : " in fresh buffers") + ", and there is room for " + text(placed) +
                " rounds");
}

Outcome check_visit(const RankSetting& setting, const OpenHere& open, const Command& command) {
  const Resolved& resolved = *setting.resolved;
  const Variant& variant = resolved.variants[command.variant];
  if (command.pattern >= resolved.patterns.size()) {
    return refuse("pattern " + text(command.pattern) + " of " + text(resolved.patterns.size()));
  }
  const ChosenPattern& chosen = resolved.patterns[command.pattern];
  if (const std::string reason = skip_reason(chosen, variant); !reason.empty()) return refuse(reason);
  if (open.limits.lossy != 0 && chosen.pattern->loss == Loss::refused) {
    return refuse("pattern " + chosen.name + " over variant " + variant.name + ", which may lose messages");
  }
  if (const std::string reason = fresh_obstacle(chosen, *variant.module, open.limits, open.nranks); !reason.empty()) {
    return refuse(reason);
  }
  const bool planned =
      std::find(resolved.sizes.begin(), resolved.sizes.end(), command.size_bytes) != resolved.sizes.end();
  const std::uint64_t largest = open.limits.max_message_bytes;
  if (!planned || !takes_size(resolved, chosen, open.nranks, command.size_bytes) ||
      (largest != 0 && command.size_bytes > largest) || (command.size_bytes == 0 && open.limits.empty == 0)) {
    return refuse("messages of " + text(command.size_bytes) + " bytes with pattern " + chosen.name);
  }
  if (command.deadline_ns <= 0 || command.deadline_ns > longest_deadline_ns(*setting.plan)) {
    return refuse("a deadline of " + std::to_string(command.deadline_ns) + " ns");
  }
  return check_length(setting, chosen, open, command);
}

}  // namespace

std::int64_t longest_deadline_ns(const Plan& plan) {
  return static_cast<std::int64_t>((16 * plan.timeout_s + 4 * plan.budget_s) * 1e9);
}

Outcome check_command(const RankSetting& setting, const OpenHere* open, const Command& command) {
  switch (command.verb) {
    case Verb::abandon:
    case Verb::yardstick:
    case Verb::finish: return ok();
    case Verb::open:
    case Verb::visit:
    case Verb::close: break;
    default: return refuse("verb " + std::to_string(static_cast<std::int32_t>(command.verb)));
  }
  if (Outcome fine = check_variant(setting, command); !fine) return fine;
  const std::string& name = setting.resolved->variants[command.variant].name;
  if (command.verb == Verb::open) return open == nullptr ? ok() : refuse("variant " + name + " is open already");
  if (open == nullptr) return refuse("variant " + name + " is not open");
  return command.verb == Verb::close ? ok() : check_visit(setting, *open, command);
}

}  // namespace netpipe
