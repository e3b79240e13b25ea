// SPDX-License-Identifier: Apache-2.0
#include "engine/messages.h"

#include <algorithm>
#include <cstring>

#include "engine/verify.h"

namespace netpipe {
namespace {

// Of what a pattern fills in by itself: one for the whole visit.
std::uint64_t visit_seed(const VisitMessages& visit) { return message_seed(visit.seed, visit.visit, 0, 0); }

// Of the i-th message that arrives here.
std::uint64_t arrival_seed(const VisitMessages& visit, const Part& part, std::uint64_t i) {
  const Origin origin = visit.mode->pattern->origin(part, i);
  return message_seed(visit.seed, visit.visit, origin.rank, origin.message);
}

void fill_places(const VisitMessages& visit, Stage& stage, std::uint64_t sent, std::uint64_t received) {
  const Pattern& pattern = *visit.mode->pattern;
  const std::uint64_t bytes = pattern.place_bytes(stage);
  const auto outgoing = static_cast<std::uint64_t>(stage.outgoing.count());
  const auto incoming = static_cast<std::uint64_t>(stage.incoming.count());
  if (pattern.fill != nullptr) {
    const std::uint64_t seed = visit_seed(visit);
    for (std::uint64_t i = 0; i < std::min({visit.rounds, outgoing, incoming}); ++i) {
      pattern.fill(stage, seed, i, stage.outgoing.at(i), stage.incoming.at(i));
    }
  } else {
    for (std::uint64_t i = 0; i < std::min(sent, outgoing); ++i) {
      fill(stage.outgoing.at(i), bytes, message_seed(visit.seed, visit.visit, stage.rank, i));
    }
    for (std::uint64_t i = 0; i < std::min(received, incoming); ++i) {
      spoil(stage.incoming.at(i), bytes, arrival_seed(visit, stage, i));
    }
  }
  // The guard behind each message has to look the same afterwards.
  const std::uint64_t landed = pattern.fill != nullptr ? visit.rounds : received;
  for (std::uint64_t i = 0; i < std::min(landed, incoming); ++i) {
    std::memset(stage.incoming.at(i) + bytes, guard_byte, guard_bytes);
  }
}

}  // namespace

void prepare_messages(const VisitMessages& visit, BufferPool& pool, Stage& stage) {
  const Pattern& pattern = *visit.mode->pattern;
  const BufferPolicy& policy = visit.mode->buffers;
  const std::uint64_t sent = visit.rounds * pattern.departures(stage);
  const std::uint64_t received = visit.rounds * pattern.arrivals(stage);
  const std::uint64_t bytes = pattern.place_bytes(stage);
  const std::uint32_t many = visit.verify ? UINT32_MAX : 1;
  // A process alone copies between two places, and verification must still know what was sent.
  const bool one_buffer = pattern.one_buffer && stage.nranks > 1 && !visit.verify && !policy.spreads();
  stage.outgoing = one_buffer ? pool.returning(policy, bytes) : pool.outgoing(policy, bytes, many);
  stage.incoming = pool.incoming(policy, bytes, std::max(many, pattern.in_flight(stage)));
  if (visit.verify) {
    stage.outgoing.rewind();
    stage.incoming.rewind();
    fill_places(visit, stage, sent, received);
  } else if (policy.reuse_percent < 100) {
    stage.outgoing.reuse(static_cast<std::uint32_t>(policy.reuse_percent));
    stage.incoming.reuse(static_cast<std::uint32_t>(policy.reuse_percent));
  }
  if (policy.cold) {
    BufferPool::evict(stage.outgoing, bytes, sent);
    BufferPool::evict(stage.incoming, bytes, received);
  }
}

Checked check_messages(const VisitMessages& visit, const Stage& stage) {
  const Pattern& pattern = *visit.mode->pattern;
  const std::uint64_t bytes = pattern.place_bytes(stage);
  const bool own = pattern.check != nullptr;  // the pattern knows what a place has to hold
  const std::uint64_t arrived = own ? visit.rounds : visit.rounds * pattern.arrivals(stage);
  const std::uint64_t seed = visit_seed(visit);
  Checked checked;
  const auto wrong = [&](std::uint64_t i, const std::string& what) {
    checked.fault = "verification failed on rank " + std::to_string(stage.rank) + ": " +
                    (own ? "operation " : "message ") + std::to_string(i + 1) + " " + what;
    return checked;
  };
  for (std::uint64_t i = 0; i < arrived; ++i) {
    const char* place = stage.incoming.at(i);
    if (own) {
      if (const std::string what = pattern.check(stage, seed, i, place); !what.empty()) return wrong(i, what);
    } else if (const auto at = first_difference(place, bytes, arrival_seed(visit, stage, i))) {
      return wrong(i, "of " + std::to_string(arrived) + " from rank " + std::to_string(pattern.origin(stage, i).rank) +
                          " differs from what was sent, first at byte " + std::to_string(*at));
    }
    const bool beyond = std::any_of(place + bytes, place + bytes + guard_bytes, [](char c) { return c != guard_byte; });
    if (beyond) return wrong(i, "is right but was written beyond its end, at byte " + std::to_string(bytes));
    checked.bytes += own ? stage.size_bytes : bytes;
  }
  return checked;
}

}  // namespace netpipe
