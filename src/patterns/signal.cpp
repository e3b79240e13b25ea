// SPDX-License-Identifier: Apache-2.0
// A ping-pong of puts: each rank writes into the memory of the other and, behind the bytes, a value that tells it so.
//
//     latency = round trip / 2          throughput = size_bytes / latency
//
// Who waits knows from the value alone that its message is there: put_signal and await_signal. Beside `pingpong` over
// the same layer this is what two-sided messages cost more, or less; beside `put` it is what telling the target costs.
#include <cstdio>

#include "patterns/kit/pattern.h"

namespace netpipe::patterns {
namespace {

const char* missing(const Layer& m, int) {
  if (m.put_signal == nullptr) return "put_signal and await_signal";
  return m.barrier == nullptr ? "barrier" : nullptr;
}

// At least so many bits of a value arrive.
constexpr std::uint64_t kept = UINT32_MAX;

[[gnu::cold]] np_status wrong_value(Stage& s, std::uint64_t value, std::uint64_t expected) {
  std::snprintf(s.message.data(), s.message.size(), "the signal %llu arrived where %llu was to come",
                static_cast<unsigned long long>(value), static_cast<unsigned long long>(expected));
  return NP_FAILED;
}

// The values of a visit begin at one that those of the visit before have not.
class Bounce {
 public:
  explicit Bounce(const Stage& s) : value_(s.seed & (kept >> 1U)) {}

  np_status operator()(Stage& s, std::uint64_t times) {
    const auto put_signal = s.module.put_signal;
    const auto await_signal = s.module.await_signal;
    np_endpoint* const endpoint = s.endpoint;
    const np_region* const target = s.far_in;
    const char* const base = s.near_in;
    const int peer = mirrored(s.rank, s.nranks);
    const bool first = is_first(s);
    const std::size_t bytes = s.size_bytes;
    Slots outgoing = s.outgoing, incoming = s.incoming;
    std::uint64_t value = value_, got = 0;
    np_status status = NP_OK;
    for (std::uint64_t i = 0; i < times; ++i) {
      const auto offset = static_cast<std::size_t>(incoming.take() - base);  // the peer's places lie alike
      const char* const out = outgoing.take();
      if (first) status = put_signal(endpoint, peer, out, target, offset, bytes, value);
      if (status == NP_OK) status = await_signal(endpoint, peer, &got);
      if (!first && status == NP_OK) status = put_signal(endpoint, peer, out, target, offset, bytes, value);
      if (status != NP_OK) return status;
      if (((got ^ value) & kept) != 0) return wrong_value(s, got & kept, value & kept);
      ++value;
    }
    s.outgoing = outgoing;
    s.incoming = incoming;
    value_ = value;
    return NP_OK;
  }

 private:
  std::uint64_t value_;
};

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  const Layer& m = s.module;
  Bounce bounce(s);
  // The other rank may still be on its way out of the barrier: the first answer says that it is here.
  np_status status = bounce(s, 1);
  *stamps++ = now_ns();
  for (std::uint64_t sample = 0; sample < samples && status == NP_OK; ++sample) {
    status = bounce(s, rounds);
    *stamps++ = now_ns();
  }
  if (status == NP_OK && m.flush != nullptr) status = m.flush(s.endpoint, mirrored(s.rank, s.nranks));
  return status == NP_OK ? m.barrier(s.endpoint) : status;
}

std::uint32_t one(const Part&) { return 1; }

}  // namespace

extern const Pattern signal;
const Pattern signal = {
    .name = "signal",
    .summary = "a ping-pong of puts, each with a value that tells the target of it",
    .formula = "latency = round trip / 2; throughput = size_bytes / latency",
    .source = "OpenSHMEM 1.5, section 9.8.3 (shmem_put_signal, shmem_signal_wait_until)",
    .operations = [](const Part&) { return 2U; },
    .extra_rounds = one,
    .arrivals = one,
    .departures = one,
    .single_rounds = true,
    .one_buffer = true,
    .in_pairs = true,
    .reach = reach_by_put,
    .uses = NP_USES_ONE_SIDED,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = missing,
    .run = run,
};

}  // namespace netpipe::patterns
