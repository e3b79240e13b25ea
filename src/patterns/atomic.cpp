// SPDX-License-Identifier: Apache-2.0
// Atomic operations on one 64-bit integer in the memory of the last rank, which only waits.
//
//     time of one operation = (in_flight operations of a rank, and the flush of those that fetch nothing) / in_flight
//     rate = operations of all ranks together / that time
//
// All other ranks operate at the same time: of two ranks that is one, and the time is the latency. target=one: all on
// the same word, as on a lock or a counter of a whole program; target=own: each on a word in a line of its own. What
// the first costs more than the second is what the ranks do to each other at one word.
//
// Every operation is checked. Where bytes are verified each round has words of its own, whose first value all ranks
// know: the target looks at what a word has become, and the others at what they fetched from it.
#include <array>
#include <cstdio>
#include <cstring>
#include <limits>

#include "patterns/kit/one_sided.h"
#include "patterns/kit/together.h"
#include "patterns/kit/verify.h"

namespace netpipe::patterns {
namespace {

enum Option { op, target, in_flight };
constexpr std::array<np_option, 3> options{{
    {"op", NP_CHOICE, "fetch_add", 0, 0, "fetch_add|add|swap|compare_swap|fetch|set", "",
     "which operation; add and set fetch nothing, so a flush completes them", 0},
    {"target", NP_CHOICE, "one", 0, 0, "one|own", "",
     "all ranks operate on the same word of the last rank, or each on a word of its own", 1},
    {"in_flight", NP_INT, "1", 1, 65536, nullptr, "operations", "op=add and set: operations between two flushes", 1},
}};
constexpr std::array<np_atomic, 6> operations{NP_ATOMIC_FETCH_ADD,    NP_ATOMIC_ADD,   NP_ATOMIC_SWAP,
                                              NP_ATOMIC_COMPARE_SWAP, NP_ATOMIC_FETCH, NP_ATOMIC_SET};

// What is noted beside together::notes.
enum Note : std::size_t { swapped = together::notes, notes };

constexpr std::array<Measure, 6> measures{{
    together::measures[0],
    together::measures[1],
    together::measures[2],
    together::measures[3],
    {"rate", "1/s", "operations of all ranks together, per second", Worse::less},
    {"swapped", "1", "op=compare_swap: share of the operations that found what they compared with", Worse::less},
}};

constexpr std::size_t line = 64;

np_atomic what(const Part& part) { return operations[static_cast<std::size_t>(part.options[op].number)]; }
bool shares(const Part& part) { return part.options[target].number == 0; }
std::uint32_t width(const Part& part) { return static_cast<std::uint32_t>(part.options[in_flight].number); }
int origins(const Part& part) { return part.nranks - 1; }
bool is_target(const Part& part) { return part.rank == part.nranks - 1; }
constexpr bool adds(np_atomic one) { return one == NP_ATOMIC_ADD || one == NP_ATOMIC_FETCH_ADD; }
constexpr bool fetches(np_atomic one) { return one != NP_ATOMIC_ADD && one != NP_ATOMIC_SET; }

std::uint64_t value_at(const char* place) {
  std::uint64_t value = 0;
  std::memcpy(&value, place, sizeof value);
  return value;
}

// Where in a place the word of a rank lies.
std::size_t word_of(const Part& part, int rank) { return shares(part) ? 0 : line * static_cast<std::size_t>(rank); }

const char* missing(const Layer& m, int) {
  if (m.atomic == nullptr) return "atomic";
  return m.barrier == nullptr ? "barrier" : nullptr;
}

std::string unfit(const Part& part, const Layer& m) {
  if (width(part) > 1 && fetches(what(part))) {
    return "takes in_flight only with op=add and op=set: all others wait for what they fetch";
  }
  if (part.nranks > 2 && m.send == nullptr) {
    return "needs send and recv, which module " + std::string(m.name) + " lacks, to begin on several ranks together";
  }
  return {};
}

// ------------------------------------------------------------------------------------------------- who reaches whom

// Rank 0 is attached to the memory of the last rank, and tells all others how to be.
class Target {
 public:
  explicit Target(Stage& s) : s_(s) {}
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  ~Target() {
    if (attached_) s_.module.withdraw(s_.endpoint, &told_);
  }

  np_status find() {
    if (s_.rank == 0) region_ = s_.far_in;
    np_status status = NP_OK;
    if (s_.rank == 0) {
      for (int other = 1; other < s_.nranks - 1 && status == NP_OK; ++other) status = tell(other);
      return status;
    }
    if (is_target(s_)) return status;
    status = listen();
    if (status == NP_OK) status = s_.module.attach(s_.endpoint, s_.nranks - 1, &told_);
    attached_ = status == NP_OK;
    region_ = &told_;
    return status;
  }
  [[nodiscard]] const np_region* region() const { return region_; }

 private:
  struct Head {
    std::uint64_t base, bytes;
    std::uint32_t key_bytes;
  };
  static_assert(sizeof(Head) <= token_bytes);

  np_status tell(int other) {
    np_status status =
        say(other, Head{reinterpret_cast<std::uintptr_t>(region_->base), region_->bytes, region_->key_bytes});
    for (std::size_t at = 0; at < region_->key_bytes && status == NP_OK; at += token_bytes) {
      std::array<std::uint8_t, token_bytes> piece{};
      std::memcpy(piece.data(), region_->key + at, std::min<std::size_t>(token_bytes, sizeof region_->key - at));
      status = say(other, piece);
    }
    return status;
  }
  np_status listen() {
    Head head{};
    np_status status = hear(head);
    told_.base = reinterpret_cast<void*>(static_cast<std::uintptr_t>(head.base));  // NOLINT(performance-no-int-to-ptr)
    told_.bytes = head.bytes;
    told_.key_bytes = std::min<std::uint32_t>(head.key_bytes, sizeof told_.key);
    for (std::size_t at = 0; at < told_.key_bytes && status == NP_OK; at += token_bytes) {
      std::array<std::uint8_t, token_bytes> piece{};
      status = hear(piece);
      std::memcpy(told_.key + at, piece.data(), std::min<std::size_t>(token_bytes, sizeof told_.key - at));
    }
    return status;
  }
  template <typename Value>
  np_status say(int other, const Value& value) {
    s_.memory.put(s_.token_out, value);
    return s_.module.send(s_.endpoint, other, s_.token_out, sizeof value);
  }
  template <typename Value>
  np_status hear(Value& value) {
    const np_status status = s_.module.recv(s_.endpoint, 0, s_.token_in, sizeof value);
    value = s_.memory.get<Value>(s_.token_in);
    return status;
  }

  Stage& s_;
  const np_region* region_ = nullptr;
  np_region told_{};
  bool attached_ = false;
};

// ------------------------------------------------------------------------------------------------- what is timed

// times rounds. The value that this rank believes the word to have lies in its outgoing place, and what it fetched goes
// to where its own incoming place has the same word. hits: of compare_swap.
template <np_atomic what>
np_status operate(Stage& s, np_atomic_call call, const np_region* region, std::uint64_t times, std::int64_t& hits) {
  np_endpoint* const endpoint = s.endpoint;
  const int peer = s.nranks - 1;
  const std::size_t word = word_of(s, s.rank);
  const std::uint32_t count = width(s);
  const std::uint64_t stamp = adds(what) ? 0 : static_cast<std::uint64_t>(s.rank) + 1;
  np_status status = NP_OK;
  for (std::uint64_t done = 0; done < times && status == NP_OK;) {
    const auto [beliefs, places] = one_sided::take_both(s.outgoing, s.incoming, times - done);
    char* belief = beliefs.base;
    char* place = places.base + word;
    auto offset = static_cast<std::size_t>(place - s.near_in);  // the target's places lie alike
    std::uint64_t expected = value_at(belief);
    for (std::size_t i = 0; i < places.count && status == NP_OK; ++i, place += places.stride, offset += places.stride) {
      const std::uint64_t operand = adds(what) ? 1 : expected + stamp;
      if constexpr (fetches(what)) {
        std::uint64_t fetched = 0;
        status = call(endpoint, peer, region, offset, operand, expected, &fetched);
        std::memcpy(place, &fetched, sizeof fetched);
        if constexpr (what == NP_ATOMIC_COMPARE_SWAP) {
          const bool hit = fetched == expected;
          hits += hit ? 1 : 0;
          expected = hit ? operand : fetched;
        }
      } else {
        for (std::uint32_t k = 0; k < count && status == NP_OK; ++k) {
          status = call(endpoint, peer, region, offset, operand, 0, nullptr);
        }
        if (status == NP_OK) status = s.module.flush(endpoint, peer);
      }
      if (beliefs.stride == 0) continue;  // the same word again
      belief += beliefs.stride;
      if (i + 1 < places.count) expected = value_at(belief);
    }
    if (beliefs.stride == 0) std::memcpy(belief, &expected, sizeof expected);
    done += places.count;
  }
  return status;
}

using Operate = np_status (*)(Stage&, np_atomic_call, const np_region*, std::uint64_t, std::int64_t&);
constexpr std::array<Operate, 6> operates{operate<NP_ATOMIC_FETCH_ADD>, operate<NP_ATOMIC_ADD>,
                                          operate<NP_ATOMIC_SWAP>,      operate<NP_ATOMIC_COMPARE_SWAP>,
                                          operate<NP_ATOMIC_FETCH>,     operate<NP_ATOMIC_SET>};

// Why there can be no atomic operation on these words, or on these places of them.
np_status check_possible(Stage& s, np_atomic_call call) {
  const auto refuse = [&](const char* why) {
    std::snprintf(s.message.data(), s.message.size(), "%s", why);
    return NP_UNSUPPORTED;
  };
  if (call == nullptr) {
    if (s.message[0] != '\0') return NP_UNSUPPORTED;
    std::snprintf(s.message.data(), s.message.size(), "it has no atomic %s", s.options[op].text);
    return NP_UNSUPPORTED;
  }
  if (!fetches(what(s)) && s.module.flush == nullptr) return refuse("it has no flush to complete op=add and op=set");
  if (reinterpret_cast<std::uintptr_t>(s.incoming.at(0)) % sizeof(std::uint64_t) != 0) {
    return refuse("an atomic operation needs a word at a multiple of 8 bytes: choose another recv_offset");
  }
  if (!s.memory.of_host()) return refuse("its words are in memory that the processor does not reach");
  return NP_OK;
}

// Without an agreement where nobody else operates: so a layer without messages has a latency as well.
np_status run_alone(Stage& s, std::uint64_t samples, std::uint64_t rounds, const np_region* region, std::int64_t* to,
                    np_atomic_call call, Operate many) {
  std::int64_t hits = 0;
  np_status status = many(s, call, region, 1, hits);  // the target may only be on its way
  for (std::uint64_t sample = 0; sample < samples && status == NP_OK; ++sample, to += notes) {
    hits = 0;
    const std::int64_t begin = now_ns();
    status = many(s, call, region, rounds, hits);
    to[together::whole] = to[together::ended] = now_ns() - begin;
    to[together::began] = to[together::clock_error] = 0;
    to[swapped] = hits;
  }
  return status;
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to) {
  const Layer& m = s.module;
  const np_atomic_call call = m.atomic(s.endpoint, what(s));
  if (const np_status status = check_possible(s, call); status != NP_OK) return status;
  const Operate many = operates[static_cast<std::size_t>(s.options[op].number)];
  const bool operating = !is_target(s);
  Target at(s);
  np_status status = at.find();
  if (status == NP_OK && origins(s) == 1) {
    if (operating) status = run_alone(s, samples, rounds, at.region(), to, call, many);
  } else if (status == NP_OK) {
    std::int64_t* sample = nullptr;  // the first call is for the round that is not timed
    status = together::run(s, samples, rounds, to, notes, operating, [&](std::uint64_t times) {
      std::int64_t hits = 0;
      const np_status done = many(s, call, at.region(), times, hits);
      if (sample != nullptr) {
        sample[swapped] = hits;
        sample += notes;
      } else {
        sample = to;
      }
      return done;
    });
  }
  if (status == NP_OK && operating && m.flush != nullptr) status = m.flush(s.endpoint, s.nranks - 1);
  return status == NP_OK ? m.barrier(s.endpoint) : status;
}

void evaluate(const Part& part, std::uint64_t rounds, Notes of, Reading& reading) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  const double own = static_cast<double>(rounds) * width(part);
  together::evaluate(static_cast<std::size_t>(origins(part)), own, of, reading);
  if (origins(part) == 1) reading.measures[0] = reading.measures[1] = reading.measures[3] = none;
  double hits = 0;
  for (int rank = 0; rank < origins(part); ++rank) {
    hits += static_cast<double>(of[static_cast<std::size_t>(rank)][swapped]);
  }
  reading.measures[4] = reading.ns > 0 ? own * origins(part) / reading.ns * 1e9 : 0;
  reading.measures[5] = what(part) == NP_ATOMIC_COMPARE_SWAP ? hits / (own * origins(part)) : none;
}

// ------------------------------------------------------------------------------------------------- verification

std::uint64_t place_bytes(const Part& part) { return word_of(part, origins(part) - 1) + sizeof(std::uint64_t); }

std::uint64_t first_value(std::uint64_t seed, std::uint64_t i) { return message_seed(seed, i, 0, 0); }

void fill_words(const Part& part, std::uint64_t seed, std::uint64_t i, char* out, char* in) {
  const std::uint64_t first = first_value(seed, i);
  const std::uint64_t before = is_target(part) ? first : ~first;  // a fetch that fetches nothing can never pass
  std::memcpy(out, &first, sizeof first);
  for (int rank = 0; rank < origins(part); ++rank) std::memcpy(in + word_of(part, rank), &before, sizeof before);
}

// How far a value may be above the first one.
struct Expected {
  std::uint64_t least, most;
};

// Of a word of the target, on which so many ranks have operated, each with a stamp from `low` on.
Expected left_behind(const Part& part, std::uint64_t ranks, std::uint64_t low) {
  switch (what(part)) {
    case NP_ATOMIC_ADD:
    case NP_ATOMIC_FETCH_ADD: return {ranks * width(part), ranks * width(part)};
    case NP_ATOMIC_FETCH: return {0, 0};
    default: return {low, low + ranks - 1};  // of one of them, the last
  }
}

// Of what a rank fetched.
Expected fetched(const Part& part, std::uint64_t ranks, std::uint64_t low) {
  switch (what(part)) {
    case NP_ATOMIC_FETCH_ADD: return {0, ranks - 1};
    case NP_ATOMIC_FETCH: return {0, 0};
    default: return {0, ranks == 1 ? 0 : low + ranks - 1};
  }
}

std::string check_word(const Expected& expected, std::uint64_t first, std::uint64_t value, const char* where) {
  const std::uint64_t above = value - first;
  if (above >= expected.least && above <= expected.most) return {};
  std::string much = std::to_string(expected.least);
  if (expected.most != expected.least) much += " to " + std::to_string(expected.most);
  return std::string(where) + " " + std::to_string(static_cast<std::int64_t>(above)) +
         " above its first value instead of " + much;
}

std::string check_words(const Part& part, std::uint64_t seed, std::uint64_t i, const char* in) {
  const std::uint64_t first = first_value(seed, i);
  const auto ranks = static_cast<std::uint64_t>(shares(part) ? origins(part) : 1);
  if (!is_target(part)) {
    if (!fetches(what(part))) return {};
    const Expected expected = fetched(part, ranks, 1);
    return check_word(expected, first, value_at(in + word_of(part, part.rank)), "fetched a word that is");
  }
  std::string wrong;
  for (int rank = 0; rank < (shares(part) ? 1 : origins(part)) && wrong.empty(); ++rank) {
    const auto low = static_cast<std::uint64_t>(shares(part) ? 0 : rank) + 1;
    wrong = check_word(left_behind(part, ranks, low), first, value_at(in + word_of(part, rank)), "left a word that is");
  }
  return wrong;
}

std::uint32_t one(const Part&) { return 1; }

}  // namespace

extern const Pattern atomic;
const Pattern atomic = {
    .name = "atomic",
    .summary = "atomic operations on a 64-bit word of the last rank, by all others at once",
    .formula =
        "time of one operation = (in_flight operations of a rank and what completes them) / in_flight; rate = "
        "operations of all ranks / that time",
    .source = "OSU micro-benchmarks: osu_fop_latency, osu_cas_latency, osu_oshm_atomics",
    .options = options,
    .operations = width,
    .messages_per_operation = [](const Part&) { return 0U; },
    .extra_rounds = one,
    .arrivals = one,
    .departures = one,
    .place_bytes = place_bytes,
    .sizeless = [](const Part&) { return true; },
    .fewest_rounds = [](const Part& part) { return std::uint64_t{origins(part) > 1 ? 64U : 1U}; },
    .single_rounds = true,
    .one_buffer = false,
    .starts_in_buffers = false,
    .notes = [](const Part&, std::uint64_t) { return std::uint64_t{notes}; },
    .every_rank = true,
    .synchronised = true,
    .reach = reach_by_put,
    .uses = NP_USES_ONE_SIDED,
    .evaluate = evaluate,
    .measures = measures,
    .cells = [](const Part& part) { return origins(part) > 1 ? static_cast<std::uint32_t>(origins(part)) : 0U; },
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,  // of an odd number the rank in the middle would be attached to itself
    .missing = missing,
    .unfit = unfit,
    .fill = fill_words,
    .check = check_words,
    .run = run,
};

}  // namespace netpipe::patterns
