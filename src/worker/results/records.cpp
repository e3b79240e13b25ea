// SPDX-License-Identifier: Apache-2.0
#include "worker/results/records.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "record/json.h"
#include "sampling/histogram.h"
#include "sampling/statistics.h"
#include "worker/results/counts.h"

namespace netpipe {
namespace {

Json begin(const char* type, int launch) {
  Json json;
  json.open('{').field("type", type).field("launch", launch);
  return json;
}

// What the layer promises of messages with these settings.
void add_promises(Json& json, const np_limits& limits) {
  json.key("promises").open('{');
  json.field("delivers", limits.delivers != 0).field("lossy", limits.lossy != 0);
  json.field("unordered", limits.unordered != 0).field("empty", limits.empty != 0);
  limits.max_message_bytes != 0 ? json.field("max_message_bytes", limits.max_message_bytes)
                                : json.field_null("max_message_bytes");
  json.field("max_inline_bytes", limits.max_inline_bytes);
  json.field("alignment_bytes", std::max<std::uint64_t>(limits.alignment, 1)).close('}');
}

Json begin(const char* type, const CurveName& curve, std::uint64_t size_bytes) {
  Json json = begin(type, curve.launch);
  json.field("variant", curve.variant->name).field("pattern", curve.chosen->name).field("size_bytes", size_bytes);
  return json;
}

void text_or_null(Json& json, const char* name, std::string_view text) {
  text.empty() ? json.field_null(name) : json.field(name, text);
}

std::string_view view_of(const char* text) { return text != nullptr ? text : ""; }

// Whether a pattern has this measure with the options that it runs with.
bool measured(const std::vector<float>& values) { return values.empty() || !std::isnan(values.front()); }

void add_measure(Json& json, std::string_view name, const char* unit, const RatioEstimate& e) {
  json.open('{').field("name", name).field("unit", unit).field("median", e.value);
  e.bounded ? json.field("low", e.low).field("high", e.high) : json.field_null("low").field_null("high");
  json.close('}');
}

// What is known of a size although no sample has a time: of a lossy layer the share of messages that it lost, where one
// rank sends to several that of each of them too, and what the layer itself measures.
void add_measures_of_layer(Json& json, const Layer& layer, const Point& point) {
  if (!point.losses.empty()) add_measure(json, "loss", "1", loss_share(point.losses));
  for (std::size_t rank = 0; rank < point.losses_of_ranks.size(); ++rank) {
    const std::vector<Losses>& losses = point.losses_of_ranks[rank];
    if (losses.empty() || losses.front().messages == 0) continue;
    add_measure(json, "loss_rank_" + std::to_string(rank), "1", loss_share(losses));
  }
  for (std::size_t m = 0; m < point.of_layer.size(); ++m) {
    const np_measure& measure = layer.measures[m];
    if (point.of_layer[m].empty()) continue;
    add_measure(json, measure.name, measure.unit,
                estimate_ratio(point.of_layer[m], std::string_view(measure.unit) == "1"));
  }
}

// After those of the layer the median of each measure of the pattern, over all samples of the point.
void add_measures(Json& json, const Layer& layer, std::span<const Measure> measures, std::span<const Block> blocks,
                  std::size_t leading, const Point& point) {
  json.key("measures").open('[');
  add_measures_of_layer(json, layer, point);
  for (std::size_t m = 0; m < measures.size(); ++m) {
    if (!blocks.empty() && !measured(blocks.front().beside.measures[m])) continue;
    std::vector<Block> own;
    for (const Block& block : blocks) {
      const std::vector<float>& values = block.beside.measures[m];
      own.push_back({block.at_s, {values.begin() + static_cast<std::ptrdiff_t>(leading), values.end()}});
    }
    const Estimate e = estimate(own);
    add_measure(json, measures[m].name, measures[m].unit, {e.median, e.low, e.high, e.bounded});
  }
  json.close(']');
}

// The median of each cell over the visits of the point.
void add_cells(Json& json, const Pattern& pattern, const Part& part, std::span<const Block> blocks) {
  json.key("cells").open('[');
  for (std::uint32_t c = 0; c < cells_of(pattern, part); ++c) {
    const Cell cell = cell_of(pattern, part, c);
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

void add_histogram(Json& json, const Histogram& histogram) {
  json.key("histogram").open('{').field("resolution", Histogram::resolution);
  json.key("low_ns").open('[');
  for (const auto& [bucket, count] : histogram.counts()) json.value(Histogram::lower_ns(bucket));
  json.close(']').key("count").open('[');
  for (const auto& [bucket, count] : histogram.counts()) json.value(count);
  json.close(']').close('}');
}

// Each visit in few numbers: what comparisons within a block and between launches are made of.
void add_visits(Json& json, std::span<const Block> blocks, std::size_t leading) {
  const auto list = [&](const char* name, auto&& value) {
    json.key(name).open('[');
    for (const Block& block : blocks) json.value(value(block));
    json.close(']');
  };
  json.key("visits").open('{');
  list("block", [](const Block& block) { return block.number; });
  list("at_s", [](const Block& block) { return std::round(block.at_s * 1e6) / 1e6; });
  list("state", [](const Block& block) { return block.state; });
  list("samples", [&](const Block& block) { return block.values.size() - leading; });
  list("median_ns", [&](const Block& block) {
    std::vector<float> values(block.values.begin() + static_cast<std::ptrdiff_t>(leading), block.values.end());
    std::sort(values.begin(), values.end());
    return static_cast<float>(quantile(values, 0.5));
  });
  json.close('}');
}

}  // namespace

std::string environment_record(int launch, int rank, const std::string& host, const std::string& facts) {
  Json json = begin("environment", launch);
  json.field("rank", rank).field("host", host).field_raw("facts", facts).close('}');
  return json.take();
}

std::string variant_record(int launch, const Variant& variant, const Opening& opening) {
  const Layer& m = *variant.module;
  // A module with a launcher is only described here, as it was when it was added. What answers now, its ranks know.
  const bool another = launched(m) && opening.version != without_controls(m.version);
  Json json = begin("variant", launch);
  json.field("variant", variant.name).field("module", m.name).field("version", opening.version);
  another ? json.field("added_for", m.version) : json.field_null("added_for");
  text_or_null(json, "below", opening.below.empty() ? view_of(m.below) : opening.below);
  m.adds != nullptr ? json.field("adds", m.adds) : json.field_null("adds");
  json.field("idle", opening.limits.idle != 0);
  add_promises(json, opening.limits);
  json.key("counted").open('{');
  for (std::uint32_t i = 0; i < m.ncounters; ++i) {
    const np_counter& one = m.counters[i];
    json.key(one.name).open('{').field("unit", one.unit).field("gauge", one.kind == NP_GAUGE).close('}');
  }
  json.close('}');
  opening.launch_s >= 0 ? json.field("launch_s", opening.launch_s) : json.field_null("launch_s");
  json.key("ranks").open('[');
  for (const std::string& settings : opening.settings) json.raw(settings);
  json.close(']').close('}');
  return json.take();
}

std::string skipped_record(int launch, const std::string& variant, const std::string& pattern,
                           std::optional<std::uint64_t> size_bytes, const std::string& reason) {
  Json json = begin("skipped", launch);
  json.field("variant", variant).field("pattern", pattern);
  size_bytes ? json.field("size_bytes", *size_bytes) : json.field_null("size_bytes");
  json.field("reason", reason).close('}');
  return json.take();
}

std::string lost_record(const CurveName& name, const Point& point) {
  Json json = begin("skipped", name, point.size_bytes);
  json.field("reason", lost_in_every_sample).key("measures").open('[');
  add_measures_of_layer(json, *name.variant->module, point);
  json.close(']').field_raw("counters", counters_json(*name.variant->module, point.counters, true)).close('}');
  return json.take();
}

std::string yardstick_record(int launch, double at_s, int state, const Yardstick& y,
                             const std::optional<std::string>& clock_source, std::optional<double> stolen) {
  Json json = begin("yardstick", launch);
  json.field("at_s", at_s).field("state", state);
  json.field("clock_ns", y.clock.cost_ns).field("clock_resolution_ns", y.clock.resolution_ns);
  json.field("bounce_ns", y.bounce_ns).field("copy_bytes_per_s", y.copy_bytes_per_s).field("wakeup_ns", y.wakeup_ns);
  json.field("multiply_ns", y.multiply_ns);
  text_or_null(json, "clock_source", clock_source.value_or(""));
  json.field("stolen_share", stolen).close('}');
  return json.take();
}

std::string counters_record(int launch, const std::string& variant, std::size_t rank, const std::string& values) {
  Json json = begin("counters", launch);
  json.field("variant", variant).field("rank", rank).field_raw("values", values).close('}');
  return json.take();
}

std::string sample_record(const CurveName& curve, const SampleRecord& record, const Samples& samples) {
  Json json = begin("sample", curve, record.size_bytes);
  json.field("pass", record.pass).field("block", record.block).field("state", record.state).field("at_s", record.at_s);
  json.field("ops", record.operations);
  const auto list = [&](const char* name, std::size_t from, std::size_t to) {
    json.key(name).open('[');
    constexpr double most_ns = 1ULL << 62U;  // of clocks on other hosts, which may say anything
    for (std::size_t i = from; i < to; ++i) {
      json.value(static_cast<std::int64_t>(std::clamp(samples.ns[i], -most_ns, most_ns)));
    }
    json.close(']');
  };
  list("ns", record.dropped, samples.ns.size());
  list("dropped_ns", 0, record.dropped);
  const std::vector<Measure> measures = measures_of(*curve.chosen->pattern, curve.variant->ranks);
  json.key("measures").open('{');
  for (std::size_t m = 0; m < samples.beside.measures.size(); ++m) {
    if (!measured(samples.beside.measures[m])) continue;
    json.key(measures[m].name).open('[');
    for (std::size_t i = record.dropped; i < samples.ns.size(); ++i) {
      json.value(static_cast<double>(samples.beside.measures[m][i]));
    }
    json.close(']');
  }
  json.close('}').field("verified_bytes", record.verified_bytes).field_raw("counters", record.counters);
  if (samples.losses.messages > 0) {
    json.field("messages", samples.losses.messages).field("lost", samples.losses.lost);
  }
  json.close('}');
  return json.take();
}

std::string pause_record(int launch, const CurveName* visit, const PauseRecord& record) {
  Json json = visit != nullptr ? begin("pause", *visit, record.size_bytes) : begin("pause", launch);
  if (visit == nullptr) json.field_null("variant").field_null("pattern").field_null("size_bytes");
  json.field("at_s", record.at_s).field("seconds", record.seconds);
  json.field("cause", record.suspended ? "suspended" : "stopped").close('}');
  return json.take();
}

std::string point_record(const CurveName& name, const CurveSetting& setting, const Opening& opening, const Point& point,
                         std::span<const Block> blocks) {
  const Pattern& pattern = *name.chosen->pattern;
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
  const bool single = events || (setting.single_rounds && point.rounds == 1);
  const auto percentile = [&](double q) {
    if (events) return histogram.supported_quantile(q);
    return single ? supported_quantile(values, q) : std::nullopt;
  };
  Json json = begin("point", name, point.size_bytes);
  json.field("samples", e.samples);
  json.field("ops", point.rounds * setting.operations_per_round).field("single", single);
  json.field("median_ns", e.median);
  e.bounded ? json.field("low_ns", e.low).field("high_ns", e.high) : json.field_null("low_ns").field_null("high_ns");
  json.field("half_width", e.half_width());  // infinite, and so null, where there are too few samples for an interval
  json.field("min_ns", histogram.min_ns()).field("max_ns", histogram.max_ns()).field("mean_ns", histogram.mean_ns());
  json.field("p90_ns", percentile(0.90)).field("p99_ns", percentile(0.99)).field("p999_ns", percentile(0.999));
  json.field("p9999_ns", percentile(0.9999));
  const bool has_rate =
      opening.limits.idle == 0 && e.median > 0 && setting.messages_per_operation > 0 && point.size_bytes > 0;
  const double bytes = static_cast<double>(point.size_bytes) * setting.messages_per_operation;
  json.field("bytes_per_s", has_rate ? bytes * 1e9 / e.median : std::numeric_limits<double>::quiet_NaN());
  json.field("correlation", e.correlation).field("converged", point.stop == Stop::precision);
  json.field("stop", stop_name(point.stop)).field("passes", point.passes);
  json.field("dropped", point.dropped + e.leading * e.blocks).field("leading", e.leading);
  json.field("verified_bytes", point.verified_bytes);
  add_histogram(json, histogram);
  add_visits(json, blocks, e.leading);
  add_measures(json, *name.variant->module, measures_of(pattern, opening.nranks), blocks, e.leading, point);
  json.field_raw("counters", counters_json(*name.variant->module, point.counters, true));
  const int nranks = opening.nranks;
  const int rank = pattern.every_rank ? 0 : pattern.clock_rank(nranks);
  add_cells(json, pattern, name.chosen->part(rank, nranks, point.size_bytes), blocks);
  json.close('}');
  return json.take();
}

std::string launch_record(const LaunchRecord& record) {
  Json json = begin("launch", record.launch);
  json.field("seconds", record.seconds).field("passes", record.passes);
  json.field("rss_bytes", record.memory.rss_bytes).field("buffer_bytes", record.memory.buffer_bytes);
  json.field("states", record.states).close('}');
  return json.take();
}

}  // namespace netpipe
