// SPDX-License-Identifier: Apache-2.0
// One message to all other ranks: rank 0 hands it to the layer once, which brings it to every other rank (multicast).
// Each of them answers with one byte, and the round ends with the last answer.
//
//     time of one operation = from the first cast until the last answer, by rank 0's clock / messages in between
//     throughput = (ranks - 1) x size_bytes / that time: what arrives at all others together
//
// by=sends: rank 0 sends the same message to one rank after another, as it would without multicast. Between the two
// lies what the layer, or the network, saves by making the copies itself.
//
// A receiver that lost a message answers all the same. Somebody has waited in vain then, for the message or for an
// answer that was lost, so the sample has no time. Lost answers are in no share of lost messages.
#include <array>
#include <string>

#include "patterns/kit/pattern.h"

namespace netpipe::patterns {
namespace {

enum Option { by, in_flight };
constexpr std::array<np_option, 2> options{{
    {"by", NP_CHOICE, "cast", 0, 0, "cast|sends", "",
     "whether the layer brings one message to all other ranks, or rank 0 sends it to one after another", 1},
    {"in_flight", NP_INT, "1", 1, 65536, nullptr, "messages", "messages before all others answer, in flight together",
     1},
}};

bool casts(const Part& part) { return part.options[by].number == 0; }
std::uint32_t width(const Part& part) { return static_cast<std::uint32_t>(part.options[in_flight].number); }
std::uint32_t receivers(const Part& part) { return static_cast<std::uint32_t>(part.nranks - 1); }

std::string unfit(const Part& part, const Layer& m) {
  if (!casts(part) || m.cast != nullptr) return {};
  return "needs cast and recv_cast, which module " + std::string(m.name) + " lacks; by=sends needs neither";
}

np_status send_to_all(Stage& s, const char* out) {
  np_status status = NP_OK;
  for (int peer = 1; peer < s.nranks && status == NP_OK; ++peer) {
    status = s.module.send(s.endpoint, peer, out, s.size_bytes);
  }
  return status;
}

np_status await_answers(Stage& s, std::uint64_t sample) {
  for (int peer = 1; peer < s.nranks; ++peer) {
    const np_status status = s.module.recv(s.endpoint, peer, s.token_in, 1);
    if (status != NP_OK && !only_lost_word(s, status, sample)) return status;
  }
  return NP_OK;
}

np_status source(Stage& s, std::uint64_t times, std::uint64_t sample) {
  const auto cast = s.module.cast;
  const bool once = casts(s);
  const std::uint32_t count = width(s);
  np_status status = NP_OK;
  for (std::uint64_t round = 0; round < times && status == NP_OK; ++round) {
    for (std::uint32_t i = 0; i < count && status == NP_OK; ++i) {
      const char* const out = s.outgoing.take();
      status = once ? cast(s.endpoint, out, s.size_bytes) : send_to_all(s, out);
    }
    if (status == NP_OK) status = await_answers(s, sample);
  }
  return status;
}

// The first of its rounds belongs to no sample.
np_status sink(Stage& s, std::uint64_t samples, std::uint64_t rounds) {
  const auto receive = casts(s) ? s.module.recv_cast : s.module.recv;
  const std::uint32_t count = width(s);
  for (std::uint64_t round = 0; round < 1 + samples * rounds; ++round) {
    const std::uint64_t sample = round == 0 ? no_sample : (round - 1) / rounds;
    for (std::uint32_t i = 0; i < count; ++i) {
      char* const in = s.incoming.take();
      const np_status status = receive(s.endpoint, 0, in, s.size_bytes);
      if (status != NP_OK && !only_lost(s, status, sample, in)) return status;
    }
    if (const np_status status = s.module.send(s.endpoint, 0, s.token_out, 1); status != NP_OK) return status;
  }
  return NP_OK;
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  if (s.rank != 0) return sink(s, samples, rounds);
  // The others may still be on their way out of the barrier.
  if (const np_status status = source(s, 1, no_sample); status != NP_OK) return status;
  *stamps++ = now_ns();
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    if (const np_status status = source(s, rounds, sample); status != NP_OK) return status;
    *stamps++ = now_ns();
  }
  return NP_OK;
}

}  // namespace

extern const Pattern cast;
const Pattern cast = {
    .name = "cast",
    .summary = "one message to all other ranks at once (multicast), or by a send to each; all answer",
    .formula =
        "time of one operation = (first cast to last answer) / in_flight; throughput = (ranks - 1) x size_bytes / that "
        "time",
    .source = "Deering: Host Extensions for IP Multicasting (RFC 1112, 1989)",
    .options = options,
    .operations = width,
    .messages_per_operation = receivers,
    .extra_rounds = [](const Part&) { return 1U; },
    .arrivals = [](const Part& part) { return part.rank == 0 ? 0U : width(part); },
    .departures = [](const Part& part) { return part.rank == 0 ? width(part) : 0U; },
    .origin = [](const Part&, std::uint64_t i) { return Origin{0, i}; },
    .in_flight = width,
    .single_rounds = true,
    .one_buffer = false,
    .casts = casts,
    .loss = Loss::spoils,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .missing = without_messages,
    .unfit = unfit,
    .run = run,
};

}  // namespace netpipe::patterns
