// SPDX-License-Identifier: Apache-2.0
// Several threads of each rank send at once, over one endpoint: thread t of a rank exchanges messages with thread t of
// its peer, and with no other. What counts is when the last thread of the rank that reads the clock is done.
//
//     time of a sample = from the first start of any thread to the end of the slowest
//     traffic=pingpong   time of one operation = half a round trip of each thread
//     traffic=window     time of one operation = time of a window of each thread, the acknowledgement included /
//                        messages in it
//     throughput = size_bytes x threads / that time; message rate = threads / that time
//
// The threads of a rank begin each sample together; those of its peer only answer. How a layer keeps the messages of
// threads apart is its own affair: a thread names its peer by rank + ranks x thread (docs/decisions/0026). The layer is
// asked before any thread is started, by a batch of no messages for each.
//
// Every thread has places of its own to send from and to receive into. Threads beside the first of a rank may run
// anywhere, or where their rank is pinned (processors=rank). Where there are more threads than processors they take
// turns, and the measure `waiting` says for how much of their time.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "patterns/kit/pattern.h"
#include "patterns/kit/team.h"

namespace netpipe::patterns {
namespace {

enum Option { count, traffic, in_flight, processors };
constexpr int usual_in_flight = 16;
constexpr std::array<np_option, 4> options{{
    {"threads", NP_INT, "2", 1, 1024, nullptr, "threads", "threads of each rank that send at once", 0},
    {"traffic", NP_CHOICE, "pingpong", 0, 0, "pingpong|window", "",
     "what each thread does: one message there and back, or many in flight and then an acknowledgement", 0},
    {"in_flight", NP_INT, "16", 1, 65536, nullptr, "messages",
     "traffic=window: messages of a thread in flight together", 1},
    {"processors", NP_CHOICE, "any", 0, 0, "any|rank", "",
     "where threads beside the first of a rank run: wherever the kernel puts them, or where their rank is pinned", 1},
}};

constexpr std::array<Measure, 2> measures{{
    {"waiting", "1", "share of their time in which the threads could have run and had no processor"},
    {"first_out", "ns", "when the thread that ended first was done, per operation"},
}};

// What a rank notes of a sample, in ns from the first start of a thread on; parts: waiting, in millionths.
enum Note { ended, first_out, parts, notes };

int threads_of(const Part& part) { return static_cast<int>(part.options[count].number); }
bool windows(const Part& part) { return part.options[traffic].number != 0; }
std::uint32_t width(const Part& part) {
  return windows(part) ? static_cast<std::uint32_t>(part.options[in_flight].number) : 1;
}
std::uint32_t messages(const Part& part) { return static_cast<std::uint32_t>(threads_of(part)) * width(part); }

const char* missing(const Layer& m, int nranks) {
  if (const char* const lack = without_requests(m, nranks); lack != nullptr) return lack;
  return m.max_threads > 1 ? nullptr : "calls by several threads at once";
}

std::string unfit(const Part& part, const Layer& m) {
  if (part.options[in_flight].number != usual_in_flight && !windows(part))
    return "has in_flight only with traffic=window";
  if (static_cast<std::uint32_t>(threads_of(part)) <= m.max_threads) return {};
  return "wants " + std::to_string(threads_of(part)) + " threads, module " + m.name + " takes " +
         std::to_string(m.max_threads);
}

// The places of one thread in one direction. Message m of round r of thread t is message (r x threads + t) x width + m
// of its rank, which is where verification looks for it.
class Places {
 public:
  Places(const Slots& all, const Part& part, std::uint32_t thread) : row_(all.base(), all.stride(), all.count()) {
    const std::uint64_t many = all.count();
    at_ = static_cast<std::uint32_t>((all.next() + std::uint64_t{thread} * width(part)) % many);
    step_ = static_cast<std::uint32_t>(messages(part) % many);
    // Sends that are not verified start from one place of the thread.
    if (many != static_cast<std::uint64_t>(threads_of(part))) return;
    row_ = Slots(all.at(thread), all.stride(), 1);
    at_ = step_ = 0;
  }
  // Those of the next round.
  Slots next() noexcept {
    Slots round = row_;
    round.rewind(at_);
    at_ += step_;
    if (at_ >= row_.count()) at_ -= row_.count();
    return round;
  }

 private:
  Slots row_;
  std::uint32_t at_ = 0, step_ = 0;
};

// One thread of one rank. It takes nothing from the stage that another thread changes.
class Thread {
 public:
  Thread(const Stage& s, int thread)
      : m_(s.module),
        endpoint_(s.endpoint),
        peer_(mirrored(s.rank, s.nranks) + s.nranks * thread),
        bytes_(s.size_bytes),
        width_(width(s)),
        first_(is_first(s)),
        requests_(s.requests + std::uint64_t{width_} * static_cast<std::uint64_t>(thread)),
        outgoing_(s.outgoing, s, static_cast<std::uint32_t>(thread)),
        incoming_(s.incoming, s, static_cast<std::uint32_t>(thread)) {}

  np_status pingpong(std::uint64_t rounds) {
    np_status status = NP_OK;
    for (std::uint64_t i = 0; i < rounds && status == NP_OK; ++i) {
      char* const out = outgoing_.next().take();
      char* const in = incoming_.next().take();
      if (first_) status = m_.send(endpoint_, peer_, out, bytes_);
      if (status == NP_OK) status = m_.recv(endpoint_, peer_, in, bytes_);
      if (!first_ && status == NP_OK) status = m_.send(endpoint_, peer_, out, bytes_);
    }
    return status;
  }

  np_status windows(std::uint64_t rounds) {
    np_status status = NP_OK;
    for (std::uint64_t i = 0; i < rounds && status == NP_OK; ++i) {
      Slots places = (first_ ? outgoing_ : incoming_).next();
      status = first_ ? start_messages(m_.isend, endpoint_, peer_, places, bytes_, requests_, width_)
                      : start_messages(m_.irecv, endpoint_, peer_, places, bytes_, requests_, width_);
      if (status == NP_OK) status = m_.wait(endpoint_, requests_, width_);
      if (status != NP_OK) break;
      status = first_ ? m_.recv(endpoint_, peer_, &word_, 1) : m_.send(endpoint_, peer_, &word_, 1);
    }
    return status;
  }

 private:
  const Layer& m_;
  np_endpoint* endpoint_;
  int peer_;
  std::size_t bytes_;
  std::uint32_t width_;
  bool first_;
  np_request* requests_;
  Places outgoing_, incoming_;
  alignas(64) char word_ = 0;  // the acknowledgement, in a line of the caches that no other thread writes
};

// Whether the layer can do this with these settings. All ranks ask for the same threads in the same order.
np_status ask(const Stage& s) {
  Slots probe = s.incoming;
  probe.rewind();
  if (probe.left_in_row(2) == 1) {
    std::snprintf(s.message.data(), s.message.size(), "several threads have places of their own: leave out reuse");
    return NP_UNSUPPORTED;
  }
  np_status status = NP_OK;
  for (int thread = 1; thread < threads_of(s) && status == NP_OK; ++thread) {
    const int peer = mirrored(s.rank, s.nranks) + s.nranks * thread;
    status = s.module.isend(s.endpoint, peer, s.token_out, 0, 0, s.requests, 0);
    if (status == NP_OK) status = s.module.irecv(s.endpoint, peer, s.token_in, 0, 0, s.requests, 0);
  }
  return status;
}

// What the threads of the rank that reads the clock tell each other.
struct Clock {
  Meeting meeting;
  std::vector<std::int64_t> begun, done;
  std::int64_t* to;  // the notes of the next sample

  Clock(int threads, const Stage& s, std::int64_t* notes_of_all)
      : meeting(threads, s.abort),
        begun(static_cast<std::size_t>(threads)),
        done(static_cast<std::size_t>(threads)),
        to(notes_of_all) {}

  void note() {
    const std::int64_t begin = *std::min_element(begun.begin(), begun.end());
    to[ended] = *std::max_element(done.begin(), done.end()) - begin;
    to[first_out] = *std::min_element(done.begin(), done.end()) - begin;
    to += notes;
  }

  template <typename Rounds>
  np_status samples(int thread, std::uint64_t many, std::uint64_t rounds, const Rounds& work) {
    const auto i = static_cast<std::size_t>(thread);
    for (std::uint64_t sample = 0; sample < many; ++sample) {
      if (!meeting.wait()) return NP_ABORTED;
      begun[i] = now_ns();
      const np_status status = work(rounds);
      done[i] = now_ns();
      if (status != NP_OK) return status;
      if (!meeting.wait()) return NP_ABORTED;
      if (thread == 0) note();  // all others wait for this thread before they begin again
    }
    return NP_OK;
  }
};

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to) {
  if (const np_status status = ask(s); status != NP_OK) return status;
  Clock clock(threads_of(s), s, to);
  std::vector<double> waited(static_cast<std::size_t>(threads_of(s)));
  const bool reads = is_first(s);
  const Room room = s.options[processors].number == 0 ? Room::any : Room::rank;
  const np_status status = work_in_threads(waited, room, s.message, [&](int number) {
    Thread thread(s, number);
    const auto work = [&](std::uint64_t times) { return windows(s) ? thread.windows(times) : thread.pingpong(times); };
    np_status came = work(1);  // the other rank's thread may not be there yet
    if (came == NP_OK) came = reads ? clock.samples(number, samples, rounds, work) : work(samples * rounds);
    if (came != NP_OK) clock.meeting.leave();
    return came;
  });
  for (std::uint64_t i = 0; i < samples; ++i) to[i * notes + parts] = mean_in_millionths(waited);
  return status;
}

std::uint32_t operations(const Part& part) { return windows(part) ? width(part) : 2; }

void evaluate(const Part& part, std::uint64_t rounds, Notes of, Reading& reading) {
  const std::span<const std::int64_t> own = of.front();
  reading.ns = static_cast<double>(own[ended]);
  reading.measures[0] = of_millionths(own[parts]);
  reading.measures[1] = static_cast<double>(own[first_out]) / static_cast<double>(rounds * operations(part));
}

std::uint32_t arrivals(const Part& part) { return windows(part) && is_first(part) ? 0 : messages(part); }
std::uint32_t departures(const Part& part) { return windows(part) && !is_first(part) ? 0 : messages(part); }

}  // namespace

extern const Pattern threads;
const Pattern threads = {
    .name = "threads",
    .summary = "several threads of each rank send at once: a ping-pong, or a window, of each",
    .formula =
        "time of one operation = first start to the end of the slowest thread, per half round trip of a thread (or per "
        "message of its windows); throughput = size_bytes x threads / that time",
    .source =
        "Thakur and Gropp: Test Suite for Evaluating Performance of MPI Implementations That Support "
        "MPI_THREAD_MULTIPLE (2007); OSU Micro-Benchmarks: osu_latency_mt, osu_mbw_mr",
    .options = options,
    .operations = operations,
    .messages_per_operation = [](const Part& part) { return static_cast<std::uint32_t>(threads_of(part)); },
    .extra_rounds = [](const Part&) { return 1U; },
    .arrivals = arrivals,
    .departures = departures,
    .in_flight = messages,
    .starts = [](const Part& part) { return static_cast<std::uint32_t>(threads_of(part)); },
    .requests = [](const Part& part, std::uint64_t) { return std::uint64_t{messages(part)}; },
    .single_rounds = true,
    .one_buffer = false,
    .notes = [](const Part&, std::uint64_t) { return std::uint64_t{notes}; },
    .in_pairs = true,
    .evaluate = evaluate,
    .measures = measures,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = missing,
    .unfit = unfit,
    .run = run,
};

}  // namespace netpipe::patterns
