// SPDX-License-Identifier: Apache-2.0
// Rank 0 gets from the memory of the last rank; one_sided.h says how, and what is timed. A process alone gets from
// its own memory.
#include "patterns/kit/one_sided.h"

namespace netpipe::patterns {
namespace {

using namespace one_sided;

const char* missing_for_get(const Layer& m, int nranks) { return m.get == nullptr ? "get" : missing(m, nranks); }

np_status run_gets(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  const auto get = s.module.get;
  const int peer = mirrored(s.rank, s.nranks);
  if (waits(s)) {  // all ranks ask whether there can be requests, because one of them starts some
    const np_status status = s.module.iget(s.endpoint, peer, nullptr, 0, s.far_out, 0, 0, s.size_bytes, s.requests, 0);
    if (status != NP_OK) return status;
  }
  return run(
      s, samples, rounds, stamps,
      [&] {
        const auto offset = static_cast<std::size_t>(s.outgoing.take() - s.near_out);  // the peer's places lie alike
        return get(s.endpoint, peer, s.incoming.take(), s.far_out, offset, s.size_bytes);
      },
      s.module.get_each != nullptr,
      [&](std::uint64_t wanted, std::uint64_t& done) {
        const auto [near, far] = take_both(s.incoming, s.outgoing, wanted);
        done += near.count;
        return s.module.get_each(s.endpoint, peer, near.base, near.stride, s.far_out,
                                 static_cast<std::size_t>(far.base - s.near_out), far.stride, s.size_bytes, near.count);
      },
      [&](np_request* requests, std::uint64_t wanted, std::uint64_t& started) {
        const auto [near, far] = take_both(s.incoming, s.outgoing, wanted);
        started += near.count;
        return s.module.iget(s.endpoint, peer, near.base, near.stride, s.far_out,
                             static_cast<std::size_t>(far.base - s.near_out), far.stride, s.size_bytes, requests,
                             near.count);
      });
}

}  // namespace

extern const Pattern get;
const Pattern get = {
    .name = "get",
    .summary = "one rank reads the memory of another, which only waits",
    .formula =
        "time of one operation = (in_flight gets and what completes them) / in_flight; throughput = size_bytes / "
        "that time",
    .source = "Turner, Oline, Chen, Benjegerdes: Integrating New Capabilities into NetPIPE (2003), section 2",
    .options = options_with_requests,
    .operations = width,
    .extra_rounds = [](const Part&) { return 1U; },
    .arrivals = sent_by_origin,
    .departures = sent_by_other,
    .in_flight = width,
    .requests = requests,
    .single_rounds = true,
    .one_buffer = false,
    .in_pairs = true,
    .reach = reach_by_get,
    .uses = NP_USES_ONE_SIDED,
    .min_ranks = 1,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = missing_for_get,
    .unfit = [](const Part& part, const Layer& m) { return without_start(part, m, "iget", m.iget != nullptr); },
    .run = run_gets,
};

}  // namespace netpipe::patterns
