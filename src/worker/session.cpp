// SPDX-License-Identifier: Apache-2.0
#include "worker/session.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <utility>

#include "engine/watchdog.h"
#include "record/json.h"
#include "sampling/histogram.h"
#include "sampling/statistics.h"

namespace netpipe {
namespace {

constexpr double yardstick_every_s = 0.25;
constexpr std::int64_t progress_every_ns = 400'000'000;
constexpr int most_restarts = 3;  // of a job that was lost

// The more serious of two outcomes: what failed outranks what is missing, a wrong byte outranks both.
Exit worse(Exit a, Exit b) {
  static constexpr std::array order = {Exit::done,   Exit::unavailable, Exit::usage,
                                       Exit::failed, Exit::gate,        Exit::interrupted};
  return std::find(order.begin(), order.end(), a) < std::find(order.begin(), order.end(), b) ? b : a;
}

// The measures and cells of a point: their medians over all samples, and over the visits.
void add_beside(Json& json, const Mode& mode, int nranks, std::uint64_t size_bytes, std::span<const Block> blocks,
                std::size_t leading) {
  const Pattern& pattern = *mode.pattern;
  json.key("measures").open('[');
  for (std::size_t m = 0; m < pattern.measures.size(); ++m) {
    std::vector<Block> own;
    for (const Block& block : blocks) {
      const std::vector<float>& values = block.beside.measures[m];
      own.push_back({block.at_s, {values.begin() + static_cast<std::ptrdiff_t>(leading), values.end()}});
    }
    const Estimate e = estimate(own);
    json.open('{').field("name", pattern.measures[m].name).field("unit", pattern.measures[m].unit);
    json.field("median", e.median);
    e.bounded ? json.field("low", e.low).field("high", e.high) : json.field_null("low").field_null("high");
    json.close('}');
  }
  json.close(']').key("cells").open('[');
  const Part part = mode.part(pattern.every_rank ? 0 : pattern.clock_rank(nranks), nranks, size_bytes);
  for (std::uint32_t c = 0; c < pattern.cells(part); ++c) {
    const Cell cell = pattern.cell(part, c);
    std::vector<float> medians;
    std::uint64_t slowest = 0;
    for (const Block& block : blocks) {
      medians.push_back(block.beside.cells[c]);
      slowest += block.beside.slowest[c];
    }
    std::sort(medians.begin(), medians.end());
    json.open('{').field("rank", cell.rank);
    cell.peer >= 0 ? json.field("peer", cell.peer) : json.field_null("peer");
    json.field("median_ns", quantile(medians, 0.5)).field("slowest", slowest).close('}');
  }
  json.close(']');
}

std::string text_of(const char* text) { return text != nullptr ? text : ""; }

}  // namespace

Session::Session(SessionSetting setting)
    : set_(std::move(setting)),
      started_ns_(now_ns()),
      crews_(set_.resolved->variants.size(), nullptr),
      openings_(crews_.size()),
      restarts_(crews_.size(), 0),
      lacks_(crews_.size()) {}

double Session::at_s() const { return static_cast<double>(now_ns() - started_ns_) * 1e-9; }

Outcome Session::write(std::string line) {
  if (!file_state_) return file_state_;
  file_state_ = set_.file->write(std::move(line));
  return file_state_;
}

void Session::complain(Exit exit, std::size_t variant, std::uint64_t size_bytes, const std::string& sentence) {
  exit_ = worse(exit_, exit);
  const Variant& v = set_.resolved->variants[variant];
  std::fprintf(stderr, "netpipe-worker: %s%s%s: %s\n", v.name.c_str(), size_bytes != 0 ? " at " : "",
               size_bytes != 0 ? (std::to_string(size_bytes) + " bytes").c_str() : "", sentence.c_str());
}

void Session::skip(std::uint32_t variant, const char* pattern, std::uint64_t size_bytes, const std::string& reason) {
  lacks_[variant] = reason;
  Json json;
  json.open('{').field("type", "skipped").field("launch", set_.plan->launch);
  json.field("variant", set_.resolved->variants[variant].name);
  json.field("pattern", pattern);
  if (size_bytes != 0) {
    json.field("size_bytes", size_bytes);
  } else {
    json.field_null("size_bytes");
  }
  json.field("reason", reason).close('}');
  (void)static_cast<bool>(write(json.take()));
}

void Session::write_error(std::uint32_t variant, const char* pattern, std::uint64_t size_bytes, Exit exit,
                          const std::string& sentence) {
  complain(exit, variant, size_bytes, sentence);
  Json json;
  json.open('{').field("type", "error").field("launch", set_.plan->launch);
  json.field("variant", set_.resolved->variants[variant].name);
  if (pattern != nullptr) {
    json.field("pattern", pattern).field("size_bytes", size_bytes);
  } else {
    json.field_null("pattern").field_null("size_bytes");
  }
  json.field_null("rank").field("host", host_name());
  json.field("code", static_cast<int>(exit)).field("message", sentence).close('}');
  (void)static_cast<bool>(write(json.take()));
}

// By the ranks that are here, or by a new job.
bool Session::open(std::uint32_t v) {
  const bool job = launched(*set_.resolved->variants[v].module);
  if (job) set_.native->sign_of_life();  // a server waits no longer than one job takes
  if (job) jobs_.push_back(std::make_unique<JobCrew>(*set_.office, *set_.plan, *set_.resolved));
  Crew* crew = job ? static_cast<Crew*>(jobs_.back().get()) : set_.native;
  Result<Opening> opening = crew->open(v);
  if (!opening) {
    if (job) jobs_.pop_back();
    if (opening.failure().exit != Exit::interrupted) {
      write_error(v, nullptr, 0, opening.failure().exit, opening.failure().sentence);
    }
    return false;
  }
  crews_[v] = crew;
  openings_[v] = std::move(*opening);
  return true;
}

void Session::open_variants() {
  for (std::uint32_t v = 0; v < set_.resolved->variants.size(); ++v) {
    const Variant& variant = set_.resolved->variants[v];
    if (Watchdog::interrupted()) return;
    if (!open(v)) continue;
    const Layer& m = *variant.module;
    Json json;
    json.open('{').field("type", "variant").field("launch", set_.plan->launch).field("variant", variant.name);
    json.field("module", m.name).field("version", m.version).key("below");
    if (const std::string below = !openings_[v].below.empty() ? openings_[v].below : text_of(m.below); !below.empty()) {
      json.value(below);
    } else {
      json.null();
    }
    json.key("adds");
    m.adds != nullptr ? json.value(m.adds) : json.null();
    openings_[v].launch_s >= 0 ? json.field("launch_s", openings_[v].launch_s) : json.field_null("launch_s");
    json.key("ranks").open('[');
    for (const std::string& settings : openings_[v].settings) json.raw(settings);
    json.close(']').close('}');
    (void)static_cast<bool>(write(json.take()));
  }
}

std::vector<CurveSetting> Session::curve_settings() {
  std::vector<CurveSetting> curves;
  for (std::uint32_t v = 0; v < set_.resolved->variants.size(); ++v) {
    if (crews_[v] == nullptr) continue;
    const np_limits& limits = openings_[v].limits;
    const Layer& module = *set_.resolved->variants[v].module;
    for (std::uint32_t p = 0; p < set_.resolved->modes.size(); ++p) {
      const Mode& mode = set_.resolved->modes[p];
      const Pattern& pattern = *mode.pattern;
      if (const std::string reason = skip_reason(mode, module, set_.plan->ranks); !reason.empty()) {
        skip(v, mode.name.c_str(), 0, reason);
        continue;
      }
      CurveSetting curve;
      curve.variant = v;
      curve.pattern = p;
      const int nranks = openings_[v].nranks;
      const int clock_rank = pattern.clock_rank(nranks);
      curve.operations_per_round = pattern.operations(mode.part(clock_rank, nranks, 0));
      curve.messages_per_operation = pattern.messages_per_operation(mode.part(clock_rank, nranks, 0));
      curve.single_rounds = pattern.single_rounds;
      curve.sample_ns = pattern.sample_ns;
      const std::uint64_t most = limits.max_message_bytes;
      for (const std::uint64_t size : set_.resolved->sizes) {
        if (!takes_size(*set_.resolved, mode, nranks, size)) {
          const Part part = mode.part(clock_rank, nranks, size);
          const std::string unit = std::to_string(pattern.unit_bytes(part));
          if (!pattern.sizeless(part)) skip(v, mode.name.c_str(), size, "no multiple of " + unit + " bytes");
          continue;
        }
        if (most != 0 && size > most) {
          skip(v, mode.name.c_str(), size, "the largest message of this variant is " + std::to_string(most) + " bytes");
          continue;
        }
        curve.sizes.push_back(size);
        const bool bounded = set_.plan->verify && limits.delivers != 0;
        curve.most_rounds.push_back(bounded ? verified_rounds(*set_.resolved, mode, nranks, size) : 0);
        curve.most_rounds_of_sample.push_back(pattern.most_rounds(mode.part(clock_rank, nranks, size)));
        curve.fewest_rounds.push_back(pattern.fewest_rounds(mode.part(clock_rank, nranks, size)));
      }
      if (set_.plan->verify && limits.delivers == 0) {
        skip(v, mode.name.c_str(), 0,
             "its bytes arrive nowhere, so there is nothing to verify; it is measured without");
      }
      if (!curve.sizes.empty()) curves.push_back(std::move(curve));
    }
  }
  return curves;
}

void Session::take_yardstick(Sampler* sampler) {
  const double before_s = yardstick_at_s_;
  Yardstick y = set_.native->yardstick();
  int state = states_.classify(y);
  if (state_ >= 0 && state != state_) {
    // One yardstick alone may have met an interrupt: a second look decides.
    y = set_.native->yardstick();
    state = states_.classify(y);
  }
  if (state_ >= 0 && state != state_ && sampler != nullptr) sampler->suspect_since(before_s);
  state_ = state;
  clock_cost_ns_ = y.clock.cost_ns;
  yardstick_at_s_ = at_s();
  Json json;
  json.open('{').field("type", "yardstick").field("launch", set_.plan->launch).field("at_s", yardstick_at_s_);
  json.field("state", state_).field("clock_ns", y.clock.cost_ns).field("clock_resolution_ns", y.clock.resolution_ns);
  json.field("bounce_ns", y.bounce_ns).field("copy_bytes_per_s", y.copy_bytes_per_s).field("wakeup_ns", y.wakeup_ns);
  json.close('}');
  (void)static_cast<bool>(write(json.take()));
}

// Messages may still be in flight: nothing more can be believed of what is open now, and nothing of this size. A job is
// started anew for the smaller sizes, which have been seen to work.
void Session::give_up(Sampler& sampler, const Visit& v, bool again) {
  const std::uint32_t variant = sampler.curves()[v.curve].setting.variant;
  const std::uint64_t size_bytes = sampler.curves()[v.curve].points[v.point].size_bytes;
  sampler.forget(v);
  if (again) sampler.give_up(v.curve, Stop::error, size_bytes);
  if (crews_[variant] != nullptr) {
    (void)static_cast<bool>(crews_[variant]->counters(variant));
    std::exchange(crews_[variant], nullptr)->let_go();
  }
  const auto of_variant = [&](const Curve& curve) { return curve.setting.variant == variant && !curve.over; };
  const bool left = std::any_of(sampler.curves().begin(), sampler.curves().end(), of_variant);
  if (again && left && restarts_[variant]++ < most_restarts && open(variant)) return;
  for (std::size_t c = 0; c < sampler.curves().size(); ++c) {
    if (sampler.curves()[c].setting.variant == variant) sampler.give_up(c, Stop::error);
  }
}

void Session::lose(Sampler& sampler, const Visit& v, Exit exit, const std::string& sentence, bool again) {
  const Curve& curve = sampler.curves()[v.curve];
  const char* pattern = set_.resolved->modes[curve.setting.pattern].name.c_str();
  write_error(curve.setting.variant, pattern, curve.points[v.point].size_bytes, exit, sentence);
  give_up(sampler, v, again);
}

Outcome Session::visit(Sampler& sampler, const Visit& v) {
  const Curve& curve = sampler.curves()[v.curve];
  Command command{.verb = Verb::visit, .variant = curve.setting.variant, .pattern = curve.setting.pattern};
  command.size_bytes = curve.points[v.point].size_bytes;
  command.samples = v.samples;
  command.rounds = v.rounds;
  command.visit = ++visits_;
  command.deadline_ns = static_cast<std::int64_t>(set_.plan->timeout_s * 1e9 + 4 * v.expected_ns);
  const double began_s = at_s();
  const Result<Report> report = crews_[command.variant]->visit(command, notes_);
  if (Watchdog::interrupted()) return ok();
  const bool job = crews_[command.variant] != set_.native;
  if (!report) {
    std::exchange(crews_[command.variant], nullptr)->let_go();
    lose(sampler, v, report.failure().exit, report.failure().sentence, job);
    // Without a rank of this process's own group nothing more can be measured here.
    return job ? ok() : Outcome(report.failure());
  }
  if (report->status == NP_UNSUPPORTED) {
    skip(command.variant, set_.resolved->modes[command.pattern].name.c_str(), command.size_bytes, report->sentence);
    if (report->unanimous != 0) {
      sampler.forget(v);
      sampler.give_up(v.curve, Stop::error);
    } else {
      give_up(sampler, v, false);
    }
    return ok();
  }
  if (report->status != NP_OK) {
    const bool wrong = report->status == verification_failed;
    lose(sampler, v, wrong ? Exit::gate : Exit::failed, report->sentence, job && !wrong);
    return ok();
  }
  const Taken taken =
      take(v, set_.resolved->modes[command.pattern], openings_[command.variant].nranks, command.size_bytes);
  const std::size_t dropped = sampler.report(v, taken.ns, at_s() - began_s, began_s, state_, taken.beside,
                                             taken.span_ns / static_cast<double>(v.samples));
  sampler.add_verified(v, report->verified_bytes);
  return write_sample(sampler, v, taken, dropped, report->verified_bytes);
}

Session::Taken Session::take(const Visit& v, const Mode& mode, int nranks, std::uint64_t size_bytes) const {
  const Pattern& pattern = *mode.pattern;
  const int clock_rank = pattern.clock_rank(nranks);
  const Part part = mode.part(pattern.every_rank ? 0 : clock_rank, nranks, size_bytes);
  Taken taken;
  taken.ns.reserve(v.samples);
  if (pattern.evaluate == nullptr) {
    const std::vector<std::int64_t>& clock = notes_[static_cast<std::size_t>(clock_rank)];
    for (std::size_t i = 0; i < v.samples; ++i) {
      const std::size_t begin = pattern.pauses ? 2 * i : i;
      taken.ns.push_back(static_cast<double>(clock[begin + 1] - clock[begin]));
    }
    return taken;
  }
  const double operations = static_cast<double>(v.rounds) * pattern.operations(part);
  const std::size_t ncells = pattern.cells(part);
  std::vector<double> measures(pattern.measures.size());
  std::vector<double> cells(ncells);
  std::vector<std::vector<double>> events(v.samples);
  std::vector<std::vector<float>> by_cell(ncells);
  std::vector<float> values;
  std::vector<std::span<const std::int64_t>> parts(static_cast<std::size_t>(nranks));
  taken.beside.measures.resize(measures.size());
  taken.beside.slowest.assign(ncells, 0);
  for (std::size_t i = 0; i < v.samples; ++i) {
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      const std::size_t each = notes_[rank].size() / v.samples;
      parts[rank] = std::span(notes_[rank]).subspan(i * each, each);
    }
    Reading reading;
    reading.measures = measures;
    reading.cells = cells;
    reading.events = &events[i];
    pattern.evaluate(part, v.rounds, parts, reading);
    taken.ns.push_back(reading.ns);
    values.push_back(static_cast<float>(reading.ns / operations));
    taken.span_ns += reading.span_ns > 0 ? reading.span_ns : reading.ns;
    for (std::size_t m = 0; m < measures.size(); ++m) {
      taken.beside.measures[m].push_back(static_cast<float>(measures[m]));
    }
    for (std::size_t c = 0; c < ncells; ++c) by_cell[c].push_back(static_cast<float>(cells[c] / operations));
  }
  // What goes as warm-up goes with all that it says.
  const std::size_t warm = v.pass < 0 ? 0 : warmup_samples(values);
  for (std::size_t i = warm; i < v.samples; ++i) {
    const auto slower = [&](const auto& a, const auto& b) { return a[i] < b[i]; };
    if (ncells > 0) {
      ++taken.beside.slowest[static_cast<std::size_t>(std::max_element(by_cell.begin(), by_cell.end(), slower) -
                                                      by_cell.begin())];
    }
    for (const double ns : events[i]) taken.beside.events.add(ns);
  }
  for (std::vector<float>& of_cell : by_cell) {
    of_cell.erase(of_cell.begin(), of_cell.begin() + static_cast<std::ptrdiff_t>(warm));
    std::sort(of_cell.begin(), of_cell.end());
    taken.beside.cells.push_back(static_cast<float>(quantile(of_cell, 0.5)));
  }
  return taken;
}

Outcome Session::write_sample(const Sampler& sampler, const Visit& v, const Taken& taken, std::size_t dropped,
                              std::uint64_t verified_bytes) {
  sampled_ = true;
  const Curve& curve = sampler.curves()[v.curve];
  Json json;
  json.open('{').field("type", "sample").field("launch", set_.plan->launch);
  json.field("variant", set_.resolved->variants[curve.setting.variant].name);
  json.field("pattern", set_.resolved->modes[curve.setting.pattern].name);
  json.field("size_bytes", curve.points[v.point].size_bytes)
      .field("pass", v.pass)
      .field("state", state_)
      .field("at_s", at_s());
  json.field("ops", v.rounds * curve.setting.operations_per_round);
  const auto list = [&](const char* name, std::size_t from, std::size_t to) {
    json.key(name).open('[');
    for (std::size_t i = from; i < to; ++i) json.value(static_cast<std::int64_t>(taken.ns[i]));
    json.close(']');
  };
  list("ns", dropped, taken.ns.size());
  list("dropped_ns", 0, dropped);
  const Pattern& pattern = *set_.resolved->modes[curve.setting.pattern].pattern;
  json.key("measures").open('{');
  for (std::size_t m = 0; m < taken.beside.measures.size(); ++m) {
    json.key(pattern.measures[m].name).open('[');
    for (std::size_t i = dropped; i < taken.ns.size(); ++i)
      json.value(static_cast<double>(taken.beside.measures[m][i]));
    json.close(']');
  }
  json.close('}');
  json.field("verified_bytes", verified_bytes).close('}');
  return write(json.take());
}

std::string Session::point_record(const Sampler& sampler, std::size_t c, std::size_t p) const {
  const Curve& curve = sampler.curves()[c];
  const Point& point = curve.points[p];
  const std::span<const Block> blocks = sampler.blocks_of(c, p);
  const PointEstimate e = estimate_point(blocks);
  std::vector<float> values = kept_values(blocks, e.leading);
  std::sort(values.begin(), values.end());
  Histogram histogram;
  for (const Block& block : blocks) histogram.add(block.beside.events);
  // Where the operations of a sample were timed one by one, the distribution is theirs.
  const bool events = histogram.total() > 0;
  for (const float v : values) {
    if (!events) histogram.add(v);
  }
  const bool single = events || (curve.setting.single_rounds && point.rounds == 1);
  const auto percentile = [&](double q) {
    if (events) return histogram.supported_quantile(q);
    return single ? supported_quantile(values, q) : std::nullopt;
  };
  Json json;
  json.open('{').field("type", "point").field("launch", set_.plan->launch);
  json.field("variant", set_.resolved->variants[curve.setting.variant].name);
  json.field("pattern", set_.resolved->modes[curve.setting.pattern].name);
  json.field("size_bytes", point.size_bytes).field("state", point.state()).field("samples", e.samples);
  json.field("ops", point.rounds * curve.setting.operations_per_round).field("single", single);
  json.field("median_ns", e.median).field("low_ns", e.low).field("high_ns", e.high);
  json.field("half_width", e.half_width());  // infinite, when there are too few samples for an interval, is null
  json.field("min_ns", histogram.min_ns()).field("max_ns", histogram.max_ns()).field("mean_ns", histogram.mean_ns());
  json.field("p90_ns", percentile(0.90)).field("p99_ns", percentile(0.99)).field("p999_ns", percentile(0.999));
  json.field("p9999_ns", percentile(0.9999));
  const bool has_rate =
      openings_[curve.setting.variant].limits.idle == 0 && e.median > 0 && curve.setting.messages_per_operation > 0;
  const double bytes = static_cast<double>(point.size_bytes) * curve.setting.messages_per_operation;
  json.field("bytes_per_s", has_rate ? bytes * 1e9 / e.median : std::numeric_limits<double>::quiet_NaN());
  json.field("correlation", e.correlation)
      .field("converged", point.stop == Stop::precision)
      .field("stop", stop_name(point.stop));
  json.field("passes", point.passes).field("dropped", point.dropped + e.leading * e.blocks).field("leading", e.leading);
  json.field("other_states", point.samples - e.samples - e.leading * e.blocks);
  json.field("verified_bytes", point.verified_bytes)
      .key("histogram")
      .open('{')
      .field("resolution", Histogram::resolution);
  json.key("low_ns").open('[');
  for (const auto& [bucket, count] : histogram.counts()) json.value(Histogram::lower_ns(bucket));
  json.close(']').key("count").open('[');
  for (const auto& [bucket, count] : histogram.counts()) json.value(count);
  json.close(']').close('}');
  add_beside(json, set_.resolved->modes[curve.setting.pattern], openings_[curve.setting.variant].nranks,
             point.size_bytes, blocks, e.leading);
  json.close('}');
  return json.take();
}

Outcome Session::write_done(Sampler& sampler) {
  for (const auto& [c, p] : sampler.take_done()) {
    if (sampler.blocks_of(c, p).empty()) {
      const Curve& curve = sampler.curves()[c];
      if (curve.points[p].stop != Stop::budget) continue;  // the error or the interruption says so
      skip(curve.setting.variant, set_.resolved->modes[curve.setting.pattern].name.c_str(), curve.points[p].size_bytes,
           "the machine changed its state under each of its visits; measure again, with more --budget");
      continue;
    }
    if (Outcome written = write(point_record(sampler, c, p)); !written) return written;
  }
  return ok();
}

bool Session::progress(const Sampler& sampler, bool wait) {
  Json json;
  json.open('{').field("event", "pass").field("pass", sampler.pass()).field("done", sampler.points_done());
  json.field("total", sampler.points()).field("elapsed_s", at_s()).field("left_s", sampler.left_s()).close('}');
  set_.event(json.take());
  const bool go = !wait || !set_.plan->paced || set_.wait_for_go([this] { set_.native->sign_of_life(); });
  progress_ns_ = now_ns();
  return go;
}

Outcome Session::measure(Sampler& sampler) {
  bool stopped = false;  // by the user, or because the launcher has gone
  while (const std::optional<Visit> next = sampler.next()) {
    if (Outcome written = write_done(sampler); !written) return written;
    stopped = Watchdog::interrupted() || (now_ns() - progress_ns_ > progress_every_ns && !progress(sampler, true));
    if (stopped) break;
    if (at_s() - yardstick_at_s_ > yardstick_every_s) take_yardstick(&sampler);
    // A rank has gone, or the file takes no more. The samples are in the file; no point is made of a curve that broke
    // off: the launcher measures the other variants again.
    if (Outcome done = visit(sampler, *next); !done) return done;
  }
  if (stopped || Watchdog::interrupted()) {
    sampler.interrupt();
    exit_ = Exit::interrupted;
  }
  return write_done(sampler);
}

void Session::close_variants() {
  for (std::uint32_t v = 0; v < crews_.size(); ++v) {
    if (crews_[v] == nullptr) continue;
    const Result<std::vector<std::string>> counters = crews_[v]->counters(v);
    for (std::size_t rank = 0; counters && rank < counters->size(); ++rank) {
      if ((*counters)[rank].empty()) continue;
      Json json;
      json.open('{').field("type", "counters").field("launch", set_.plan->launch);
      json.field("variant", set_.resolved->variants[v].name)
          .field("rank", rank)
          .field_raw("values", (*counters)[rank])
          .close('}');
      (void)static_cast<bool>(write(json.take()));
    }
  }
}

// A run that ends well has measured something.
void Session::say_that_nothing_was_measured() {
  for (std::uint32_t v = 0; v < lacks_.size(); ++v) {
    if (lacks_[v].empty()) continue;
    write_error(v, nullptr, 0, Exit::unavailable, "nothing could be measured: " + lacks_[v]);
  }
}

Exit Session::run() {
  (void)static_cast<bool>(write(plan_record(*set_.plan, *set_.resolved, set_.hash, set_.pin)));
  for (const std::string& environment : set_.environments) (void)static_cast<bool>(write(environment));
  open_variants();
  take_yardstick(nullptr);
  SamplerSetting setting;
  setting.target = set_.plan->target;
  setting.budget_s = set_.plan->budget_s;
  setting.clock_cost_ns = clock_cost_ns_;
  setting.seed = set_.plan->seed + static_cast<std::uint64_t>(set_.plan->launch);
  Sampler sampler(setting, curve_settings());
  Json ready;
  ready.open('{')
      .field("event", "ready")
      .field("variants", crews_.size() - static_cast<std::size_t>(std::count(crews_.begin(), crews_.end(), nullptr)));
  ready.field("points", sampler.points()).field("budget_s", sampler.left_s()).close('}');
  set_.event(ready.take());
  progress_ns_ = now_ns();
  const Outcome measured = measure(sampler);
  if (measured) {
    take_yardstick(&sampler);
    if (!sampled_ && exit_ == Exit::done) say_that_nothing_was_measured();
    close_variants();
    progress(sampler, false);
  }
  // Where all variants are of jobs, this process conducts and is no rank.
  const bool is_rank = std::any_of(set_.resolved->variants.begin(), set_.resolved->variants.end(),
                                   [](const Variant& variant) { return !launched(*variant.module); });
  MemoryUse memory = is_rank ? set_.native->memory() : MemoryUse{};
  const auto add = [&memory](const MemoryUse& use) {
    memory.rss_bytes = std::max(memory.rss_bytes, use.rss_bytes);
    memory.buffer_bytes = std::max(memory.buffer_bytes, use.buffer_bytes);
  };
  if (const MemoryUse use = measured ? set_.native->finish() : MemoryUse{}; is_rank) add(use);
  for (const std::unique_ptr<JobCrew>& job : jobs_) add(job->finish());
  if (!measured && file_state_) {
    // Without its ranks the measurement is over, whatever was planned.
    exit_ = worse(exit_, measured.failure().exit);
  }
  Json json;
  json.open('{').field("type", "launch").field("launch", set_.plan->launch).field("seconds", at_s());
  json.field("passes", sampler.pass() + 1)
      .field("rss_bytes", memory.rss_bytes)
      .field("buffer_bytes", memory.buffer_bytes);
  json.field("states", states_.count()).close('}');
  (void)static_cast<bool>(write(json.take()));
  if (!file_state_) {
    std::fprintf(stderr, "netpipe-worker: %s\n", file_state_.failure().sentence.c_str());
    exit_ = worse(exit_, Exit::failed);
  }
  Json end;
  end.open('{').field("event", "end").field("exit", static_cast<int>(exit_)).close('}');
  set_.event(end.take());
  return exit_;
}

}  // namespace netpipe
