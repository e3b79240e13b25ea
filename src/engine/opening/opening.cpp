// SPDX-License-Identifier: Apache-2.0
#include "engine/opening/opening.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/clock.h"
#include "engine/watchdog.h"
#include "patterns/kit/pattern.h"

namespace netpipe {
namespace {

// Does a pattern of this plan reach into the memory of another rank of this module?
bool one_sided(const Resolved& resolved, const Layer& module) {
  return module.expose != nullptr && std::any_of(resolved.patterns.begin(), resolved.patterns.end(),
                                                 [](const ChosenPattern& chosen) { return chosen.reaches(); });
}

// Exchanges the outcomes of one step that began then and has this deadline. The watchdogs of the others end before this
// one. An interrupt ends it for rank 0, and with that the measurement: the others may be waiting in their module, and
// see that it has gone. in_step: becomes false when the exchange was left in the middle.
Result<std::vector<std::string>> agree(Group& group, const Result<std::string>& mine, bool for_root,
                                       std::int64_t began_ns, std::int64_t deadline_ns, bool& in_step) {
  Watchdog::arm(began_ns + deadline_ns + 2 * Watchdog::grace_ns - now_ns(), nullptr,
                Watchdog::stuck_in("telling the others how it opened a variant"), -1);
  Result<std::vector<std::string>> all = for_root ? group.agree_for_root(mine) : group.agree(mine);
  if (Watchdog::disarm() != Cause::none && !all) in_step = false;
  return all;
}

// The steps of one rank's opening.
class Steps {
 public:
  Steps(const RankSetting& setting, Group& group, std::uint32_t index, std::unique_ptr<Endpoint>& endpoint,
        std::shared_ptr<BufferPool>& common, bool& in_step)
      : set_(setting),
        group_(group),
        index_(index),
        variant_(setting.resolved->variants[index]),
        endpoint_(endpoint),
        common_(common),
        in_step_(in_step),
        // A rank alone puts to itself, so its memory is opened in any case.
        one_sided_(one_sided(*setting.resolved, *variant_.module) ||
                   (group.size() == 1 && variant_.module->put != nullptr)) {}

  Result<Opening> run() {
    Result<std::vector<std::string>> facts = all_steps();
    if (!facts) {
      close_variant(set_, endpoint_);
      return facts.failure();
    }
    if (facts->empty()) return Opening{};  // member 0 of the group has the contents
    std::vector<int> member_of_rank(facts->size());
    std::iota(member_of_rank.begin(), member_of_rank.end(), 0);
    return opening_of(*facts, member_of_rank);
  }

 private:
  Result<std::vector<std::string>> all_steps() {
    const Result<std::vector<std::string>> addresses = step(false, [&] { return open(); });
    if (!addresses) return addresses.failure();
    Result<std::vector<std::string>> facts = step(true, [&] { return connect(*addresses); });
    if (!facts || !one_sided_) return facts;
    const Result<std::vector<std::string>> keys = step(false, [&] { return endpoint_->expose(); });
    if (!keys) return keys.failure();
    return step(true, [&]() -> Result<std::string> {
      if (Outcome attached = endpoint_->attach(*keys); !attached) return attached.failure();
      return facts_here();
    });
  }

  // What a step came to on all ranks, with the deadline over the module and over the exchange.
  template <typename Do>
  Result<std::vector<std::string>> step(bool for_root, const Do& here) {
    const StuckIn where{.variant = variant_.name,
                        .rank = endpoint_ ? endpoint_->rank() : set_.process->identity(variant_).rank};
    const std::int64_t began_ns = now_ns();
    // Rank 0 says nothing before all have answered it: to the others, what comes from there is the end. Answers come to
    // rank 0 from others that are faster, so it watches nobody.
    Watchdog::arm(set_.timeout_ns(), group_.rank() != 0 ? &group_ : nullptr,
                  set_.process->last_words(where, "the module did not return from opening or connecting"),
                  set_.process->last_words_fd());
    const Result<std::string> mine = here();
    Watchdog::disarm();
    return agree(group_, mine, for_root, began_ns, set_.timeout_ns(), in_step_);
  }

  Result<std::string> open() {
    const RankProcess::Identity identity = set_.process->identity(variant_);
    const Meter meter(set_.process->in_process());
    Result<std::unique_ptr<Endpoint>> opened =
        Endpoint::open({.variant = &variant_,
                        .rank = identity.rank,
                        .nranks = identity.nranks,
                        .host_rank = identity.host_rank,
                        .job = set_.job + "-" + std::to_string(index_),
                        .local_address = set_.local_address,
                        .max_bytes = std::max<std::uint64_t>(set_.resolved->sizes.back(), 1),
                        .timeout_ns = set_.timeout_ns(),
                        .oversubscribed = set_.oversubscribed,
                        .ranks_in_process = set_.process->in_process()});
    if (!opened) return opened.failure();
    endpoint_ = std::move(*opened);
    Result<std::string> address = set_.process->address(*endpoint_);
    endpoint_->add_cost(set_.process->loading());
    endpoint_->add_cost(meter.spent());
    return address;
  }

  Result<std::string> connect(const std::vector<std::string>& addresses) {
    if (Outcome done = set_.process->connect(*endpoint_, addresses); !done) return done.failure();
    if (Outcome done = endpoint_->ask_limits(); !done) return done.failure();
    const PoolNeed need = pool_need(*set_.plan, *set_.resolved, endpoint_->alignment());
    const int sharing = set_.process->ranks_sharing(*endpoint_);
    if (Outcome done = endpoint_->make_buffers(need, sharing, common_); !done) return done.failure();
    if (set_.resolved->patterns.empty()) {  // opening is all that is measured
      if (Outcome done = endpoint_->reach_all(); !done) return done.failure();
    }
    return one_sided_ ? Result<std::string>(std::string()) : facts_here();
  }

  [[nodiscard]] Result<std::string> facts_here() const {
    RankFacts facts = endpoint_->describe(set_.process->cpu(), set_.process->in_process() == 1);
    facts.simulated = !set_.process->computes();
    facts.version = variant_.module->version;
    return facts_text(facts);
  }

  const RankSetting& set_;
  Group& group_;
  std::uint32_t index_;
  const Variant& variant_;
  std::unique_ptr<Endpoint>& endpoint_;
  std::shared_ptr<BufferPool>& common_;
  bool& in_step_;
  bool one_sided_;  // memory has to be opened to peers
};

}  // namespace

Result<Opening> opening_of(const std::vector<std::string>& texts, const std::vector<int>& member_of_rank) {
  Opening opening;
  opening.nranks = static_cast<int>(member_of_rank.size());
  for (std::size_t rank = 0; rank < member_of_rank.size(); ++rank) {
    std::optional<RankFacts> facts = parse_facts(texts[static_cast<std::size_t>(member_of_rank[rank])]);
    if (!facts) return failed("rank " + std::to_string(rank) + " sent malformed facts about its endpoint");
    if (rank == 0) {
      opening.limits = facts->limits;
      opening.simulated = facts->simulated;
      opening.version = std::move(facts->version);
      opening.below = std::move(facts->below);
    }
    opening.settings.push_back(std::move(facts->settings));
  }
  return opening;
}

Result<Opening> open_variant(const RankSetting& setting, Group& group, std::uint32_t variant,
                             std::unique_ptr<Endpoint>& endpoint, std::shared_ptr<BufferPool>& common, bool& in_step) {
  return Steps(setting, group, variant, endpoint, common, in_step).run();
}

void close_variant(const RankSetting& setting, std::unique_ptr<Endpoint>& endpoint) {
  Watchdog::arm(setting.timeout_ns(), nullptr, Watchdog::stuck_in("closing a variant"), -1);
  endpoint.reset();
  Watchdog::disarm();
}

Result<Opening> conduct_opening(Group& group, const Plan& plan, const Resolved& resolved, const Layer& module,
                                Placement& placement) {
  const auto deadline_ns = static_cast<std::int64_t>(plan.timeout_s * 1e9);
  bool in_step = true;  // a job that fails to open is given up in any case
  const auto step = [&](bool for_root) {
    return agree(group, std::string(), for_root, now_ns(), deadline_ns, in_step);
  };
  const Result<std::vector<std::string>> texts = step(false);
  if (!texts) return texts.failure();
  Result<Placement> placed = place_ranks(*texts, module.name);
  if (!placed) return placed.failure();
  placement = std::move(*placed);
  Result<std::vector<std::string>> facts = step(true);
  if (!facts) return facts.failure();
  if (one_sided(resolved, module)) {
    if (const auto keys = step(false); !keys) return keys.failure();
    facts = step(true);
    if (!facts) return facts.failure();
  }
  return opening_of(*facts, placement.member_of_rank);
}

}  // namespace netpipe
