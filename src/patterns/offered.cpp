// SPDX-License-Identifier: Apache-2.0
// Messages that leave at a given rate, whether or not those before have arrived: latency under load, in open loop.
//
//     latency of a message = its arrival - the moment at which it should have left
//     time of one operation = the median latency of a batch
//     reached = rate x time from the first to the last planned departure / time from the first to the last arrival
//
// A ping-pong waits for a stall before it sends again, so one stall spoils one sample and hides all the messages that
// would have met it ("coordinated omission", Tene; the notes of wrk2 and HdrHistogram). Here a message that leaves
// late, because the send of the one before took too long, is timed from its planned moment all the same. Each single
// latency goes into the histogram of the point. After Schroeder, Wierman and Harchol-Balter (2006).
//
// The moments are laid out before a batch begins, at even distances or with exponential gaps. The receiver stamps each
// arrival; after the last message the sender tells it when the batch began, and the receiver answers, so that no
// message of one batch meets one of the next. Latency is one way, between two clocks: engine/clock_sync.h compares them
// before each visit, and `clock_error` says how far off all latencies of a visit may be together. An echo would need
// one clock only, but it adds a second queue, that of the way back, and a sender that receives while it waits for its
// next moment.
//
// The clock is the receiver's. Of several pairs the rate is that of each.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/ready.h"
#include "patterns/kit/departures.h"
#include "patterns/kit/pattern.h"

namespace netpipe::patterns {
namespace {

enum Option { rate, arrivals };
constexpr std::array<np_option, 2> options{{
    {"rate", NP_INT, "10000", 1, 100'000'000, nullptr, "1/s", "messages a second", 1},
    {"arrivals", NP_CHOICE, "even", 0, 0, "even|poisson", "",
     "the gaps between messages: equal, or exponentially distributed", 1},
}};

constexpr std::array<Measure, 4> measures{{
    {"offered", "1/s", "the rate at which messages should have left", Worse::neither},
    {"reached", "1/s", "the rate at which they arrived", Worse::less},
    {"late", "1", "share of messages that left more than a microsecond after their planned time"},
    {"clock_error", "ns", "how far all latencies may be off, because sender and receiver read different clocks",
     Worse::neither},
}};

// What the receiver notes of a batch, the latencies of its messages behind that.
enum Note { late_messages, clock_error, whole, planned, notes };

constexpr std::int64_t late_ns = 1'000;

// What the sender says of a batch when it is over.
struct Said {
  std::int64_t begin_ns;  // by the clock of rank 0
  std::int64_t late;
};
static_assert(sizeof(Said) <= token_bytes);

bool sends(const Part& part) { return is_first(part); }

// 5 ms of messages and enough for a median, as far as they last no longer than half a second; and where the rate
// cannot be held it is their bytes that take the time.
std::uint64_t batch(const Part& part) {
  constexpr std::uint64_t most_bytes = 64U << 20U;
  const auto per_s = static_cast<std::uint64_t>(part.options[rate].number);
  const std::uint64_t wanted = std::clamp<std::uint64_t>(per_s / 200, 64, 4096);
  const std::uint64_t fit = most_bytes / std::max<std::uint64_t>(part.size_bytes, 1);
  return std::max<std::uint64_t>(std::min({wanted, per_s / 2, fit}), 1);
}

np_status send_batch(Stage& s, std::span<const std::int64_t> moments, std::int64_t begin, std::int64_t& late) {
  const auto send = s.module.send;
  const int peer = mirrored(s.rank, s.nranks);
  const std::size_t bytes = s.size_bytes;
  for (const std::int64_t moment : moments) {
    const std::int64_t now = until(begin + moment, s.oversubscribed, s.abort);
    if (now < 0) return NP_ABORTED;
    late += now - begin - moment > late_ns ? 1 : 0;
    if (const np_status status = send(s.endpoint, peer, s.outgoing.take(), bytes); status != NP_OK) return status;
  }
  return NP_OK;
}

np_status source(Stage& s, std::uint64_t samples, Departures& departures, std::span<std::int64_t> moments) {
  const Layer& m = s.module;
  const int peer = mirrored(s.rank, s.nranks);
  // The other rank may still be on its way out of the barrier: its answer says that it is here.
  np_status status = m.send(s.endpoint, peer, s.outgoing.take(), s.size_bytes);
  if (status == NP_OK) status = m.recv(s.endpoint, peer, s.token_in, 1);
  for (std::uint64_t sample = 0; sample < samples && status == NP_OK; ++sample) {
    departures.lay_out(moments);
    std::int64_t late = 0;
    const std::int64_t begin = now_ns();
    status = send_batch(s, moments, begin, late);
    s.memory.put(s.token_out, Said{begin + s.clock_offset_ns, late});
    if (status == NP_OK) status = m.send(s.endpoint, peer, s.token_out, sizeof(Said));
    if (status == NP_OK) status = m.recv(s.endpoint, peer, s.token_in, 1);
  }
  return status;
}

np_status sink(Stage& s, std::uint64_t samples, Departures& departures, std::span<std::int64_t> moments,
               std::int64_t* to) {
  const auto send = s.module.send;
  const auto recv = s.module.recv;
  const int peer = mirrored(s.rank, s.nranks);
  const std::size_t bytes = s.size_bytes;
  np_status status = recv(s.endpoint, peer, s.incoming.take(), bytes);
  if (status == NP_OK) status = send(s.endpoint, peer, s.token_out, 1);
  for (std::uint64_t sample = 0; sample < samples && status == NP_OK; ++sample) {
    const std::int64_t here = now_ns();
    std::int64_t* const arrived = to + notes;
    for (std::size_t i = 0; i < moments.size(); ++i) {
      status = recv(s.endpoint, peer, s.incoming.take(), bytes);
      if (status != NP_OK) return status;
      arrived[i] = now_ns();
    }
    status = recv(s.endpoint, peer, s.token_in, sizeof(Said));
    const auto said = s.memory.get<Said>(s.token_in);
    departures.lay_out(moments);
    for (std::size_t i = 0; i < moments.size(); ++i) arrived[i] += s.clock_offset_ns - said.begin_ns - moments[i];
    to[late_messages] = said.late;
    to[clock_error] = s.clock_error_ns;
    to[planned] = moments.back() - moments.front();
    to[whole] = now_ns() - here;
    to = arrived + moments.size();
    if (status == NP_OK) status = send(s.endpoint, peer, s.token_out, 1);
  }
  return status;
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to) {
  std::vector<std::int64_t> moments(rounds);
  Departures departures(s.options[rate].number, s.options[arrivals].number != 0, s.seed);
  return sends(s) ? source(s, samples, departures, moments) : sink(s, samples, departures, moments, to);
}

void evaluate(const Part& part, std::uint64_t rounds, Notes of, Reading& reading) {
  const std::span<const std::int64_t> own = of[static_cast<std::size_t>(part.rank)];
  std::vector<double> latencies(own.begin() + notes, own.end());
  reading.events->insert(reading.events->end(), latencies.begin(), latencies.end());
  const auto spread = static_cast<double>(own[planned]) + latencies.back() - latencies.front();
  const auto offered_rate = static_cast<double>(part.options[rate].number);
  const auto middle = latencies.begin() + static_cast<std::ptrdiff_t>(rounds / 2);
  std::nth_element(latencies.begin(), middle, latencies.end());
  reading.ns = *middle * static_cast<double>(rounds);
  reading.span_ns = static_cast<double>(own[whole]);
  reading.measures[0] = offered_rate;
  reading.measures[1] = spread > 0 ? offered_rate * static_cast<double>(own[planned]) / spread : offered_rate;
  reading.measures[2] = static_cast<double>(own[late_messages]) / static_cast<double>(rounds);
  reading.measures[3] = static_cast<double>(own[clock_error]);
}

std::uint32_t one(const Part&) { return 1; }

}  // namespace

extern const Pattern offered;
const Pattern offered = {
    .name = "offered",
    .summary = "messages at a given rate, each timed from when it should have left",
    .formula =
        "time of one operation = median over a batch of (arrival - planned departure); reached = rate x planned time "
        "from first to last departure / time from first to last arrival",
    .source =
        "Schroeder, Wierman, Harchol-Balter: Open Versus Closed: A Cautionary Tale (2006); Tene: How NOT to Measure "
        "Latency (2013)",
    .options = options,
    .operations = one,
    .messages_per_operation = [](const Part&) { return 0U; },
    .extra_rounds = one,
    .arrivals = [](const Part& part) { return sends(part) ? 0U : 1U; },
    .departures = [](const Part& part) { return sends(part) ? 1U : 0U; },
    .fewest_rounds = batch,
    .most_rounds = batch,
    .single_rounds = true,
    .one_buffer = true,
    .notes = [](const Part&, std::uint64_t rounds) { return notes + rounds; },
    .in_pairs = true,
    .clock_rank = [](int nranks) { return nranks - 1; },
    .synchronised = true,
    .evaluate = evaluate,
    .measures = measures,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = without_messages,
    .run = run,
};

}  // namespace netpipe::patterns
