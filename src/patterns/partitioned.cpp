// SPDX-License-Identifier: Apache-2.0
// One message whose parts several threads of a rank make ready, bounced between two ranks. The first thread of a rank
// begins the message. Each thread writes to its own parts, one after another, and marks each as ready, so that it may
// leave while others are still being written. When all are marked, the first thread waits for the end of the message,
// and receives the one that the threads of the other rank send in the same way.
//
//     time of one operation = half a round trip, by the clock of the first thread
//     throughput = size_bytes / that time
//
// The threads of a rank meet twice for each message, before they write and after, as at the two ends of a parallel
// loop. Both meetings are part of the time.
//
// by=send: the same threads write to the same bytes, and when all are done the first of them sends the message by one
// send. Between the two lies what parts bring that leave early, or what they cost.
//
// Writing is one byte in each line of the caches, by the value that it has, so that every byte can be verified.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "patterns/kit/pattern.h"
#include "patterns/kit/team.h"

namespace netpipe::patterns {
namespace {

enum Option { count, by, fill, processors };
constexpr std::array<np_option, 4> options{{
    {"threads", NP_INT, "2", 1, 1024, nullptr, "threads", "threads of each rank that make parts ready", 1},
    {"by", NP_CHOICE, "parts", 0, 0, "parts|send", "",
     "whether each thread marks its own parts as ready, or one of them sends the message when all are done", 1},
    {"fill", NP_BOOL, "yes", 0, 0, nullptr, "", "each thread writes to every cache line of its parts first", 0},
    {"processors", NP_CHOICE, "any", 0, 0, "any|rank", "",
     "where threads beside the first of a rank run: wherever the kernel puts them, or where their rank is pinned", 1},
}};

constexpr std::array<Measure, 1> measures{{
    {"waiting", "1", "share of their time in which the threads could have run and had no processor"},
}};

// What a rank notes of a sample: ns, and the measure in millionths.
enum Note { lasted, waited, notes };

int threads_of(const Part& part) { return static_cast<int>(part.options[count].number); }
bool in_parts(const Part& part) { return part.options[by].number == 0; }

std::string unfit(const Part& part, const Layer& m) {
  if (!in_parts(part)) return {};
  if (m.isend_parts == nullptr) {
    return "needs isend_parts and part_ready, which module " + std::string(m.name) + " lacks; by=send needs neither";
  }
  const auto most = std::max<std::uint32_t>(m.max_threads, 1);
  if (static_cast<std::uint32_t>(threads_of(part)) <= most) return {};
  return "wants " + std::to_string(threads_of(part)) + " threads, module " + m.name + " takes " + std::to_string(most);
}

// One byte of each line changes hands, and none changes its value.
void write_lines(char* begin, std::size_t bytes) noexcept {
  constexpr std::size_t line_bytes = 64;
  for (std::size_t i = 0; i < bytes; i += line_bytes) {
    volatile char* const at = begin + i;
    const char byte = *at;
    *at = byte;
  }
}

// The threads of one rank, and the message that they are at.
class Team {
 public:
  Team(Stage& stage, std::uint32_t parts)
      : s_(stage),
        peer_(mirrored(s_.rank, s_.nranks)),
        each_(parts / static_cast<std::uint32_t>(threads_of(s_))),
        part_bytes_(s_.size_bytes / parts),
        meeting_(threads_of(s_), s_.abort) {}

  // What a thread does in so many rounds.
  np_status work(int thread, std::uint64_t rounds) {
    const bool sends_first = is_first(s_);
    np_status status = NP_OK;
    for (std::uint64_t i = 0; i < rounds && status == NP_OK; ++i) {
      if (sends_first) status = send(thread);
      if (status == NP_OK && thread == 0)
        status = s_.module.recv(s_.endpoint, peer_, s_.incoming.take(), s_.size_bytes);
      if (status == NP_OK && !sends_first) status = send(thread);
    }
    if (status != NP_OK) meeting_.leave();
    return status;
  }

 private:
  np_status send(int thread) {
    const bool leads = thread == 0;
    if (leads) {
      if (const np_status status = begin(); status != NP_OK) return status;
    }
    if (!meeting_.wait()) return NP_ABORTED;
    if (const np_status status = make_ready(static_cast<std::uint32_t>(thread)); status != NP_OK) return status;
    if (!meeting_.wait()) return NP_ABORTED;
    return leads ? end() : NP_OK;
  }

  np_status begin() {
    message_ = s_.outgoing.take();
    std::uint32_t parts = 0;
    return in_parts(s_) ? s_.module.isend_parts(s_.endpoint, peer_, message_, s_.size_bytes, s_.requests, &parts)
                        : NP_OK;
  }
  np_status end() {
    return in_parts(s_) ? s_.module.wait(s_.endpoint, s_.requests, 1)
                        : s_.module.send(s_.endpoint, peer_, message_, s_.size_bytes);
  }
  np_status make_ready(std::uint32_t thread) {
    const bool writes = s_.options[fill].number != 0, marks = in_parts(s_);
    np_status status = NP_OK;
    for (std::uint32_t part = thread * each_; part < (thread + 1) * each_ && status == NP_OK; ++part) {
      if (writes) write_lines(message_ + part * part_bytes_, part_bytes_);
      if (marks) status = s_.module.part_ready(s_.endpoint, s_.requests, part);
    }
    return status;
  }

  Stage& s_;
  const int peer_;
  const std::uint32_t each_;  // parts of each thread
  const std::size_t part_bytes_;
  Meeting meeting_;
  char* message_ = nullptr;  // changes only while all but the first thread wait
};

// How many parts a message has. All ranks ask the same, before any thread starts.
np_status ask(const Stage& s, std::uint32_t& parts) {
  const int threads = threads_of(s);
  parts = static_cast<std::uint32_t>(threads);
  if (s.options[fill].number != 0 && !s.memory.of_host()) {
    std::snprintf(s.message.data(), s.message.size(), "the processor cannot write to this memory: give fill=no");
    return NP_UNSUPPORTED;
  }
  if (!in_parts(s)) return NP_OK;
  const int peer = mirrored(s.rank, s.nranks);
  const np_status status = s.module.isend_parts(s.endpoint, peer, s.token_out, s.size_bytes, nullptr, &parts);
  if (status != NP_OK || parts % static_cast<std::uint32_t>(threads) == 0) return status;
  std::snprintf(s.message.data(), s.message.size(), "%d threads cannot share the parts of a message evenly: it has %u",
                threads, parts);
  return NP_UNSUPPORTED;
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to) {
  std::uint32_t parts = 0;
  if (const np_status status = ask(s, parts); status != NP_OK) return status;
  Team team(s, parts);
  std::vector<double> shares(static_cast<std::size_t>(threads_of(s)));
  const Room room = s.options[processors].number == 0 ? Room::any : Room::rank;
  const np_status status = work_in_threads(shares, room, s.message, [&](int thread) {
    if (thread != 0) return team.work(thread, 1 + samples * rounds);
    np_status came = team.work(thread, 1);  // the other rank may not be there yet
    std::int64_t begin = now_ns();
    for (std::uint64_t sample = 0; sample < samples && came == NP_OK; ++sample) {
      came = team.work(thread, rounds);
      const std::int64_t end = now_ns();
      to[sample * notes + lasted] = end - begin;
      begin = end;
    }
    return came;
  });
  for (std::uint64_t sample = 0; sample < samples; ++sample) to[sample * notes + waited] = mean_in_millionths(shares);
  return status;
}

void evaluate(const Part&, std::uint64_t, Notes of, Reading& reading) {
  const std::span<const std::int64_t> own = of.front();
  reading.ns = static_cast<double>(own[lasted]);
  reading.measures[0] = of_millionths(own[waited]);
}

}  // namespace

extern const Pattern partitioned;
const Pattern partitioned = {
    .name = "partitioned",
    .summary = "a message whose parts several threads make ready, or one send of what they made, bounced",
    .formula = "time of one operation = round trip / 2; throughput = size_bytes / that time",
    .source =
        "MPI 4.0 (2021), chapter 4; Grant, Dosanjh, Levenhagen, Brightwell, Skjellum: Finepoints: Partitioned "
        "Multithreaded MPI Communication (2019)",
    .options = options,
    .operations = [](const Part&) { return 2U; },
    .extra_rounds = [](const Part&) { return 1U; },
    .arrivals = [](const Part&) { return 1U; },
    .departures = [](const Part&) { return 1U; },
    .unit_bytes = [](const Part& part) { return static_cast<std::uint64_t>(threads_of(part)); },
    .requests = [](const Part& part, std::uint64_t) { return std::uint64_t{in_parts(part) ? 1U : 0U}; },
    .single_rounds = true,
    .one_buffer = true,
    .notes = [](const Part&, std::uint64_t) { return std::uint64_t{notes}; },
    .in_pairs = true,
    .evaluate = evaluate,
    .measures = measures,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = without_messages,
    .unfit = unfit,
    .run = run,
};

}  // namespace netpipe::patterns
