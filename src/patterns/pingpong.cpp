// SPDX-License-Identifier: Apache-2.0
// A message is bounced between two ranks; the time of one operation is half the round trip.
//
//     latency = round trip / 2          throughput = size_bytes / latency
//
// More ranks are pairs, the first with the last and so on inwards, all at the same time (Pattern::in_pairs).
// In one process (memcpy, null) an operation is one put into another place of the own memory, or one send and the
// receive of it.
#include "patterns/kit/one_sided.h"
#include "patterns/kit/pattern.h"

namespace netpipe::patterns {
namespace {

const char* missing(const Layer& m, int nranks) {
  if (nranks == 1 && m.put != nullptr) return nullptr;
  return m.send == nullptr ? "send and recv" : nullptr;
}

// Of a layer that completes a put later (an accelerator copies by itself) an operation is a put and its flush.
np_status alone_each(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  const auto put_each = s.module.put_each;
  *stamps++ = now_ns();
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    for (std::uint64_t left = 2 * rounds; left > 0;) {
      const auto [near, far] = one_sided::take_both(s.outgoing, s.incoming, left);
      const np_status status =
          put_each(s.endpoint, 0, near.base, near.stride, s.far_in, static_cast<std::size_t>(far.base - s.near_in),
                   far.stride, s.size_bytes, near.count);
      if (status != NP_OK) return status;
      left -= near.count;
    }
    *stamps++ = now_ns();
  }
  return NP_OK;
}

np_status alone(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  if (s.module.put_each != nullptr) return alone_each(s, samples, rounds, stamps);
  const auto put = s.module.put;
  const std::size_t bytes = s.size_bytes;
  *stamps++ = now_ns();
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    for (std::uint64_t i = 0; i < 2 * rounds; ++i) {
      const auto offset = static_cast<std::size_t>(s.incoming.take() - s.near_in);
      const np_status status = put(s.endpoint, 0, s.outgoing.take(), s.far_in, offset, bytes);
      if (status != NP_OK) return status;
    }
    *stamps++ = now_ns();
  }
  return NP_OK;
}

// What comes between the end of a receive and the send that answers it is part of the time: the next place is taken
// before, from a copy that the compiler keeps in registers.
np_status ping(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  const auto send = s.module.send;
  const auto recv = s.module.recv;
  np_endpoint* const endpoint = s.endpoint;
  const int peer = mirrored(s.rank, s.nranks);
  const std::size_t bytes = s.size_bytes;
  Slots outgoing = s.outgoing, incoming = s.incoming;
  const char* out = outgoing.take();
  const auto bounce = [&](std::uint64_t times, std::uint64_t sample) {
    for (std::uint64_t i = 0; i < times; ++i) {
      char* const in = incoming.take();
      np_status status = send(endpoint, peer, out, bytes);
      out = outgoing.take();
      if (status == NP_OK) status = recv(endpoint, peer, in, bytes);
      if (status != NP_OK && !only_lost(s, status, sample, in)) return status;
    }
    return NP_OK;
  };
  // The other rank may still be on its way out of the barrier: the first answer says that it is here.
  if (s.nranks > 1) {
    if (const np_status status = bounce(1, no_sample); status != NP_OK) return status;
  }
  *stamps++ = now_ns();
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    if (const np_status status = bounce(rounds, sample); status != NP_OK) return status;
    *stamps++ = now_ns();
  }
  return NP_OK;
}

// The first of its rounds belongs to no sample.
np_status pong(Stage& s, std::uint64_t samples, std::uint64_t rounds) {
  const std::uint64_t count = 1 + samples * rounds;
  const auto send = s.module.send;
  const auto recv = s.module.recv;
  np_endpoint* const endpoint = s.endpoint;
  const int peer = mirrored(s.rank, s.nranks);
  const std::size_t bytes = s.size_bytes;
  Slots outgoing = s.outgoing, incoming = s.incoming;
  for (std::uint64_t i = 0; i < count; ++i) {
    const char* const out = outgoing.take();
    char* const in = incoming.take();
    np_status status = recv(endpoint, peer, in, bytes);
    if (status != NP_OK && !only_lost(s, status, i == 0 ? no_sample : (i - 1) / rounds, in)) return status;
    status = send(endpoint, peer, out, bytes);
    if (status != NP_OK) return status;
  }
  return NP_OK;
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  if (s.nranks == 1 && s.module.put != nullptr) return alone(s, samples, rounds, stamps);
  const bool first = s.nranks == 1 || is_first(s);
  return first ? ping(s, samples, rounds, stamps) : pong(s, samples, rounds);
}

std::uint32_t messages(const Part& part) { return part.nranks == 1 ? 2 : 1; }

}  // namespace

extern const Pattern pingpong;
const Pattern pingpong = {
    .name = "pingpong",
    .summary = "a message bounced between two ranks, or in many pairs at once",
    .formula = "time of one operation = round trip / 2; throughput = size_bytes / that time",
    .source = "Turner, Oline, Chen, Benjegerdes: Integrating New Capabilities into NetPIPE (2003), section 2",
    .operations = [](const Part&) { return 2U; },
    .extra_rounds = [](const Part& part) { return part.nranks > 1 ? 1U : 0U; },
    .arrivals = messages,
    .departures = messages,
    .single_rounds = true,
    .one_buffer = true,
    .in_pairs = true,
    .loss = Loss::spoils,
    .min_ranks = 1,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = missing,
    .run = run,
};

}  // namespace netpipe::patterns
