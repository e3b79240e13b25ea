// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <algorithm>
#include <cstdio>

#include "engine/command_check.h"
#include "engine/processes/pinning.h"
#include "engine/watchdog.h"

namespace netpipe {

void MemoryUse::include(const MemoryUse& other) {
  rss_bytes = std::max(rss_bytes, other.rss_bytes);
  buffer_bytes = std::max(buffer_bytes, other.buffer_bytes);
}

Engine::Engine(RankSetting setting) : set_(std::move(setting)), endpoints_(set_.resolved->variants.size()) {}

// What was not closed after a failure. Its module may hang here as well.
Engine::~Engine() {
  for (std::uint32_t variant = 0; variant < endpoints_.size(); ++variant) {
    if (endpoints_[variant]) close(variant);
  }
}

Group& Engine::group(std::uint32_t variant) {
  const int members = set_.process->members(set_.resolved->variants[variant], whole().size());
  if (members == whole().size()) return whole();
  std::unique_ptr<Group>& subgroup = subgroups_[members];
  if (!subgroup) subgroup = make_subgroup(whole(), members);
  return *subgroup;
}

Result<Opening> Engine::open(std::uint32_t variant) {
  Result<Opening> opening = open_variant(set_, group(variant), variant, endpoints_[variant], common_pool_, in_step_);
  note_buffers();
  if (cpus_.empty()) cpus_ = usable_cpus();  // a library may have chosen them while it opened
  return opening;
}

// The processors that this rank was placed on; none where several ranks share a process.
std::vector<int> Engine::placed() const {
  if (set_.process->in_process() > 1) return {};
  const int pinned = set_.process->cpu();
  return pinned >= 0 ? std::vector<int>{pinned} : cpus_;
}

void Engine::note_buffers() {
  std::uint64_t bytes = common_pool_ ? common_pool_->bytes() : 0;
  for (const auto& endpoint : endpoints_) {
    if (endpoint && endpoint->has_own_pool(common_pool_.get())) bytes += endpoint->pool().bytes();
  }
  most_buffer_bytes_ = std::max(most_buffer_bytes_, bytes);
}

Report Engine::visit(const Command& command) {
  Endpoint& endpoint = *endpoints_[command.variant];
  Report report = run_visit(set_, group(command.variant), endpoint, command, visit_memory_);
  if (report.status != verification_failed) check_placement(command.variant, report);
  most_fresh_bytes_ = std::max(most_fresh_bytes_, endpoint.pool().most_fresh_bytes());
  return report;
}

// After the visit, whose times are known by then. It may have ended elsewhere than it began, or not have come to an end
// because two ranks that poll were put on one processor.
void Engine::check_placement(std::uint32_t variant, Report& report) const {
  const Outcome there = check_cpus(placed());
  if (there) return;
  report.status = processors_changed;
  std::snprintf(report.sentence, sizeof report.sentence, "rank %d %s", endpoints_[variant]->rank(),
                there.failure().sentence.c_str());
}

Result<std::vector<std::string>> Engine::counters(std::uint32_t variant) {
  Watchdog::arm_talk(set_.timeout_ns());
  const std::string mine = endpoints_[variant] ? endpoints_[variant]->counters() : "";
  Result<std::vector<std::string>> all = group(variant).gather_text(mine);
  Watchdog::disarm();
  if (!all) in_step_ = false;
  return all;
}

void Engine::close(std::uint32_t variant) { close_variant(set_, endpoints_[variant]); }

Yardstick Engine::yardstick() {
  Yardstick y;
  const int rank = whole().rank();
  // Two ranks are enough: many at once would measure each other, and be late for the barrier.
  const bool measures = rank < 2;
  if (measures) {
    yardstick_memory_.resize(yardstick_memory_bytes);  // at the first one: the ranks of a job never take any
    y = measure_alone(yardstick_memory_);
  }
  if (set_.shared_page == nullptr || whole().size() == 1) return y;
  // Watched: a barrier that some ranks leave early would leave its tokens to the next one.
  SharedPage& page = *set_.shared_page;
  if (!check_cpus(placed())) __atomic_store_n(&page.moved, 1, __ATOMIC_RELEASE);
  Watchdog::arm(set_.timeout_ns(), set_.group, Watchdog::stuck_in("measuring a yardstick"), -1, Interrupts::ignore);
  if (whole().barrier() && measures) {
    const bool yields = set_.oversubscribed || __atomic_load_n(&page.moved, __ATOMIC_ACQUIRE) != 0;
    measure_together(page, rank, Watchdog::abort_flag(), yields, y);
  }
  Watchdog::disarm();
  return y;
}

MemoryUse Engine::memory() const {
  return {most_resident_bytes() / static_cast<std::uint64_t>(set_.process->in_process()),
          most_buffer_bytes_ + most_fresh_bytes_};
}

Outcome Engine::check(const Command& command) const {
  const bool open = command.variant < endpoints_.size() && endpoints_[command.variant] != nullptr;
  OpenHere here;
  if (open) here = {endpoints_[command.variant]->nranks(), endpoints_[command.variant]->limits()};
  Outcome fine = check_command(set_, open ? &here : nullptr, command);
  if (fine) return fine;
  return failed(whole().name(0) + " " + fine.failure().sentence + "; is the same netpipe installed there?");
}

Outcome Engine::carry_out(const Command& command) {
  switch (command.verb) {
    case Verb::abandon:
    case Verb::finish: break;
    case Verb::yardstick: yardstick(); break;
    case Verb::open:
      // A failure is member 0's to report: all ranks came to the same one.
      (void)static_cast<bool>(open(command.variant));
      if (!in_step_) return failed("rank 0 was silent while a variant was opened");
      break;
    case Verb::close: {
      const Result<std::vector<std::string>> sent = counters(command.variant);
      if (!sent) return sent.failure();
      close(command.variant);
      break;
    }
    case Verb::visit: {
      const Report report = visit(command);
      if (Outcome sent = whole().send(0, &report, sizeof report); !sent) return sent;
      if (report.status != NP_OK) break;
      for (const auto* numbers : {&visit_memory_.notes, &visit_memory_.counters, &visit_memory_.lost}) {
        if (numbers->empty()) continue;
        const Outcome told = whole().send(0, numbers->data(), numbers->size() * sizeof(std::int64_t));
        if (!told) return told;
      }
    }
  }
  return ok();
}

Outcome Engine::follow_commands() {
  for (;;) {
    Command command;
    if (set_.silence_ns > 0) Watchdog::arm(set_.silence_ns, nullptr, {}, -1);
    Outcome got = whole().recv(0, &command, sizeof command);
    Watchdog::disarm();
    if (!got) return got;
    if (Outcome fine = check(command); !fine) return fine;
    if (command.verb == Verb::finish) {
      const MemoryUse use = memory();
      return whole().send(0, &use, sizeof use);
    }
    if (Outcome done = carry_out(command); !done) return done;
  }
}

}  // namespace netpipe
