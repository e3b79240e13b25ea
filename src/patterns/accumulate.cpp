// SPDX-License-Identifier: Apache-2.0
// Rank 0 adds doubles to those in the memory of the last rank, which only waits. one_sided.h says what is timed; what
// this costs more than `put` is the sum.
//
// fetch=yes: the operation also brings back what was there before. It lands in rank 0's own incoming place, which lies
// as the peer's does, and nobody else writes to it.
#include <array>
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

constexpr std::size_t fetch = 2;  // in the table, behind those of one_sided.h
constexpr std::array<np_option, 3> options_of_sums{{
    one_sided::options[sync],
    one_sided::options[in_flight],
    {"fetch", NP_BOOL, "no", 0, 1, nullptr, "", "each operation also brings back what was there before", 0},
}};

bool fetches(const Part& part) { return part.options[fetch].number != 0; }

std::string unfit(const Part& part, const Layer& m) {
  if (!fetches(part)) return {};
  if (m.fetch_accumulate == nullptr) {
    return "needs fetch_accumulate, which module " + std::string(m.name) + " lacks; fetch=no does not";
  }
  if (part.nranks > 1) return {};
  return "takes fetch=yes only with another rank: a rank alone would fetch to where it adds";
}

// In a place, or in a part of one, at a multiple of 8 bytes.
const double* numbers(const char* place) { return reinterpret_cast<const double*>(place); }
double* numbers(char* place) { return reinterpret_cast<double*>(place); }

// add(source, own place, offset of the peer's, count). The parts of one place are what is in flight together.
template <typename Add>
np_status run_sums(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps, Add add) {
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
  const np_status status = add(numbers(s.outgoing.at(0)), numbers(s.incoming.at(0)), 0, 0);
  if (status != NP_OK) return status;
  std::uint32_t part = many;
  const char* out = nullptr;
  char* in = nullptr;
  return run(
      s, samples, rounds, stamps,
      [&] {
        if (part == many) {
          part = 0;
          out = s.outgoing.take();
          in = s.incoming.take();
        }
        const std::size_t at = part++ * s.size_bytes;
        const auto offset = static_cast<std::size_t>(in - s.near_in);  // the peer's places lie alike
        return add(numbers(out + at), numbers(in + at), offset + at, count);
      },
      s.module.accumulate_each != nullptr && count > 0,
      [&](std::uint64_t wanted, std::uint64_t& done) {
        const auto [near, far] = take_both(s.outgoing, s.incoming, wanted);
        done += near.count;
        return s.module.accumulate_each(s.endpoint, mirrored(s.rank, s.nranks), numbers(near.base), near.stride,
                                        fetches(s) ? numbers(far.base) : nullptr, s.far_in,
                                        static_cast<std::size_t>(far.base - s.near_in), far.stride, count, near.count);
      },
      not_started);
}

np_status run_accumulates(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  const int peer = mirrored(s.rank, s.nranks);
  const auto sum = [&, accumulate = s.module.accumulate](const double* source, double*, std::size_t offset,
                                                         std::size_t count) {
    return accumulate(s.endpoint, peer, source, s.far_in, offset, count);
  };
  const auto sum_and_fetch = [&, accumulate = s.module.fetch_accumulate](const double* source, double* result,
                                                                         std::size_t offset, std::size_t count) {
    return accumulate(s.endpoint, peer, source, result, s.far_in, offset, count);
  };
  return fetches(s) ? run_sums(s, samples, rounds, stamps, sum_and_fetch) : run_sums(s, samples, rounds, stamps, sum);
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
constexpr double not_fetched = -1;  // no summand: a fetch that fetches nothing can never pass

void fill_numbers(const Part& part, std::uint64_t seed, std::uint64_t i, char* out, char* in) {
  const bool awaits = fetches(part) && is_origin(part);
  for (std::uint64_t k = 0; k < place_bytes(part) / sizeof(double); ++k) {
    const double first = awaits ? not_fetched : summand(seed, i, before, k), more = summand(seed, i, added, k);
    std::memcpy(in + k * sizeof first, &first, sizeof first);
    std::memcpy(out + k * sizeof more, &more, sizeof more);
  }
}

// Of the rank that adds: what it fetched, or what nobody has changed.
std::string check_numbers(const Part& part, std::uint64_t seed, std::uint64_t i, const char* in) {
  const char* const what = fetches(part) && is_origin(part) ? "fetched a wrong number of" : "has a wrong sum in";
  for (std::uint64_t k = 0; k < place_bytes(part) / sizeof(double); ++k) {
    double expected = summand(seed, i, before, k), got = 0;
    if (part.nranks == 1 || !is_origin(part)) expected += summand(seed, i, added, k);
    std::memcpy(&got, in + k * sizeof got, sizeof got);
    if (got != expected) {
      return std::string(what) + " element " + std::to_string(k) + ": " + std::to_string(got) + " instead of " +
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
    .source = "OSU micro-benchmarks: osu_acc_latency, osu_get_acc_latency",
    .options = options_of_sums,
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
    .unfit = unfit,
    .fill = fill_numbers,
    .check = check_numbers,
    .run = run_accumulates,
};

}  // namespace netpipe::patterns
