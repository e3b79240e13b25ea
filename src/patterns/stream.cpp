// SPDX-License-Identifier: Apache-2.0
// Messages in one direction, as fast as they go; the receiver's clock counts, from the arrival of the first message on.
//
//     time of one operation = time between first and last arrival of a sample / messages in it
//     throughput = size_bytes / that time
//
// The system may join many small messages into one packet: the time of a small message is no latency. Connections are
// made anew before each visit where the module can (tcp: reopen), because a window that has collapsed would spoil what
// follows.
#include "patterns/kit/pattern.h"

namespace netpipe::patterns {
namespace {

np_status source(Stage& s, std::uint64_t count) {
  const auto send = s.module.send;
  const int peer = mirrored(s.rank, s.nranks);
  const std::size_t bytes = s.size_bytes;
  for (std::uint64_t i = 0; i < count; ++i) {
    const np_status status = send(s.endpoint, peer, s.outgoing.take(), bytes);
    if (status != NP_OK) return status;
  }
  return NP_OK;
}

// Of a layer that loses messages. When the last ones are lost, nothing comes behind them that would show it, and the
// receiver finds out after a while in which nothing moved. That is no part of the time, so a sample ends with its last
// arrival, at the cost of a clock reading for each.
np_status lossy_sink(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  const auto recv = s.module.recv;
  const int peer = mirrored(s.rank, s.nranks);
  const std::size_t bytes = s.size_bytes;
  char* in = s.incoming.take();
  np_status status = recv(s.endpoint, peer, in, bytes);  // starts the clock, counts for nothing
  if (status != NP_OK && !only_lost(s, status, no_sample, in)) return status;
  *stamps++ = now_ns();
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    std::int64_t arrived = 0;
    for (std::uint64_t i = 0; i < rounds; ++i) {
      in = s.incoming.take();
      status = recv(s.endpoint, peer, in, bytes);
      if (status == NP_OK) {
        arrived = now_ns();
      } else if (!only_lost(s, status, sample, in)) {
        return status;
      }
    }
    *stamps++ = arrived != 0 ? arrived : now_ns();
  }
  return NP_OK;
}

np_status sink(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  const auto recv = s.module.recv;
  const int peer = mirrored(s.rank, s.nranks);
  const std::size_t bytes = s.size_bytes;
  np_status status = recv(s.endpoint, peer, s.incoming.take(), bytes);  // starts the clock, counts for nothing
  if (status != NP_OK) return status;
  *stamps++ = now_ns();
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    for (std::uint64_t i = 0; i < rounds; ++i) {
      status = recv(s.endpoint, peer, s.incoming.take(), bytes);
      if (status != NP_OK) return status;
    }
    *stamps++ = now_ns();
  }
  return NP_OK;
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  if (is_first(s)) return source(s, samples * rounds + 1);
  return s.lost != nullptr ? lossy_sink(s, samples, rounds, stamps) : sink(s, samples, rounds, stamps);
}

std::uint32_t arrivals(const Part& part) { return is_first(part) ? 0 : 1; }
std::uint32_t departures(const Part& part) { return is_first(part) ? 1 : 0; }

}  // namespace

extern const Pattern stream;
const Pattern stream = {
    .name = "stream",
    .summary = "messages in one direction, timed by the receiver; many pairs at once",
    .formula =
        "time of one operation = time between first and last arrival / messages after the first; throughput = "
        "size_bytes / "
        "that time",
    .source = "Turner, Oline, Chen, Benjegerdes: Integrating New Capabilities into NetPIPE (2003), section 2",
    .operations = [](const Part&) { return 1U; },
    .extra_rounds = [](const Part&) { return 1U; },
    .arrivals = arrivals,
    .departures = departures,
    .single_rounds = false,
    .one_buffer = true,
    .in_pairs = true,
    .clock_rank = [](int nranks) { return nranks - 1; },
    .resets = true,
    .loss = Loss::thins,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = without_messages,
    .run = run,
};

}  // namespace netpipe::patterns
