// SPDX-License-Identifier: Apache-2.0
// Rank 0 adds doubles to those in the memory of the last rank, which only waits. one_sided.h says what is timed; what
// this costs more than `put` is the sum.
#include <cstdio>
#include <cstring>

#include "patterns/kit/one_sided.h"
#include "patterns/kit/verify.h"

namespace netpipe::patterns {
namespace {

using namespace one_sided;

const char* missing_for_accumulate(const Layer& m, int nranks) {
  return m.accumulate == nullptr ? "accumulate" : missing(m, nranks);
}

// The parts of one place are what is in flight together.
np_status run_accumulates(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  const auto accumulate = s.module.accumulate;
  const int peer = mirrored(s.rank, s.nranks);
  const std::size_t count = s.size_bytes / sizeof(double);
  const std::uint32_t many = width(s);
  for (const Slots* places : {&s.outgoing, &s.incoming}) {
    if (reinterpret_cast<std::uintptr_t>(places->at(0)) % sizeof(double) == 0) continue;
    std::snprintf(
        s.message.data(), s.message.size(),
        "numbers that are added need places at multiples of 8 bytes: choose another send_offset and recv_offset");
    return NP_UNSUPPORTED;
  }
  // Adding nothing tells all ranks alike whether there can be sums with these settings.
  const auto* const nothing = reinterpret_cast<const double*>(s.outgoing.at(0));
  if (const np_status status = accumulate(s.endpoint, peer, nothing, s.far_in, 0, 0); status != NP_OK) return status;
  std::uint32_t part = many;
  const char* out = nullptr;
  std::size_t offset = 0;
  return run(
      s, samples, rounds, stamps,
      [&] {
        if (part == many) {
          part = 0;
          out = s.outgoing.take();
          offset = static_cast<std::size_t>(s.incoming.take() - s.near_in);  // the peer's places lie alike
        }
        const std::size_t at = part++ * s.size_bytes;
        const void* const source = out + at;
        return accumulate(s.endpoint, peer, static_cast<const double*>(source), s.far_in, offset + at, count);
      },
      false, [](std::uint64_t, std::uint64_t&) { return NP_OK; }, not_started);
}

// ------------------------------------------------------------------------------------------------- verification

std::uint64_t place_bytes(const Part& part) {
  constexpr std::uint64_t most = 1ULL << 62U;
  return part.size_bytes > most / width(part) ? most : part.size_bytes * width(part);
}

// Whole numbers, small enough that the sum of two is exact.
double summand(std::uint64_t seed, std::uint64_t i, int whose, std::uint64_t k) {
  return static_cast<double>(message_seed(seed, i, whose, k) >> 44U);
}
enum Whose { before, added };

void fill_numbers(const Part& part, std::uint64_t seed, std::uint64_t i, char* out, char* in) {
  for (std::uint64_t k = 0; k < place_bytes(part) / sizeof(double); ++k) {
    const double first = summand(seed, i, before, k), more = summand(seed, i, added, k);
    std::memcpy(in + k * sizeof first, &first, sizeof first);
    std::memcpy(out + k * sizeof more, &more, sizeof more);
  }
}

std::string check_numbers(const Part& part, std::uint64_t seed, std::uint64_t i, const char* in) {
  for (std::uint64_t k = 0; k < place_bytes(part) / sizeof(double); ++k) {
    double expected = summand(seed, i, before, k), got = 0;
    if (part.nranks == 1 || !is_origin(part)) expected += summand(seed, i, added, k);
    std::memcpy(&got, in + k * sizeof got, sizeof got);
    if (got != expected) {
      return "has a wrong sum in element " + std::to_string(k) + ": " + std::to_string(got) + " instead of " +
             std::to_string(expected);
    }
  }
  return {};
}

std::uint32_t one(const Part&) { return 1; }

}  // namespace

extern const Pattern accumulate;
const Pattern accumulate = {
    .name = "accumulate",
    .summary = "one rank adds numbers to those in the memory of another, which only waits",
    .formula =
        "time of one operation = (in_flight sums and what completes them) / in_flight; throughput = size_bytes / that "
        "time",
    .source = "OSU micro-benchmarks: osu_acc_latency",
    .options = options,
    .operations = width,
    .extra_rounds = one,
    .arrivals = one,
    .departures = one,
    .place_bytes = place_bytes,
    .unit_bytes = [](const Part&) { return std::uint64_t{sizeof(double)}; },
    .single_rounds = true,
    .one_buffer = false,
    .in_pairs = true,
    .reach = reach_by_put,
    .uses = NP_USES_ONE_SIDED,
    .min_ranks = 1,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = missing_for_accumulate,
    .fill = fill_numbers,
    .check = check_numbers,
    .run = run_accumulates,
};

}  // namespace netpipe::patterns
