// SPDX-License-Identifier: Apache-2.0
#include "worker/curves.h"

#include <algorithm>

namespace netpipe {
namespace {

// One pattern over one variant.
class OneCurve {
 public:
  OneCurve(const Plan& plan, const Resolved& resolved, const Opening& opening, const ChosenPattern& chosen,
           std::uint32_t variant)
      : plan_(plan),
        resolved_(resolved),
        layer_(*resolved.variants[variant].module),
        limits_(opening.limits),
        nranks_(opening.nranks),
        chosen_(chosen),
        pool_(pool_need(plan, resolved, opening.limits.alignment, measured_with(plan, resolved, variant))) {
    for (const Wanted& one : resolved.wanted) {
      if (one.variant != resolved.variants[variant].name || one.pattern != chosen.name) continue;
      earlier_.push_back(&one);
    }
  }

  // Why none of its sizes can be measured, or "".
  [[nodiscard]] std::string obstacle() const {
    if (limits_.lossy != 0 && pattern().loss == Loss::refused) {
      return std::string("messages of this variant may be lost, and pattern ") + pattern().name + " needs each of them";
    }
    if (std::string reason = fresh_obstacle(chosen_, layer_, limits_, nranks_); !reason.empty()) return reason;
    for (const std::uint64_t offset : {chosen_.buffers.send_offset_bytes, chosen_.buffers.recv_offset_bytes}) {
      if (limits_.alignment < 2 || offset % limits_.alignment == 0) continue;
      return "messages of this variant begin at multiples of " + std::to_string(limits_.alignment) +
             " bytes, and with an offset of " + std::to_string(offset) + " they would not";
    }
    return {};
  }

  // Why this size is left out; "" where it is measured, nullopt where the size makes no difference and needs no word.
  [[nodiscard]] std::optional<std::string> reason_against(std::uint64_t size) const {
    if (!takes_size(resolved_, chosen_, nranks_, size)) {
      if (pattern().sizeless(part(size))) return std::nullopt;
      return "no multiple of " + std::to_string(pattern().unit_bytes(part(size))) + " bytes";
    }
    if (size == 0 && chosen_.reaches()) return "an empty message moves nothing into or out of memory";
    if (size == 0 && limits_.empty == 0) return "this layer has no empty messages";
    const std::uint64_t most = limits_.max_message_bytes;
    if (most == 0 || size <= most) return std::string();
    return "the largest message of this variant is " + std::to_string(most) + " bytes";
  }

  [[nodiscard]] CurveSetting setting(std::uint32_t variant, std::uint32_t index) const {
    CurveSetting curve;
    curve.variant = variant;
    curve.pattern = index;
    curve.operations_per_round = pattern().operations(part(0));
    curve.messages_per_operation = messages_of(pattern(), part(0));
    curve.single_rounds = pattern().single_rounds;
    curve.sample_ns = pattern().sample_ns;
    return curve;
  }

  void add_size(CurveSetting& curve, std::uint64_t size) const {
    curve.sizes.push_back(size);
    const bool placed = verified() || chosen_.buffers.fresh_percent() > 0;
    curve.most_rounds.push_back(placed ? most_rounds(pool_, chosen_, nranks_, size) : 0);
    curve.most_rounds_of_sample.push_back(pattern().most_rounds(part(size)));
    curve.fewest_rounds.push_back(pattern().fewest_rounds(part(size)));
    if (!adaptive()) return;
    curve.coarse.push_back(is_coarse(plan_.schedule, size));
    curve.earlier.resize(earlier_.size());
    for (std::size_t launch = 0; launch < earlier_.size(); ++launch) {
      const auto there = earlier_[launch]->sizes.find(size);
      curve.earlier[launch].push_back(there != earlier_[launch]->sizes.end() ? there->second : Spread{});
    }
  }

  [[nodiscard]] bool adaptive() const { return plan_.schedule.kind == Schedule::Kind::adaptive; }

  // Nothing can be checked where nothing arrives: the session says so of its points.
  [[nodiscard]] bool verified() const { return plan_.verify && limits_.delivers != 0; }

 private:
  [[nodiscard]] const Pattern& pattern() const { return *chosen_.pattern; }
  [[nodiscard]] Part part(std::uint64_t size) const {
    return chosen_.part(pattern().clock_rank(nranks_), nranks_, size);
  }

  const Plan& plan_;
  const Resolved& resolved_;
  const Layer& layer_;
  const np_limits& limits_;
  int nranks_;
  const ChosenPattern& chosen_;
  PoolNeed pool_;
  std::vector<const Wanted*> earlier_;  // launches
};

}  // namespace

Curves plan_curves(const Plan& plan, const Resolved& resolved, const std::vector<std::optional<Opening>>& openings) {
  Curves curves;
  for (std::uint32_t v = 0; v < resolved.variants.size(); ++v) {
    const std::optional<Opening>& opening = openings[v];
    if (!opening) continue;
    for (std::uint32_t p = 0; p < resolved.patterns.size(); ++p) {
      const ChosenPattern& chosen = resolved.patterns[p];
      const auto skip = [&](std::optional<std::uint64_t> size_bytes, const std::string& reason) {
        curves.skipped.push_back({v, chosen.name, size_bytes, reason});
      };
      if (const std::string reason = skip_reason(chosen, resolved.variants[v]); !reason.empty()) {
        skip(std::nullopt, reason);
        continue;
      }
      const OneCurve one(plan, resolved, *opening, chosen, v);
      if (const std::string reason = one.obstacle(); !reason.empty()) {
        skip(std::nullopt, reason);
        continue;
      }
      CurveSetting curve = one.setting(v, p);
      for (const std::uint64_t size : resolved.sizes) {
        const std::optional<std::string> reason = one.reason_against(size);
        if (reason && reason->empty()) one.add_size(curve, size);
        // Of a size that might have been visited nobody asks.
        const bool asked = !one.adaptive() || is_coarse(plan.schedule, size);
        if (asked && reason && !reason->empty()) skip(size, *reason);
      }
      if (plan.verify && opening->limits.idle != 0) {
        skip(std::nullopt, "it moves no bytes, so there is nothing to verify; it is measured without verification");
      }
      if (std::find(curve.coarse.begin(), curve.coarse.end(), true) == curve.coarse.end()) curve.coarse.clear();
      if (!curve.sizes.empty()) curves.settings.push_back(std::move(curve));
    }
  }
  return curves;
}

}  // namespace netpipe
