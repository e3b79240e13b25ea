// SPDX-License-Identifier: Apache-2.0
#include "engine/visit.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/clock.h"
#include "engine/clock_sync.h"
#include "engine/messages.h"
#include "engine/opening/facts.h"
#include "engine/watchdog.h"
#include "patterns/kit/verify.h"

namespace netpipe {
namespace {

Stage stage_of(const RankSetting& setting, const Part& part, Endpoint& endpoint, const Command& command,
               VisitMemory& memory, Report& report) {
  Stage stage{part, endpoint.module(), endpoint.handle()};
  stage.far_in = endpoint.far_in();
  stage.far_out = endpoint.far_out();
  stage.near_in = endpoint.pool().incoming_base();
  stage.near_out = endpoint.pool().outgoing_base();
  stage.requests = memory.requests.data();
  stage.memory = endpoint.pool().memory();
  stage.token_out = endpoint.pool().token_out();
  stage.token_in = endpoint.pool().token_in();
  stage.seed = message_seed(setting.plan->seed, command.visit, 0, 0);
  stage.oversubscribed = setting.oversubscribed;
  stage.message = endpoint.message();
  stage.progress = &report.progress;
  stage.abort = Watchdog::abort_flag();
  if (endpoint.limits().lossy != 0) stage.lost = memory.lost.data();
  return stage;
}

// Whose clock does not count reads it all the same, so that all ranks do the same: there is room for the notes of both.
void make_room(const Pattern& pattern, const Part& part, const Command& command, VisitMemory& memory) {
  const std::uint64_t most =
      pattern.evaluate != nullptr ? command.samples * pattern.notes(part, command.rounds) : 2 * command.samples + 1;
  memory.requests.resize(std::max<std::size_t>(memory.requests.size(), pattern.requests(part, command.rounds)));
  memory.notes.assign(notes_of(pattern, part, command.samples, command.rounds), 0);
  memory.scratch.resize(std::max<std::size_t>(memory.scratch.size(), most));
}

// What rank and layer have to say of a good visit beside the notes.
void tell_counts(const Endpoint& endpoint, VisitMemory& memory, Report& report) {
  read_counters(endpoint.module(), endpoint.handle(), memory.counters);
  count_since(endpoint.module(), memory.counters_before, memory.counters);
  report.counters = static_cast<std::uint32_t>(memory.counters.size());
  report.losses = static_cast<std::uint32_t>(memory.lost.size());
}

// Why the pattern cannot run with what is open, nullptr where it can: the same on all ranks.
const char* obstacle(const RankSetting& setting, const ChosenPattern& chosen, const Endpoint& endpoint) {
  const Pattern& pattern = *chosen.pattern;
  if (pattern.computes && !setting.process->computes()) return "computation takes no time on a simulated machine";
  if (chosen.reaches() && endpoint.far_in() == nullptr) return endpoint.unreachable().c_str();
  return nullptr;
}

np_status prepare_module(const Pattern& pattern, Endpoint& endpoint, const Stage& stage) {
  const Layer& module = endpoint.module();
  np_status status = NP_OK;
  if (module.prepare != nullptr) {
    const np_visit visit{sizeof visit,
                         static_cast<std::uint32_t>(pattern.reach(stage)),
                         stage.size_bytes,
                         stage.outgoing.places(),
                         stage.incoming.places(),
                         groups_of(pattern, stage),
                         pattern.in_pairs ? std::uint32_t{NP_VISIT_IN_PAIRS} : 0U};
    status = module.prepare(endpoint.handle(), &visit);
  }
  if (status == NP_OK && pattern.resets && module.reset != nullptr) status = module.reset(endpoint.handle());
  return status;
}

Standstill standstill() { return {Watchdog::stalled_ns(), suspended_ns()}; }

void explain(const Endpoint& endpoint, np_status status, Cause cause, std::int64_t deadline_ns, Report& report) {
  const char* const name = endpoint.module().name;
  const char* const detail = endpoint.detail(status);
  if (cause == Cause::deadline) {
    std::snprintf(report.sentence, sizeof report.sentence,
                  "rank %d: module %s did not complete within %.1f s and was stopped: %s", endpoint.rank(), name,
                  static_cast<double>(deadline_ns) * 1e-9, detail);
  } else {
    std::snprintf(report.sentence, sizeof report.sentence, "rank %d: module %s: %s", endpoint.rank(), name, detail);
  }
}

}  // namespace

std::uint32_t paused_ms(const Standstill& before, const Standstill& after) {
  constexpr std::int64_t ms = 1'000'000;
  const std::int64_t suspended_ns = after.suspended_ns - before.suspended_ns;
  const std::int64_t all_ns = (suspended_ns >= ms ? suspended_ns : 0) + after.stalled_ns - before.stalled_ns;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(all_ns / ms, 0, UINT32_MAX));
}

Report run_visit(const RankSetting& setting, Group& group, Endpoint& endpoint, const Command& command,
                 VisitMemory& memory) {
  Report report;
  const ChosenPattern& chosen = setting.resolved->patterns[command.pattern];
  const Pattern& pattern = *chosen.pattern;
  const Part part = chosen.part(endpoint.rank(), endpoint.nranks(), command.size_bytes);
  make_room(pattern, part, command, memory);
  memory.lost.assign(endpoint.limits().lossy != 0 ? command.samples : 0, 0);
  Stage stage = stage_of(setting, part, endpoint, command, memory, report);
  const VisitMessages messages{.chosen = &chosen,
                               .rounds = all_rounds(pattern, part, command.samples, command.rounds),
                               .verify = setting.plan->verify && endpoint.limits().delivers != 0,
                               .seed = setting.plan->seed,
                               .visit = command.visit};
  std::vector<const char*> lost_places;
  if (stage.lost != nullptr && messages.verify) {
    lost_places.reserve(messages.rounds * pattern.arrivals(stage));
    stage.lost_places = &lost_places;
  }
  endpoint.clear_message();
  const Standstill before = standstill();

  const StuckIn where{setting.resolved->variants[command.variant].name, chosen.name.c_str(), command.size_bytes,
                      endpoint.rank()};
  Watchdog::arm(command.deadline_ns, &group,
                setting.process->last_words(where, "the module did not return within " +
                                                       std::to_string(command.deadline_ns / 1'000'000) +
                                                       " ms, nor after it was told to give up; the process was ended"),
                setting.process->last_words_fd(), Interrupts::ignore);
  np_status status = NP_OK;
  if (Outcome there = prepare_messages(messages, endpoint.pool(), stage); !there) {
    status = NP_FAILED;
    std::snprintf(stage.message.data(), stage.message.size(), "%s", there.failure().sentence.c_str());
  }
  if (const char* const why = obstacle(setting, chosen, endpoint); why != nullptr && status == NP_OK) {
    status = NP_UNSUPPORTED;
    std::snprintf(stage.message.data(), stage.message.size(), "%s", why);
  }
  if (status == NP_OK) status = stage.memory.take_status();
  if (status == NP_OK) status = prepare_module(pattern, endpoint, stage);
  read_counters(endpoint.module(), endpoint.handle(), memory.counters_before);
  // Also after a failure, or a peer would take the report of it for the sign that it waits for.
  if (!group.barrier() && status == NP_OK) status = NP_ABORTED;
  Watchdog::heed_interrupts();
  if (status == NP_OK && pattern.synchronised) status = synchronise_clocks(endpoint, stage);
  if (status == NP_OK) {
    std::int64_t* const notes = memory.notes.empty() ? memory.scratch.data() : memory.notes.data();
    status = pattern.run(stage, command.samples, command.rounds, notes);
  }
  if (status == NP_OK) status = setting.process->after_visit(endpoint);
  if (status == NP_OK) tell_counts(endpoint, memory, report);
  Checked checked;
  if (status == NP_OK && messages.verify) checked = check_messages(messages, stage);
  if (status == NP_OK) status = stage.memory.take_status();
  if (status == NP_OK) endpoint.pool().release_fresh();  // else a message may still be on its way into them
  const Cause cause = Watchdog::disarm();

  report.paused_ms = paused_ms(before, standstill());
  report.verified_bytes = checked.bytes;
  if (status == NP_OK && !checked.fault.empty()) {
    report.status = verification_failed;
    std::snprintf(report.sentence, sizeof report.sentence, "%s", checked.fault.c_str());
    return report;
  }
  report.status = status;
  report.cause = static_cast<std::uint32_t>(cause);
  if (status != NP_OK) explain(endpoint, status, cause, command.deadline_ns, report);
  return report;
}

}  // namespace netpipe
