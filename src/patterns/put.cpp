// SPDX-License-Identifier: Apache-2.0
// Rank 0 puts into the memory of the last rank; one_sided.h says how, and what is timed. A process alone puts into its
// own memory.
#include "patterns/kit/one_sided.h"

namespace netpipe::patterns {
namespace {

using namespace one_sided;

const char* missing_for_put(const Layer& m, int nranks) { return m.put == nullptr ? "put" : missing(m, nranks); }

np_status run_puts(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  const auto put = s.module.put;
  const int peer = mirrored(s.rank, s.nranks);
  if (waits(s)) {  // all ranks ask whether there can be requests, because one of them starts some
    const np_status status = s.module.iput(s.endpoint, peer, nullptr, 0, s.far_in, 0, 0, s.size_bytes, s.requests, 0);
    if (status != NP_OK) return status;
  }
  return run(
      s, samples, rounds, stamps,
      [&] {
        const auto offset = static_cast<std::size_t>(s.incoming.take() - s.near_in);  // the peer's places lie alike
        return put(s.endpoint, peer, s.outgoing.take(), s.far_in, offset, s.size_bytes);
      },
      s.module.put_each != nullptr,
      [&](std::uint64_t wanted, std::uint64_t& done) {
        const auto [near, far] = take_both(s.outgoing, s.incoming, wanted);
        done += near.count;
        return s.module.put_each(s.endpoint, peer, near.base, near.stride, s.far_in,
                                 static_cast<std::size_t>(far.base - s.near_in), far.stride, s.size_bytes, near.count);
      },
      [&](np_request* requests, std::uint64_t wanted, std::uint64_t& started) {
        const auto [near, far] = take_both(s.outgoing, s.incoming, wanted);
        started += near.count;
        return s.module.iput(s.endpoint, peer, near.base, near.stride, s.far_in,
                             static_cast<std::size_t>(far.base - s.near_in), far.stride, s.size_bytes, requests,
                             near.count);
      });
}

}  // namespace

extern const Pattern put;
const Pattern put = {
    .name = "put",
    .summary = "one rank writes into the memory of another, which only waits",
    .formula =
        "time of one operation = (in_flight puts and what completes them) / in_flight; throughput = size_bytes / "
        "that time",
    .source = "Turner, Oline, Chen, Benjegerdes: Integrating New Capabilities into NetPIPE (2003), section 2",
    .options = options_with_requests,
    .operations = width,
    .extra_rounds = [](const Part&) { return 1U; },
    .arrivals = sent_by_other,
    .departures = sent_by_origin,
    .in_flight = width,
    .requests = requests,
    .single_rounds = true,
    .one_buffer = false,
    .in_pairs = true,
    .reach = reach_by_put,
    .uses = NP_USES_ONE_SIDED,
    .min_ranks = 1,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = missing_for_put,
    .unfit = [](const Part& part, const Layer& m) { return without_start(part, m, "iput", m.iput != nullptr); },
    .run = run_puts,
};

}  // namespace netpipe::patterns
