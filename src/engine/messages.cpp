// SPDX-License-Identifier: Apache-2.0
#include "engine/messages.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "patterns/kit/verify.h"

namespace netpipe {
namespace {

// Of what a pattern fills in by itself: one for the whole visit.
std::uint64_t visit_seed(const VisitMessages& visit) { return message_seed(visit.seed, visit.visit, 0, 0); }

// Of the i-th message that arrives here.
std::uint64_t arrival_seed(const VisitMessages& visit, const Part& part, std::uint64_t i) {
  const Origin origin = visit.chosen->pattern->origin(part, i);
  return message_seed(visit.seed, visit.visit, origin.rank, origin.message);
}

// The bytes of a place while they are made or looked at: the place itself where the processor reaches it.
class HostCopy {
 public:
  HostCopy(Memory& memory, std::uint64_t bytes) : memory_(memory), bytes_(bytes), copy_(memory.of_host() ? 0 : bytes) {}
  // make: writes all of them.
  template <typename Make>
  void write(char* place, const Make& make) {
    make(at(place));
    if (!memory_.of_host(place)) memory_.write(place, copy_.data(), bytes_);
  }
  const char* read(const char* place) {
    if (memory_.of_host(place)) return place;
    memory_.read(copy_.data(), place, bytes_);
    return copy_.data();
  }
  // Does it still hold what spoil wrote?
  bool untouched(const char* place, std::uint64_t seed) {
    std::vector<char> spoiled(bytes_);
    spoil(spoiled.data(), bytes_, seed);
    return memory_.equal(place, spoiled.data(), bytes_) == bytes_;
  }
  // Of the message with this seed: the first byte that differs from what was sent.
  std::optional<std::size_t> first_difference(const char* place, std::uint64_t seed) {
    if (memory_.of_host(place)) return netpipe::first_difference(place, bytes_, seed);
    fill(copy_.data(), bytes_, seed);
    const std::size_t right = memory_.equal(place, copy_.data(), bytes_);
    return right < bytes_ ? std::optional(right) : std::nullopt;
  }

 private:
  char* at(char* place) { return memory_.of_host(place) ? place : copy_.data(); }

  Memory& memory_;
  std::uint64_t bytes_;
  std::vector<char> copy_;
};

struct Guard {
  char* at;
  std::size_t bytes;
};

// The places of one half that messages of the visit have.
struct Guarded {
  const char* name;
  Slots slots;
  std::uint64_t places;

  // The bytes around place i that no message has and that no other place looks at: up to the next place, and at the
  // ends of the row, or where places lie far apart, so many as are watched.
  [[nodiscard]] std::array<Guard, 2> around(std::uint64_t i, std::uint64_t bytes) const {
    const std::size_t gap = std::min<std::size_t>(slots.stride() - bytes, watched_bytes);
    const bool whole_gap = i > 0 && slots.stride() - bytes <= watched_bytes;  // looked at from the place before
    const std::size_t before = i == 0 ? watched_bytes : whole_gap ? 0 : gap;
    char* const place = slots.at(i);
    return {{{place - before, before}, {place + bytes, i + 1 < places ? gap : watched_bytes}}};
  }
};

std::array<Guarded, 2> guarded(const VisitMessages& visit, const Stage& stage) {
  const Pattern& pattern = *visit.chosen->pattern;
  const bool own = pattern.fill != nullptr;
  const auto used = [&](const Slots& slots, std::uint64_t messages) {
    return std::min<std::uint64_t>(own ? visit.rounds : visit.rounds * messages, slots.count());
  };
  return {{{"outgoing", stage.outgoing, used(stage.outgoing, pattern.departures(stage))},
           {"incoming", stage.incoming, used(stage.incoming, pattern.arrivals(stage))}}};
}

void fill_places(const VisitMessages& visit, Stage& stage, std::uint64_t sent, std::uint64_t received) {
  const Pattern& pattern = *visit.chosen->pattern;
  const std::uint64_t bytes = pattern.place_bytes(stage);
  const auto outgoing = static_cast<std::uint64_t>(stage.outgoing.count());
  const auto incoming = static_cast<std::uint64_t>(stage.incoming.count());
  HostCopy out(stage.memory, bytes), in(stage.memory, bytes);
  if (pattern.fill != nullptr) {
    const std::uint64_t seed = visit_seed(visit);
    for (std::uint64_t i = 0; i < std::min({visit.rounds, outgoing, incoming}); ++i) {
      out.write(stage.outgoing.at(i), [&](char* from) {
        in.write(stage.incoming.at(i), [&](char* to) { pattern.fill(stage, seed, i, from, to); });
      });
    }
  } else {
    for (std::uint64_t i = 0; i < std::min(sent, outgoing); ++i) {
      const std::uint64_t seed = message_seed(visit.seed, visit.visit, stage.rank, i);
      out.write(stage.outgoing.at(i), [&](char* from) { fill(from, bytes, seed); });
    }
    for (std::uint64_t i = 0; i < std::min(received, incoming); ++i) {
      in.write(stage.incoming.at(i), [&](char* to) { spoil(to, bytes, arrival_seed(visit, stage, i)); });
    }
  }
  for (const Guarded& half : guarded(visit, stage)) {
    for (std::uint64_t i = 0; i < half.places; ++i) {
      for (const Guard& guard : half.around(i, bytes)) stage.memory.set(guard.at, guard_byte, guard.bytes);
    }
  }
}

// What is wrong beside the messages of this rank, as the end of a sentence; "": nothing.
std::string spilt(const VisitMessages& visit, Stage& stage) {
  const std::uint64_t bytes = visit.chosen->pattern->place_bytes(stage);
  std::array<char, watched_bytes> clean{};
  clean.fill(guard_byte);
  for (const Guarded& half : guarded(visit, stage)) {
    for (std::uint64_t i = 0; i < half.places; ++i) {
      for (const Guard& guard : half.around(i, bytes)) {
        const std::size_t right = stage.memory.equal(guard.at, clean.data(), guard.bytes);
        if (right >= guard.bytes) continue;
        const std::ptrdiff_t at = guard.at + right - half.slots.at(i);
        const std::string where =
            at < 0 ? std::to_string(-at) + " bytes before its beginning"
                   : std::to_string(at - static_cast<std::ptrdiff_t>(bytes)) + " bytes behind its end";
        return std::string("the layer wrote beside ") + half.name + " message " + std::to_string(i + 1) + ", " + where;
      }
    }
  }
  return {};
}

// Takes the places of these messages from pages that were mapped for them, but for those that reuse the place that was
// chosen before. Another rank's pattern may have no message of this direction here that is measured.
Outcome take_fresh(const BufferPolicy& policy, BufferPool& pool, std::uint64_t offset, std::uint64_t place_bytes,
                   std::uint64_t messages, Slots& places) {
  if (messages == 0) return ok();
  Result<Slots> fresh = pool.fresh(policy, offset, place_bytes, fresh_places(policy, messages));
  if (!fresh) return fresh.failure();
  const int again_percent = 100 - policy.fresh_percent();
  if (again_percent > 0) fresh->reuse(static_cast<std::uint32_t>(again_percent), places.base());
  places = *fresh;
  return ok();
}

}  // namespace

Outcome prepare_messages(const VisitMessages& visit, BufferPool& pool, Stage& stage) {
  const Pattern& pattern = *visit.chosen->pattern;
  const BufferPolicy& policy = visit.chosen->buffers;
  const std::uint64_t sent = visit.rounds * pattern.departures(stage);
  const std::uint64_t received = visit.rounds * pattern.arrivals(stage);
  const std::uint64_t bytes = pattern.place_bytes(stage);
  const std::uint32_t many = visit.verify ? UINT32_MAX : 1;
  // A process alone copies between two places, and verification must still know what was sent.
  const bool together = pattern.one_buffer && policy.kind == Buffers::warm && stage.nranks > 1 && !visit.verify;
  stage.outgoing =
      together ? pool.returning(policy, bytes) : pool.outgoing(policy, bytes, std::max(many, pattern.starts(stage)));
  stage.incoming = pool.incoming(policy, bytes, std::max(many, pattern.in_flight(stage)));
  if (policy.fresh_percent() > 0) {
    pool.release_fresh();  // those of a visit that failed
    Outcome there = take_fresh(policy, pool, policy.send_offset_bytes, bytes, sent, stage.outgoing);
    if (there) there = take_fresh(policy, pool, policy.recv_offset_bytes, bytes, received, stage.incoming);
    if (!there) return there;
  }
  if (visit.verify) {
    stage.outgoing.rewind();
    stage.incoming.rewind();
    fill_places(visit, stage, sent, received);
  }
  if (policy.kind == Buffers::cold) {
    pool.evict(stage.outgoing, bytes, sent);
    pool.evict(stage.incoming, bytes, received);
  }
  return ok();
}

Checked check_messages(const VisitMessages& visit, Stage& stage) {
  const Pattern& pattern = *visit.chosen->pattern;
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
  HostCopy in(stage.memory, bytes);
  std::int64_t missing = 0;
  std::vector<const char*> lost;
  if (stage.lost_places != nullptr) lost = *stage.lost_places;
  std::sort(lost.begin(), lost.end());
  for (std::uint64_t i = 0; i < arrived; ++i) {
    const char* place = stage.incoming.at(i);
    if (own) {
      if (const std::string what = pattern.check(stage, seed, i, in.read(place)); !what.empty()) return wrong(i, what);
    } else if (std::binary_search(lost.begin(), lost.end(), place)) {
      continue;  // whatever is there: some parts of it may have come
    } else if (const auto at = in.first_difference(place, arrival_seed(visit, stage, i))) {
      if (stage.lost != nullptr && in.untouched(place, arrival_seed(visit, stage, i))) {
        ++missing;
        continue;
      }
      return wrong(i, "of " + std::to_string(arrived) + " from rank " + std::to_string(pattern.origin(stage, i).rank) +
                          " differs from what was sent, first at byte " + std::to_string(*at));
    }
    checked.bytes += own ? stage.size_bytes : bytes;
  }
  if (const std::string what = spilt(visit, stage); !what.empty()) {
    checked.fault = "verification failed on rank " + std::to_string(stage.rank) + ": " + what;
    return checked;
  }
  if (missing != 0) {
    const auto reported = static_cast<std::int64_t>(lost.size());
    checked.fault = "verification failed on rank " + std::to_string(stage.rank) + ": " +
                    std::to_string(missing + reported) + " messages did not arrive, and " + std::to_string(reported) +
                    " were reported as lost";
  }
  return checked;
}

}  // namespace netpipe
