// SPDX-License-Identifier: Apache-2.0
#include "worker/session.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "base/clock.h"
#include "base/host_name.h"
#include "engine/command_check.h"
#include "engine/watchdog.h"
#include "machine/environment.h"
#include "record/error_record.h"
#include "record/foreign_json.h"
#include "record/json.h"
#include "worker/curves.h"
#include "worker/results/counts.h"
#include "worker/results/samples.h"

namespace netpipe {
namespace {

constexpr double yardstick_every_s = 0.25;
constexpr std::int64_t progress_every_ns = 400'000'000;
constexpr int most_restarts = 3;  // of a job that was lost
constexpr double shortest_pause_s = 1e-3;
constexpr int most_pauses = 20;  // a machine that pauses all the time is like that: from then on its visits count

}  // namespace

Session::Session(SessionSetting setting)
    : set_(std::move(setting)),
      variants_(set_.resolved->variants.size()),
      started_ns_(now_ns()),
      suspended_ns_(suspended_ns()) {}

double Session::at_s() const { return static_cast<double>(now_ns() - started_ns_) * 1e-9; }

const ChosenPattern& Session::chosen_of(const Curve& curve) const {
  return set_.resolved->patterns[curve.setting.pattern];
}

CurveName Session::name_of(const Curve& curve) const {
  return {set_.plan->launch, &set_.resolved->variants[curve.setting.variant], &chosen_of(curve)};
}

// ------------------------------------------------------------------------------------------------ what is written

void Session::write(std::string record) {
  if (file_state_) file_state_ = set_.file->write(std::move(record));
}

void Session::complain(Exit exit, std::uint32_t variant, std::optional<std::uint64_t> size_bytes,
                       const std::string& sentence) {
  exit_ = worse(exit_, exit);
  const std::string where = size_bytes ? " at " + std::to_string(*size_bytes) + " bytes" : "";
  std::fprintf(stderr, "netpipe-worker: %s%s: %s\n", set_.resolved->variants[variant].name.c_str(), where.c_str(),
               sentence.c_str());
}

void Session::write_skipped(std::uint32_t variant, const std::string& pattern, std::optional<std::uint64_t> size_bytes,
                            const std::string& reason) {
  variants_[variant].lack = reason;
  write(skipped_record(set_.plan->launch, set_.resolved->variants[variant].name, pattern, size_bytes, reason));
}

void Session::write_error(std::uint32_t variant, const ChosenPattern* pattern, std::uint64_t size_bytes,
                          const Failure& failure) {
  complain(failure.exit, variant, pattern != nullptr ? std::optional(size_bytes) : std::nullopt, failure.sentence);
  write(to_json({.launch = set_.plan->launch,
                 .variant = set_.resolved->variants[variant].name,
                 .pattern = pattern != nullptr ? pattern->name.c_str() : nullptr,
                 .size_bytes = size_bytes,
                 .rank = std::nullopt,
                 .host = host_name(),
                 .code = failure.exit,
                 .message = failure.sentence}));
}

void Session::write_done(Sampler& sampler) {
  for (const auto& [c, p] : sampler.take_done()) {
    const Curve& curve = sampler.curves()[c];
    const Point& point = curve.points[p];
    const std::span<const Block> blocks = sampler.blocks_of(c, p);
    if (!blocks.empty()) {
      write(point_record(name_of(curve), curve.setting, variants_[curve.setting.variant].opening, point, blocks));
      note_verified(c, curve, point);
    } else if (!point.losses.empty() && point.samples == 0) {
      variants_[curve.setting.variant].lack = lost_in_every_sample;
      write(lost_record(name_of(curve), point));
    } else if (point.stop == Stop::budget && point.too_slow) {
      write_skipped(curve.setting.variant, chosen_of(curve).name, point.size_bytes,
                    "one operation would take more than half of the time that a launch has for the curve; give more "
                    "--budget");
    }  // else the error or the interruption says why there is nothing
  }
}

bool Session::progress(const Sampler& sampler, bool wait) {
  Json json;
  json.open('{').field("event", "pass").field("pass", sampler.pass()).field("done", sampler.points_done());
  json.field("total", sampler.points()).field("elapsed_s", at_s()).field("left_s", sampler.left_s()).close('}');
  set_.event(json.take());
  const bool go = !wait || !set_.plan->paced || set_.wait_for_go([this] { set_.forked->keep_alive(); });
  progress_ns_ = now_ns();
  return go;
}

// ---------------------------------------------------------------------------------------------- opening and closing

// By the ranks that are here, or by the processes of a new job.
bool Session::open(std::uint32_t v) {
  Workers* workers = set_.forked;
  if (!set_.hosted.empty() && !launched(*set_.resolved->variants[v].module)) {
    workers = set_.hosted.at(set_.resolved->variants[v].ranks);
  }
  if (launched(*set_.resolved->variants[v].module)) {
    set_.forked->keep_alive();  // a server waits no longer than one job takes
    jobs_.push_back(std::make_unique<LaunchedWorkers>(*set_.job_server, *set_.plan, *set_.resolved, std::vector{v}));
    workers = jobs_.back().get();
  }
  Result<Opening> opening = workers->open(v);
  if (!opening) {
    if (workers->replaceable()) jobs_.pop_back();
    if (!Watchdog::interrupted()) write_error(v, nullptr, 0, opening.failure());
    return false;
  }
  variants_[v].workers = workers;
  variants_[v].opening = std::move(*opening);
  return true;
}

// Up to the variant that cost a forked rank. The error is written and names it; the launcher measures the others again.
// After an interrupt a rank that answers late is none that has gone.
Outcome Session::open_variants() {
  for (std::uint32_t v = 0; v < variants_.size() && !Watchdog::interrupted() && set_.forked->in_step(); ++v) {
    if (open(v)) {
      write(variant_record(set_.plan->launch, set_.resolved->variants[v], variants_[v].opening));
    } else if (Outcome here = set_.forked->all_here(); !here && !Watchdog::interrupted()) {
      set_.forked->lose();
      return here;
    }
  }
  return ok();
}

std::vector<CurveSetting> Session::curve_settings() {
  std::vector<std::optional<Opening>> openings;
  for (const Open& one : variants_) {
    openings.push_back(one.workers != nullptr ? std::optional(one.opening) : std::nullopt);
  }
  Curves curves = plan_curves(*set_.plan, *set_.resolved, openings);
  for (const Skipped& skipped : curves.skipped) {
    write_skipped(skipped.variant, skipped.pattern, skipped.size_bytes, skipped.reason);
  }
  return std::move(curves.settings);
}

void Session::close_variants() {
  for (std::uint32_t v = 0; v < variants_.size() && set_.forked->in_step(); ++v) {
    if (variants_[v].workers == nullptr) continue;
    const Result<std::vector<std::string>> counters = variants_[v].workers->close(v);
    for (std::size_t rank = 0; counters && rank < counters->size(); ++rank) {
      if ((*counters)[rank].empty()) continue;
      if (const std::optional<std::string> values = rewritten_object((*counters)[rank])) {
        write(counters_record(set_.plan->launch, set_.resolved->variants[v].name, rank, *values));
      } else {
        write_error(v, nullptr, 0, failed("rank " + std::to_string(rank) + " sent malformed counters"));
      }
    }
  }
}

// Ends all processes but this one. What a rank used at most: where all variants are launched or on other hosts, this
// process only conducts, and the forked ranks only measure yardsticks. whole: no forked rank was lost.
MemoryUse Session::finish(bool whole) {
  const bool any_forked = set_.hosted.empty() && !own_variants(*set_.resolved).empty();
  const MemoryUse forked = whole ? set_.forked->finish() : set_.forked->memory();
  MemoryUse most = any_forked ? forked : MemoryUse{};
  for (const auto& [ranks, workers] : set_.hosted) most.include(workers->finish());
  for (const std::unique_ptr<LaunchedWorkers>& job : jobs_) most.include(job->finish());
  return most;
}

// -------------------------------------------------------------------------------------------------------- measuring

void Session::take_yardstick() {
  Yardstick y = set_.forked->yardstick();
  int state = states_.classify(y);
  if (state_ >= 0 && state != state_) {
    // One yardstick alone may have met an interrupt: a second look decides.
    y = set_.forked->yardstick();
    state = states_.classify(y);
  }
  state_ = state;
  clock_cost_ns_ = y.clock.cost_ns;
  yardstick_at_s_ = at_s();
  const std::optional<ProcessorTime> now = processor_time();
  const std::optional<double> stolen = stolen_share(processor_time_, now);
  processor_time_ = now;
  clock_source_ = clock_source();
  write(yardstick_record(set_.plan->launch, yardstick_at_s_, state_, y, clock_source_, stolen));
}

void Session::take_yardstick(Sampler& sampler) {
  const std::optional<std::string> before = clock_source_;
  take_yardstick();
  if (clock_source_ != before) sampler.clock_costs(clock_cost_ns_);
}

Outcome Session::measure(Sampler& sampler) {
  bool stopped = false;  // by the user, or because nobody wants it to go on
  while (const std::optional<Visit> next = sampler.next()) {
    write_done(sampler);
    if (!file_state_) return file_state_;
    stopped = Watchdog::interrupted() || (now_ns() - progress_ns_ > progress_every_ns && !progress(sampler, true));
    if (stopped) break;
    if (Outcome here = set_.forked->all_here(); !here) return lose_forked(sampler, here.failure());
    if (!set_.forked->in_step()) return failed("a rank fell silent while a variant was closed");
    // Never within a block, whose visits are compared.
    if (block_ != next->block && at_s() - yardstick_at_s_ > yardstick_every_s) take_yardstick(sampler);
    block_ = next->block;
    // A failure: a forked rank has gone, or the file takes no more. The samples are in the file; no point is made of a
    // curve that broke off, because the launcher measures the other variants again.
    if (Outcome done = visit(sampler, *next); !done) return done;
  }
  if (stopped || Watchdog::interrupted()) {
    sampler.interrupt();
    exit_ = Exit::interrupted;
  } else if (Outcome here = set_.forked->all_here(); !here) {
    return lose_forked(sampler, here.failure());
  }
  write_done(sampler);
  return file_state_;
}

// One that ended while it waited, as all do while the processes of a job measure. Where no variant of these ranks is
// open they measure yardsticks alone, and the launcher has nothing else to measure again: what there is becomes points.
Outcome Session::lose_forked(Sampler& sampler, const Failure& failure) {
  set_.forked->lose();
  bool any = false;
  for (std::uint32_t v = 0; v < variants_.size(); ++v) {
    if (variants_[v].workers != set_.forked) continue;
    write_error(v, nullptr, 0, failure);
    any = true;
  }
  if (!any) {
    std::fprintf(stderr, "netpipe-worker: %s\n", failure.sentence.c_str());
    sampler.interrupt();
  }
  write_done(sampler);
  return failure;
}

Outcome Session::visit(Sampler& sampler, const Visit& v) {
  const Curve& curve = sampler.curves()[v.curve];
  Command command{.verb = Verb::visit, .variant = curve.setting.variant, .pattern = curve.setting.pattern};
  command.size_bytes = curve.points[v.point].size_bytes;
  command.samples = v.samples;
  command.rounds = v.rounds;
  command.visit = ++visits_;
  const auto longest_ns = static_cast<double>(longest_deadline_ns(*set_.plan));
  command.deadline_ns = static_cast<std::int64_t>(std::min(set_.plan->timeout_s * 1e9 + 4 * v.expected_ns, longest_ns));
  note_suspension();
  const double began_s = at_s();
  Workers* const workers = variants_[command.variant].workers;
  const Result<Report> report = workers->visit(command, gathered_);
  if (report && Watchdog::interrupted()) return ok();
  if (!report) {
    workers->abandon();
    variants_[command.variant].workers = nullptr;
    if (Watchdog::interrupted()) return ok();
    lose(sampler, v, report.failure(), workers->replaceable());
    // Without one of the forked ranks nothing more can be measured here.
    return workers->replaceable() ? ok() : Outcome(report.failure());
  }
  if (report->status == NP_UNSUPPORTED) {
    if (report->unanimous != 0) {
      leave_out(sampler, v, report->sentence);
    } else {
      write_skipped(command.variant, chosen_of(curve).name, command.size_bytes, report->sentence);
      give_up(sampler, v, true, 0);  // some ranks wait for messages that the others cannot send
    }
  } else if (report->status == verification_failed) {
    lose(sampler, v, {Exit::gate, report->sentence}, false);
  } else if (report->status == processors_changed) {
    write_error(command.variant, &chosen_of(curve), command.size_bytes, {Exit::failed, report->sentence});
    leave(sampler, command.variant);
  } else if (report->status != NP_OK) {
    lose(sampler, v, {Exit::failed, report->sentence}, workers->replaceable());
  } else if (report->paused_ms != 0 && pauses_++ < most_pauses) {
    note_pause(sampler, v, report->paused_ms * 1e-3, began_s);
    return file_state_;
  } else {
    take(sampler, v, *report, began_s);
    return file_state_;
  }
  return ok();
}

// Between two visits, where it cost nothing.
void Session::note_suspension() {
  const std::int64_t before_ns = std::exchange(suspended_ns_, suspended_ns());
  const double seconds = static_cast<double>(suspended_ns_ - before_ns) * 1e-9;
  if (seconds < shortest_pause_s) return;
  write(pause_record(set_.plan->launch, nullptr, {.at_s = at_s(), .seconds = seconds, .suspended = true}));
}

// The visit is no number: one of its samples lasted over the pause, and those after it met cold caches. It is made up
// for later, out of a budget of which the pause took nothing.
void Session::note_pause(Sampler& sampler, const Visit& v, double paused_s, double began_s) {
  const Curve& curve = sampler.curves()[v.curve];
  const std::int64_t before_ns = std::exchange(suspended_ns_, suspended_ns());
  const double suspended_s = std::min(paused_s, static_cast<double>(suspended_ns_ - before_ns) * 1e-9);
  const double stopped_s = paused_s - suspended_s;  // at_s went on meanwhile
  const CurveName name = name_of(curve);
  sampler.report(v, {}, std::max(at_s() - began_s - stopped_s, 0.0), began_s, state_);
  write(pause_record(set_.plan->launch, &name,
                     {.at_s = began_s,
                      .seconds = paused_s,
                      .suspended = suspended_s > stopped_s,
                      .size_bytes = curve.points[v.point].size_bytes}));
}

void Session::take(Sampler& sampler, const Visit& v, const Report& report, double began_s) {
  const Curve& curve = sampler.curves()[v.curve];
  const std::uint64_t size_bytes = curve.points[v.point].size_bytes;
  say_what_was_refused(v.curve, curve);
  const Opening& opening = variants_[curve.setting.variant].opening;
  const Samples samples = take_samples(chosen_of(curve),
                                       {.nranks = opening.nranks,
                                        .size_bytes = size_bytes,
                                        .samples = v.samples,
                                        .rounds = v.rounds,
                                        .calibrating = v.pass < 0},
                                       gathered_);
  const double lasted_s = at_s() - began_s;
  // A simulator computes for as long as it takes, of which the samples show nothing: many messages that nobody has
  // received yet take it seconds.
  const double span_ns = opening.simulated ? lasted_s * 1e9 : samples.span_ns;
  const std::size_t dropped = sampler.report(v, samples.ns, lasted_s, began_s, state_, samples.beside,
                                             span_ns / static_cast<double>(v.samples));
  const Layer& layer = *set_.resolved->variants[curve.setting.variant].module;
  std::vector<std::int64_t> counters;
  for (const std::vector<std::int64_t>& of_rank : gathered_.counters) add_counters(layer, of_rank, counters);
  Point& point = sampler.at(v);
  point.verified_bytes += report.verified_bytes;
  if (v.pass >= 0) {
    add_counters(layer, counters, point.counters);
    add_to_measures(layer, counters, point.of_layer);
    if (samples.losses.messages > 0) point.losses.push_back(samples.losses);
    point.losses_of_ranks.resize(samples.losses_of_ranks.size());
    for (std::size_t rank = 0; rank < samples.losses_of_ranks.size(); ++rank) {
      point.losses_of_ranks[rank].push_back(samples.losses_of_ranks[rank]);
    }
  }
  sampled_ = true;
  write(sample_record(name_of(curve),
                      {.size_bytes = size_bytes,
                       .operations = v.rounds * curve.setting.operations_per_round,
                       .pass = v.pass,
                       .block = v.block,
                       .state = state_,
                       .at_s = at_s(),
                       .dropped = dropped,
                       .verified_bytes = report.verified_bytes,
                       .counters = counters_json(layer, counters, false)},
                      samples));
}

// ------------------------------------------------------------------------------------------------------- giving up

// No rank has this operation with this size. That may be so of the size, as of a collective without an element; where
// the next one is refused too and none was measured, it is so of all.
void Session::leave_out(Sampler& sampler, const Visit& v, const std::string& why) {
  const Curve& curve = sampler.curves()[v.curve];
  const bool measured =
      std::any_of(curve.points.begin(), curve.points.end(), [](const Point& one) { return one.round_ns > 0; });
  sampler.forget(v);
  if (!measured && refused_.erase(v.curve) != 0) {
    write_skipped(curve.setting.variant, chosen_of(curve).name, std::nullopt, why);
    sampler.give_up(v.curve, Stop::error);
    return;
  }
  refused_[v.curve] = {curve.points[v.point].size_bytes, why};
  if (measured) say_what_was_refused(v.curve, curve);
  sampler.give_up_size(v, Stop::error);
}

void Session::say_what_was_refused(std::size_t curve, const Curve& of) {
  const auto one = refused_.extract(curve);
  if (one.empty()) return;
  write_skipped(of.setting.variant, chosen_of(of).name, one.mapped().first, one.mapped().second);
}

// Messages may still be in flight: nothing more can be believed of what is open now, and nothing of this curve from
// from_bytes on. The variant is opened again for the rest: smaller sizes, which have been seen to work, and other
// patterns.
void Session::give_up(Sampler& sampler, const Visit& v, bool again, std::uint64_t from_bytes) {
  const std::uint32_t variant = sampler.curves()[v.curve].setting.variant;
  sampler.forget(v);
  if (again) sampler.give_up(v.curve, Stop::error, from_bytes);
  // Whoever is silent now is no longer in step. The sentence stands beside that of what went wrong before, if any did.
  if (Outcome closed = close_one(variant); !closed && !Watchdog::interrupted()) {
    write_error(variant, nullptr, 0, failed("while it was closed: " + closed.failure().sentence));
  }
  const auto of_variant = [&](const Curve& curve) { return curve.setting.variant == variant && !curve.over; };
  const bool left = std::any_of(sampler.curves().begin(), sampler.curves().end(), of_variant);
  again = again && left && set_.forked->in_step();
  if (again && variants_[variant].restarts++ < most_restarts && open(variant)) return;
  leave(sampler, variant);
}

Outcome Session::close_one(std::uint32_t variant) {
  Workers* const workers = std::exchange(variants_[variant].workers, nullptr);
  if (workers == nullptr) return ok();
  const Result<std::vector<std::string>> counters = workers->close(variant);
  workers->abandon();
  return counters || workers->replaceable() ? ok() : Outcome(counters.failure());
}

// Nothing more is measured of this variant. What has been measured becomes points.
void Session::leave(Sampler& sampler, std::uint32_t variant) {
  (void)static_cast<bool>(close_one(variant));
  for (std::size_t c = 0; c < sampler.curves().size(); ++c) {
    if (sampler.curves()[c].setting.variant == variant) sampler.give_up(c, Stop::error);
  }
}

void Session::lose(Sampler& sampler, const Visit& v, const Failure& failure, bool again) {
  const Curve& curve = sampler.curves()[v.curve];
  const std::uint64_t size_bytes = curve.points[v.point].size_bytes;
  write_error(curve.setting.variant, &chosen_of(curve), size_bytes, failure);
  give_up(sampler, v, again, size_bytes);
}

void Session::note_verified(std::size_t curve, const Curve& of, const Point& point) {
  const Opening& opening = variants_[of.setting.variant].opening;
  const ChosenPattern& chosen = chosen_of(of);
  const bool moves = opening.limits.idle == 0 && point.size_bytes > 0 &&
                     !chosen.pattern->sizeless(chosen.part(0, opening.nranks, point.size_bytes));
  if (!set_.plan->verify || !moves || point.verified_bytes != 0) return;
  std::uint64_t& smallest = unverified_.try_emplace(curve, point.size_bytes).first->second;
  smallest = std::min(smallest, point.size_bytes);
}

void Session::say_what_was_not_verified(const Sampler& sampler) {
  for (const auto& [c, size_bytes] : unverified_) {
    const Curve& curve = sampler.curves()[c];
    const bool delivers = variants_[curve.setting.variant].opening.limits.delivers != 0;
    const char* const why = delivers ? "none of its bytes could be checked" : "its bytes arrive nowhere";
    write_error(curve.setting.variant, &chosen_of(curve), size_bytes,
                unavailable("not verified: " + std::string(why) + " (" + chosen_of(curve).name + ")"));
  }
}

// A run that ends well has measured something.
void Session::say_that_nothing_was_measured() {
  for (std::uint32_t v = 0; v < variants_.size(); ++v) {
    const std::string& lack = variants_[v].lack;
    if (!lack.empty()) write_error(v, nullptr, 0, unavailable("nothing could be measured: " + lack));
  }
}

// ------------------------------------------------------------------------------------------------------- the whole

Exit Session::run() {
  write(plan_record(*set_.plan, *set_.resolved, set_.hash, set_.pin));
  for (const std::string& environment : set_.environments) write(environment);
  const Outcome opened = open_variants();
  if (set_.forked->in_step()) take_yardstick();
  SamplerSetting setting;
  setting.target = set_.plan->target;
  setting.budget_s = launch_budget_s(*set_.plan);
  setting.clock_cost_ns = clock_cost_ns_;
  setting.seed = set_.plan->seed + static_cast<std::uint64_t>(set_.plan->launch);
  Sampler sampler(setting, curve_settings());
  const auto open = std::count_if(variants_.begin(), variants_.end(), [](const Open& one) { return one.workers; });
  Json ready;
  ready.open('{').field("event", "ready").field("variants", open).field("points", sampler.points());
  ready.field("budget_s", sampler.left_s()).close('}');
  set_.event(ready.take());
  progress_ns_ = now_ns();
  const Outcome measured = opened ? measure(sampler) : opened;
  for (std::size_t curve = 0; curve < sampler.curves().size(); ++curve) {
    say_what_was_refused(curve, sampler.curves()[curve]);
  }
  if (measured) {
    if (set_.forked->in_step()) take_yardstick();
    if (!sampled_ && exit_ == Exit::done) say_that_nothing_was_measured();
    say_what_was_not_verified(sampler);
    close_variants();
    progress(sampler, false);
  } else if (file_state_) {
    // Without its ranks the measurement is over, whatever was planned.
    exit_ = worse(exit_, measured.failure().exit);
  }
  return end(sampler, finish(set_.forked->in_step() && static_cast<bool>(measured)));
}

Exit Session::end(const Sampler& sampler, const MemoryUse& memory) {
  write(launch_record({.launch = set_.plan->launch,
                       .seconds = at_s(),
                       .passes = sampler.pass() + 1,
                       .memory = memory,
                       .states = states_.count()}));
  if (!file_state_) {
    std::fprintf(stderr, "netpipe-worker: %s\n", file_state_.failure().sentence.c_str());
    exit_ = worse(exit_, Exit::failed);
  }
  Json json;
  json.open('{').field("event", "end").field("exit", static_cast<int>(exit_)).close('}');
  set_.event(json.take());
  return exit_;
}

}  // namespace netpipe
