// SPDX-License-Identifier: Apache-2.0
// What a pattern is. Each is one file in src/patterns, named as the pattern, that defines `const Pattern
// patterns::NAME`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "layer/layer.h"
#include "patterns/kit/memory.h"
#include "patterns/kit/slots.h"

namespace netpipe {

// Who one rank is in a pattern, and what was chosen of the pattern's options (in the order of its table).
struct Part {
  int rank, nranks;
  std::uint64_t size_bytes;
  const np_value* options;
};

// What one rank has in its hands during a visit of one size. Everything is there, touched and connected before the
// clock starts.
struct Stage : Part {
  const Layer& module;
  np_endpoint* endpoint;
  Slots outgoing{}, incoming{};        // NOLINT(readability-redundant-member-init): where messages start and land
  const np_region* far_in = nullptr;   // one-sided patterns: the region of the peer's incoming slots, and
  const np_region* far_out = nullptr;  // of its outgoing ones; the peer is the mirrored rank
  char* near_in = nullptr;             // the base of the own regions: the peer's are laid out alike
  char* near_out = nullptr;
  np_request* requests = nullptr;                  // as many as the pattern asked for
  char *token_out = nullptr, *token_in = nullptr;  // token_bytes each, to tell the peer something, by memory.put
  Memory memory{};  // NOLINT(readability-redundant-member-init): reads and writes what lies in places and tokens
  // What to add to the own clock to have rank 0's, and how far off that may be; of a pattern that is synchronised.
  std::int64_t clock_offset_ns = 0, clock_error_ns = 0;
  std::uint64_t seed = 0;       // for what is drawn by lot: of this visit, the same on all ranks
  bool oversubscribed = false;  // ranks share a processor: a loop that waits yields
  // Of patterns whose ranks all depend on one another: raised by one where an operation begins and where it ends, for
  // the sentence that names the rank all others wait for.
  std::uint64_t* progress = nullptr;
  const volatile int* abort = nullptr;  // not 0: give up and return NP_ABORTED
  // Of a lossy layer: of each sample, how many messages did not arrive here; else nullptr. lost_beside: of rounds that
  // belong to no sample.
  std::int64_t* lost = nullptr;
  std::int64_t lost_beside = 0;
  // Room for a sentence, for a pattern that fails by itself.
  std::span<char> message = {};  // NOLINT(readability-redundant-member-init)
  // Of a lossy layer whose messages are verified: the places of those that did not arrive, with room for all of them.
  std::vector<const char*>* lost_places = nullptr;
};

inline constexpr std::uint64_t no_sample = UINT64_MAX;

// Whether a pattern goes on after a receive that returned this: a message that a lossy layer lost is counted.
// place: where it would have landed.
[[gnu::cold]] inline bool only_lost(Stage& s, np_status status, std::uint64_t sample, const char* place) {
  if (status != NP_LOST || s.lost == nullptr) return false;
  if (s.lost_places != nullptr) s.lost_places->push_back(place);
  ++(sample == no_sample ? s.lost_beside : s.lost[sample]);
  return true;
}

// The same of a word by which one rank tells another something. It is no message of the pattern, so it is in no share
// of lost messages, but it spoils the sample like one (Loss::spoils).
[[gnu::cold]] inline bool only_lost_word(Stage& s, np_status status, std::uint64_t sample) {
  if (status != NP_LOST || s.lost == nullptr) return false;
  ++(sample == no_sample ? s.lost_beside : s.lost[sample]);
  return true;
}

// Where the i-th message (from 0) lands, of those that take these places.
inline char* place_of(Slots places, std::uint64_t i) {
  for (; i > 0; --i) places.take();
  return places.take();
}

// Waits for the receives of the first `count` requests over a layer that loses messages: for each by itself, because
// wait does not say which of several was lost. places: where they land, from the first on.
inline np_status await_each(Stage& s, Slots places, std::uint64_t count, std::uint64_t sample) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const char* const place = places.take();
    const np_status status = s.module.wait(s.endpoint, &s.requests[i], 1);
    if (status != NP_OK && !only_lost(s, status, sample, place)) return status;
  }
  return NP_OK;
}

// Starts count messages of so many bytes, by the module's isend or irecv, from or into the next places.
template <typename Starts>
inline np_status start_messages(Starts start, np_endpoint* endpoint, int peer, Slots& places, std::size_t bytes,
                                np_request* requests, std::uint64_t count) {
  np_status status = NP_OK;
  for (std::uint64_t done = 0; done < count && status == NP_OK;) {
    const Slots::Row row = places.take(count - done);
    status = start(endpoint, peer, row.base, row.stride, bytes, requests + done, row.count);
    done += row.count;
  }
  return status;
}
inline np_status start_sends(Stage& s, int peer, std::size_t bytes, np_request* requests, std::uint64_t count) {
  return start_messages(s.module.isend, s.endpoint, peer, s.outgoing, bytes, requests, count);
}
inline np_status start_receives(Stage& s, int peer, std::size_t bytes, np_request* requests, std::uint64_t count) {
  return start_messages(s.module.irecv, s.endpoint, peer, s.incoming, bytes, requests, count);
}

// Of which a measure is worse, for `netpipe check`; of neither, where it says under which conditions was measured.
enum class Worse { more, less, neither };

// Something that a sample says beside the time of one operation. A name means the same in every pattern.
struct Measure {
  const char* name;  // lower case, with underscores: "overlap"
  const char* unit;  // "ns", "1" (a ratio), "1/s", "bytes/s"
  const char* help;  // one phrase
  Worse worse = Worse::more;
};

// What the ranks noted of one sample: clock readings (ns) or counts, as the pattern's run() wrote them. Of a rank that
// noted nothing it is empty.
using Notes = std::span<const std::span<const std::int64_t>>;

// What one sample comes to.
struct Reading {
  double ns = 0;                     // of all its operations together
  double span_ns = 0;                // how long taking it lasted; 0: as long as ns
  std::span<double> measures;        // one per Measure of the pattern; NaN: these options have none, in any sample
  std::span<double> cells;           // one per Cell, ns of all its operations together
  std::vector<double>* events = {};  // ns of single operations, where a sample has many that were timed one by one
};

// A part of what a pattern measures that has a time of its own: a rank, or a pair of ranks.
struct Cell {
  int rank;
  int peer = -1;  // -1: it is a rank
};

// Which message of which rank.
struct Origin {
  int rank;
  std::uint64_t message;
};

// Pairs of ranks, the first with the last: the other one of rank r. A rank alone is its own.
constexpr int mirrored(int rank, int nranks) { return nranks - 1 - rank; }

// Of such a pair the rank with the lower number; a rank alone is none.
constexpr bool is_first(const Part& part) { return part.rank < part.nranks / 2; }

// For Pattern::reach.
inline np_reach reach_by_put(const Part&) { return NP_REACH_PUT; }
inline np_reach reach_by_get(const Part&) { return NP_REACH_GET; }

// For Pattern::missing.
inline const char* without_messages(const Layer& m, int) { return m.send == nullptr ? "send and recv" : nullptr; }
inline const char* without_requests(const Layer& m, int nranks) {
  const char* const messages = without_messages(m, nranks);
  return messages != nullptr || m.isend != nullptr ? messages : "isend and irecv";
}

// What a lost message means for the sample that it belongs to.
enum class Loss {
  refused,  // the pattern needs every message, and is skipped where some may be lost
  spoils,   // somebody waited in vain, so the sample has no time
  thins,    // its time is that of the messages that arrived
};

struct Pattern {
  const char* name;
  const char* summary;  // one line
  const char* formula;  // how bytes and time become its metric
  const char* source;   // paper or standard
  // tunable: what is timed stays the same operation, completed in the same way, so that times under two values of the
  // option can be compared. 0 where an operation becomes another one (what=bcast), or means more (directions=both).
  std::span<const np_option> options = {};  // NOLINT(readability-redundant-member-init): most patterns leave it out
  // What one round of the pattern counts: its time is divided by this to give the time of one operation.
  std::uint32_t (*operations)(const Part& part);
  // Messages of size_bytes that move in the time of one operation: 2 where both directions are counted, 0 where no
  // rate makes sense.
  std::uint32_t (*messages_per_operation)(const Part& part) = [](const Part&) { return 1U; };
  // Rounds that are not timed: so many before the first clock reading of a visit, or of each sample where it pauses.
  std::uint32_t (*extra_rounds)(const Part& part);
  // How many messages of one round arrive at this rank, for verification.
  std::uint32_t (*arrivals)(const Part& part);
  // And how many of them it sends.
  std::uint32_t (*departures)(const Part& part);
  // What the i-th message (from 0) that arrives at this rank is.
  Origin (*origin)(const Part& part, std::uint64_t i) = [](const Part& part, std::uint64_t i) {
    return Origin{mirrored(part.rank, part.nranks), i};
  };
  // How many messages may be under way to this rank at once: each lands in a place of its own.
  std::uint32_t (*in_flight)(const Part& part) = [](const Part&) { return 1U; };
  // From how many places in turn the messages of this rank start, unless they are verified, cold or fresh.
  std::uint32_t (*starts)(const Part& part) = [](const Part&) { return 1U; };
  // true: messages in flight together land on each other, so that there is nothing to verify.
  bool (*overwrites)(const Part& part) = [](const Part&) { return false; };
  // Bytes of one place, where a message is made of several parts of size_bytes.
  std::uint64_t (*place_bytes)(const Part& part) = [](const Part& part) { return part.size_bytes; };
  // Sizes that are no multiple of this are left out.
  std::uint64_t (*unit_bytes)(const Part& part) = [](const Part&) { return std::uint64_t{1}; };
  // true: the size changes nothing, and one is enough.
  bool (*sizeless)(const Part& part) = [](const Part&) { return false; };
  // Requests that it needs on its stage, for samples of so many rounds.
  std::uint64_t (*requests)(const Part& part, std::uint64_t rounds) = [](const Part&, std::uint64_t) {
    return std::uint64_t{0};
  };
  // Rounds of one sample at least, and at most, 0: any number.
  std::uint64_t (*fewest_rounds)(const Part& part) = [](const Part&) { return std::uint64_t{1}; };
  std::uint64_t (*most_rounds)(const Part& part) = [](const Part&) { return std::uint64_t{0}; };
  // true: every round may be timed by itself. false: only a long batch says something (streams arrive in bursts).
  bool single_rounds;
  // How long the rounds of one sample last at least; 0: as long as the clock, or a stream, makes necessary.
  double sample_ns = 0;
  // true: between samples is something that does not count.
  bool (*pauses)(const Part& part) = [](const Part&) { return false; };
  // true: no rank sends and receives at the same time, so warm messages leave from where they landed, as in NetPIPE.
  // The data then really changes hands with every message, and does not stay in the cache of the side that has copied
  // it before.
  bool one_buffer;
  // false: nothing that it moves starts in a buffer, so that send_offset would be a label of nothing.
  bool starts_in_buffers = true;
  // Numbers that this rank notes of each sample of so many rounds; 0: clock readings, see run().
  std::uint64_t (*notes)(const Part& part, std::uint64_t rounds) = [](const Part&, std::uint64_t) {
    return std::uint64_t{0};
  };
  // A pattern for two ranks. More of them are pairs, the first with the last and so on inwards, that all measure at the
  // same time; what is made of their numbers is in worker/results/samples.h, and no pattern knows of the other pairs.
  bool in_pairs = false;
  int (*clock_rank)(int nranks) = [](int) { return 0; };  // whose readings count, in each pair that of this end
  bool every_rank = false;                                // or all of them do
  bool synchronised = false;                              // the ranks' clocks are compared before each visit
  bool computes = false;  // what takes no time where all ranks are simulated, so that it says nothing there
  // Whether it needs the peer's memory, and which of it: far_in or far_out.
  np_reach (*reach)(const Part& part) = [](const Part&) { return NP_REACH_NONE; };
  std::uint32_t uses = NP_USES_MESSAGES;  // bits NP_USES_...: the operations that it times
  bool (*casts)(const Part& part) = [](const Part&) { return false; };  // NP_USES_CAST is one of them
  // What a pattern with notes makes of one sample, on rank 0's side. part: of the clock rank, or of rank 0.
  void (*evaluate)(const Part& part, std::uint64_t rounds, Notes notes, Reading& reading) = nullptr;
  std::span<const Measure> measures = {};  // NOLINT(readability-redundant-member-init)
  // The parts with a time of their own, one after another; 0: none.
  std::uint32_t (*cells)(const Part& part) = [](const Part&) { return 0U; };
  Cell (*cell)(const Part& part, std::uint32_t i) = [](const Part&, std::uint32_t i) {
    return Cell{static_cast<int>(i)};
  };
  bool resets = false;  // connections anew before each visit
  Loss loss = Loss::refused;
  std::int32_t min_ranks, max_ranks;
  std::int32_t multiple_of = 1;  // ranks come in groups of so many; alone a rank may be where min_ranks is 1
  // The operation that this module lacks for this pattern, or nullptr when it has all.
  const char* (*missing)(const Layer& module, int nranks);
  // What these options and this number of ranks lack, as the end of a sentence that begins with the pattern's name; "":
  // nothing.
  std::string (*unfit)(const Part& part, const Layer& module) = [](const Part&, const Layer&) { return std::string(); };
  // Messages that do not arrive as they were sent: what the place of the i-th round holds before, on either side, and
  // what is wrong with it afterwards ("" is right). nullptr: each message is what its sender filled in.
  void (*fill)(const Part& part, std::uint64_t seed, std::uint64_t i, char* out, char* in) = nullptr;
  std::string (*check)(const Part& part, std::uint64_t seed, std::uint64_t i, const char* in) = nullptr;
  // Runs samples x rounds. Without notes of its own the pattern writes clock readings: before the first sample and
  // after each; where it pauses before and after each. With notes as many numbers as it announced for each sample.
  // Nothing but operations and clock readings may happen while the clock runs.
  np_status (*run)(Stage& stage, std::uint64_t samples, std::uint64_t rounds, std::int64_t* notes);
};

// The groups of operations that a rank's part calls, as bits NP_USES_...
inline std::uint32_t groups_of(const Pattern& pattern, const Part& part) {
  const bool requests = (pattern.uses & NP_USES_MESSAGES) != 0 && pattern.requests(part, 1) > 0;
  return pattern.uses | (requests ? std::uint32_t{NP_USES_REQUESTS} : 0U) |
         (pattern.casts(part) ? std::uint32_t{NP_USES_CAST} : 0U);
}

// Pairs that measure at the same time; 1: all ranks are in one measurement.
inline int pairs_of(const Pattern& pattern, int nranks) { return pattern.in_pairs ? std::max(nranks / 2, 1) : 1; }

// Whether the readings of this rank's clock count.
inline bool reads_clock(const Pattern& pattern, const Part& part) {
  const int clock_rank = pattern.clock_rank(part.nranks);
  if (pairs_of(pattern, part.nranks) == 1) return clock_rank == part.rank;
  return is_first(part) == (clock_rank == 0);
}

// The parts with a time of their own: of several pairs each of them.
inline std::uint32_t cells_of(const Pattern& pattern, const Part& part) {
  const int pairs = pairs_of(pattern, part.nranks);
  return pairs > 1 ? static_cast<std::uint32_t>(pairs) : pattern.cells(part);
}
inline Cell cell_of(const Pattern& pattern, const Part& part, std::uint32_t i) {
  const auto rank = static_cast<int>(i);
  return pairs_of(pattern, part.nranks) > 1 ? Cell{rank, mirrored(rank, part.nranks)} : pattern.cell(part, i);
}

// Messages that move in the time of one operation, those of all pairs together.
inline std::uint32_t messages_of(const Pattern& pattern, const Part& part) {
  return pattern.messages_per_operation(part) * static_cast<std::uint32_t>(pairs_of(pattern, part.nranks));
}

// What a sample says beside the time: of several pairs also how much slower the slowest is.
inline constexpr Measure imbalance{"imbalance", "1", "time of the slowest pair over that of the median pair"};
inline std::vector<Measure> measures_of(const Pattern& pattern, int nranks) {
  std::vector<Measure> all(pattern.measures.begin(), pattern.measures.end());
  if (pairs_of(pattern, nranks) > 1) all.push_back(imbalance);
  return all;
}

// Numbers that this rank notes in a visit.
inline std::uint64_t notes_of(const Pattern& pattern, const Part& part, std::uint64_t samples, std::uint64_t rounds) {
  if (!pattern.every_rank && !reads_clock(pattern, part)) return 0;
  if (pattern.evaluate != nullptr) return samples * pattern.notes(part, rounds);
  return pattern.pauses(part) ? 2 * samples : samples + 1;
}

// All the rounds of a visit, those that are not timed included.
inline std::uint64_t all_rounds(const Pattern& pattern, const Part& part, std::uint64_t samples, std::uint64_t rounds) {
  return samples * rounds + (pattern.pauses(part) ? samples : 1) * pattern.extra_rounds(part);
}

std::span<const Pattern* const> all_patterns();

}  // namespace netpipe
