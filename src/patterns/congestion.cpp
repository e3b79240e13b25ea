// SPDX-License-Identifier: Apache-2.0
// What other traffic does to a ping-pong: the first and the last rank are the victim, and all ranks between load the
// network. Each sample has a part without load and one with it, so that both see the same machine.
//
//     time of one operation = round trip of the victim under load / 2; throughput = size_bytes / that time
//     slowdown = that time / the same without load: the congestion impact factor of a sample
//
// load=pairs: the ranks between are pairs, the outermost with each other and so on inwards, and both of a pair send
// windows of messages to each other without a pause. load=incast: all of them send to the last but one.
//
// The first of each pair leads (with incast all who send): rank 0 lets the leaders begin, waits until a window of each
// has arrived, takes its time, and tells them to stop, for which each looks between two windows; before each window a
// leader tells its follower by a byte that there is one, or that it was the last. When all leaders have said that they
// are quiet, the next sample begins. After Chunduri et al., "GPCNeT: Designing a Benchmark Suite for Inducing and
// Measuring Contention in HPC Networks" (2019).
#include <algorithm>
#include <array>
#include <vector>

#include "patterns/kit/pattern.h"

namespace netpipe::patterns {
namespace {

enum Option { load_bytes, load };
enum Load { in_pairs, incast };
constexpr std::array<np_option, 2> options{{
    {"load_bytes", NP_SIZE, "64k", 1, 1LL << 30, nullptr, "bytes", "size of the messages that load the network", 1},
    {"load", NP_CHOICE, "pairs", 0, 0, "pairs|incast", "", "who loads it: pairs both ways, or all to one", 1},
}};

constexpr std::array<Measure, 3> measures{{
    {"unloaded", "ns", "time of one operation without load"},
    {"slowdown", "1", "time of one operation with load over that without"},
    {"load", "bytes/s", "what the other ranks moved meanwhile, all together and both ways", Worse::neither},
}};

constexpr int window = 8;  // messages of a pair that are under way at once, each way

bool pairs(const Part& part) { return part.options[load].number == in_pairs; }
std::uint64_t load_size(const Part& part) { return static_cast<std::uint64_t>(part.options[load_bytes].number); }
bool victim(const Part& part) { return part.rank == 0 || part.rank == part.nranks - 1; }

// Leaders are ranks 1 to this.
int leaders(const Part& part) { return pairs(part) ? part.nranks / 2 - 1 : part.nranks - 3; }
bool leads(const Part& part) { return part.rank >= 1 && part.rank <= leaders(part); }
int follower(const Part& part) { return pairs(part) ? mirrored(part.rank, part.nranks) : part.nranks - 2; }
int leaders_of(const Part& part) { return pairs(part) ? 1 : leaders(part); }  // of a follower
int leader_of(const Part& part, int i) { return pairs(part) ? mirrored(part.rank, part.nranks) : 1 + i; }

// Starts receiving a window from `peer`, or sending one to it.
np_status receive_window(Stage& s, int peer, np_request*& request) {
  const np_status status = start_receives(s, peer, load_size(s), request, window);
  request += window;
  return status;
}

np_status send_window(Stage& s, int peer, np_request*& request) {
  const np_status status = start_sends(s, peer, load_size(s), request, window);
  request += window;
  return status;
}

np_status wait_all(Stage& s, np_request* from, const np_request* to) {
  return s.module.wait(s.endpoint, from, static_cast<std::size_t>(to - from));
}

// ------------------------------------------------------------------------------------------------- the load

// One window, or the word that there is none any more.
np_status lead_window(Stage& s, bool more) {
  const Layer& m = s.module;
  const int peer = follower(s);
  s.memory.put(s.token_out, static_cast<char>(more ? 1 : 0));
  np_status status = m.send(s.endpoint, peer, s.token_out, 1);
  if (!more || status != NP_OK) return status;
  np_request* const first = s.requests + 1;
  np_request* end = first;
  if (pairs(s)) status = receive_window(s, peer, end);
  if (status == NP_OK) status = send_window(s, peer, end);
  if (status == NP_OK) status = wait_all(s, first, end);
  return status != NP_OK ? status : m.recv(s.endpoint, peer, s.token_in + 1, 1);
}

// What a leader notes of a sample: the bytes that were moved under load, and how long.
enum LeaderNote { moved_bytes, moved_ns, leader_notes };

np_status lead(Stage& s, std::uint64_t samples, std::int64_t* to) {
  const Layer& m = s.module;
  const auto window_bytes = static_cast<std::int64_t>(load_size(s)) * window * (pairs(s) ? 2 : 1);
  for (std::uint64_t sample = 0; sample < samples; ++sample, to += leader_notes) {
    np_status status = m.recv(s.endpoint, 0, s.token_in, 1);
    if (status == NP_OK) status = lead_window(s, true);
    const std::int64_t begin = now_ns();
    if (status == NP_OK) status = m.irecv(s.endpoint, 0, s.token_in, 0, 1, s.requests, 1);
    if (status == NP_OK) status = m.send(s.endpoint, 0, s.token_out, 1);
    if (status != NP_OK) return status;
    while ((status = m.test(s.endpoint, s.requests)) == NP_PENDING) {
      if (status = lead_window(s, true); status != NP_OK) return status;
      if (*s.abort != 0) return NP_ABORTED;
      to[moved_bytes] += window_bytes;
    }
    to[moved_ns] = now_ns() - begin;
    if (status == NP_OK) status = lead_window(s, false);
    if (status == NP_OK) status = m.send(s.endpoint, 0, s.token_out, 1);
    if (status != NP_OK) return status;
  }
  return NP_OK;
}

np_status follow(Stage& s, std::uint64_t samples) {
  const Layer& m = s.module;
  std::vector<int> going;
  going.reserve(static_cast<std::size_t>(leaders_of(s)));
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    going.clear();
    for (int i = 0; i < leaders_of(s); ++i) going.push_back(leader_of(s, i));
    for (;;) {
      np_status status = NP_OK;
      const auto stops = [&](int leader) {
        if (status == NP_OK) status = m.recv(s.endpoint, leader, s.token_in, 1);
        return status == NP_OK && s.memory.get<char>(s.token_in) == 0;
      };
      going.erase(std::remove_if(going.begin(), going.end(), stops), going.end());
      if (status != NP_OK) return status;
      if (going.empty()) break;
      np_request* end = s.requests;
      for (const int leader : going) {
        if (status == NP_OK) status = receive_window(s, leader, end);
        if (status == NP_OK && pairs(s)) status = send_window(s, leader, end);
      }
      if (status == NP_OK) status = wait_all(s, s.requests, end);
      for (const int leader : going) {
        if (status == NP_OK) status = m.send(s.endpoint, leader, s.token_out, 1);
      }
      if (status != NP_OK) return status;
    }
  }
  return NP_OK;
}

// ------------------------------------------------------------------------------------------------- the victim

np_status tell_leaders(Stage& s) {
  np_status status = NP_OK;
  for (int rank = 1; rank <= leaders(s) && status == NP_OK; ++rank) {
    status = s.module.send(s.endpoint, rank, s.token_out, 1);
  }
  return status;
}

np_status hear_leaders(Stage& s) {
  np_status status = NP_OK;
  for (int rank = 1; rank <= leaders(s) && status == NP_OK; ++rank) {
    status = s.module.recv(s.endpoint, rank, s.token_in, 1);
  }
  return status;
}

np_status bounce(Stage& s, std::uint64_t times) {
  const auto send = s.module.send;
  const auto recv = s.module.recv;
  const bool first = s.rank == 0;
  const int peer = mirrored(s.rank, s.nranks);
  const std::size_t bytes = s.size_bytes;
  np_status status = NP_OK;
  for (std::uint64_t i = 0; i < times && status == NP_OK; ++i) {
    if (first) status = send(s.endpoint, peer, s.outgoing.take(), bytes);
    if (status == NP_OK) status = recv(s.endpoint, peer, s.incoming.take(), bytes);
    if (!first && status == NP_OK) status = send(s.endpoint, peer, s.outgoing.take(), bytes);
  }
  return status;
}

// What rank 0 notes of a sample, ns.
enum Note { without_load, under_load, whole, victim_notes };

np_status suffer(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to) {
  if (const np_status status = bounce(s, 2); status != NP_OK) return status;
  for (std::uint64_t sample = 0; sample < samples; ++sample, to += victim_notes) {
    const std::int64_t here = now_ns();
    np_status status = bounce(s, rounds);
    to[without_load] = now_ns() - here;
    if (status == NP_OK) status = tell_leaders(s);
    if (status == NP_OK) status = hear_leaders(s);
    const std::int64_t begin = now_ns();
    if (status == NP_OK) status = bounce(s, rounds);
    to[under_load] = now_ns() - begin;
    if (status == NP_OK) status = tell_leaders(s);
    if (status == NP_OK) status = hear_leaders(s);
    to[whole] = now_ns() - here;
    if (status != NP_OK) return status;
  }
  return NP_OK;
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to) {
  if (s.rank == 0) return suffer(s, samples, rounds, to);
  if (victim(s)) return bounce(s, 2 * (samples * rounds + 1));
  return leads(s) ? lead(s, samples, to) : follow(s, samples);
}

std::uint64_t notes(const Part& part, std::uint64_t) {
  if (part.rank == 0) return victim_notes;
  return leads(part) ? leader_notes : 0;
}

void evaluate(const Part& part, std::uint64_t rounds, Notes of, Reading& reading) {
  const auto without = static_cast<double>(of[0][without_load]);
  reading.ns = static_cast<double>(of[0][under_load]);
  reading.span_ns = static_cast<double>(of[0][whole]);
  reading.measures[0] = without / static_cast<double>(2 * rounds);
  reading.measures[1] = without > 0 ? reading.ns / without : 1;
  reading.measures[2] = 0;
  for (int rank = 1; rank <= leaders(part); ++rank) {
    const std::span<const std::int64_t> own = of[static_cast<std::size_t>(rank)];
    const auto ns = static_cast<double>(std::max<std::int64_t>(own[moved_ns], 1));
    reading.measures[2] += static_cast<double>(own[moved_bytes]) * 1e9 / ns;
  }
}

// As long as several windows of the load, where the messages are small.
std::uint64_t fewest_rounds(const Part& part) {
  constexpr std::uint64_t enough_bytes = 256 << 10;
  return std::clamp<std::uint64_t>(enough_bytes / std::max<std::uint64_t>(part.size_bytes, 1), 1, 64);
}

std::uint32_t two(const Part& part) { return victim(part) ? 2 : 0; }

// Of a follower, who has most; its memory is that of all ranks.
std::uint32_t most_windows(const Part& part) {
  return static_cast<std::uint32_t>(window * std::max(leaders_of(part), 1));
}

}  // namespace

extern const Pattern congestion;
const Pattern congestion = {
    .name = "congestion",
    .summary = "a ping-pong while all other ranks load the network, and how much slower it is",
    .formula =
        "time of one operation = round trip under load / 2; throughput = size_bytes / that time; slowdown = that time "
        "time under load over the time without load",
    .source =
        "Chunduri et al.: GPCNeT: Designing a Benchmark Suite for Inducing and Measuring Contention in HPC Networks "
        "(2019)",
    .options = options,
    .operations = [](const Part&) { return 2U; },
    .extra_rounds = [](const Part&) { return 1U; },
    .arrivals = two,
    .departures = two,
    .in_flight = [](const Part& part) { return victim(part) ? 1U : most_windows(part); },
    .place_bytes = [](const Part& part) { return victim(part) ? part.size_bytes : load_size(part); },
    .requests = [](const Part& part, std::uint64_t) { return std::uint64_t{2} * most_windows(part) + 1; },
    .fewest_rounds = fewest_rounds,
    .single_rounds = true,
    .one_buffer = false,
    .notes = notes,
    .every_rank = true,
    .evaluate = evaluate,
    .measures = measures,
    .min_ranks = 4,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = without_requests,
    .run = run,
};

}  // namespace netpipe::patterns
