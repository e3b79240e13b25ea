// SPDX-License-Identifier: Apache-2.0
// Every rank exchanges messages with both of its neighbours in a ring, all at once; neighbours.h says how, and what is
// timed. Two messages of each rank count.
//
// call=recv: a rank starts its sends, receives from one neighbour and then from the other by a blocking call, and waits
// for its sends. What is timed is the same. All ranks are in that call at once, so the layer has to go on with what was
// started meanwhile, as it has to in sendrecv.
#include "patterns/kit/neighbours.h"

namespace netpipe::patterns {
namespace {

enum Option { call };
constexpr std::array<np_option, 1> options{{
    {"call", NP_CHOICE, "requests", 0, 0, "requests|recv", "",
     "requests: a rank starts its receives and sends and waits for all of them; recv: it starts its sends, receives by "
     "blocking calls, and waits for its sends",
     1},
}};
bool receives_by_calls(const Part& part) { return part.options[call].number != 0; }

neighbours::Neighbours both(const Part& part) {
  neighbours::Neighbours all{};
  add_both(all, (part.rank + part.nranks - 1) % part.nranks, (part.rank + 1) % part.nranks);
  return all;
}

np_status receive_by_calls(Stage& s, const neighbours::Neighbours& with, Slots& outgoing, Slots& incoming) {
  const Layer& m = s.module;
  np_status status = NP_OK;
  for (std::size_t j = 0; j < with.count && status == NP_OK; ++j) {
    status = m.isend(s.endpoint, with.to[j], outgoing.take(), 0, s.size_bytes, &s.requests[j], 1);
  }
  for (std::size_t j = 0; j < with.count && status == NP_OK; ++j) {
    status = m.recv(s.endpoint, with.from[j], incoming.take(), s.size_bytes);
  }
  return status == NP_OK ? m.wait(s.endpoint, s.requests, with.count) : status;
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to) {
  if (!receives_by_calls(s)) return neighbours::run<both>(s, samples, rounds, to);
  const neighbours::Neighbours with = both(s);
  return neighbours::run_each(s, samples, rounds, to, [&](Slots& outgoing, Slots& incoming) {
    return receive_by_calls(s, with, outgoing, incoming);
  });
}

std::string unfit(const Part& part, const Layer& m) {
  if (!receives_by_calls(part) || m.sendrecv != nullptr) return {};
  return "needs sendrecv, which module " + std::string(m.name) +
         " lacks: its recv may not go on with sends that were started; call=requests does not need it";
}

constexpr Pattern with_options() {
  Pattern p = neighbours::pattern<both>(
      "exchange", "every rank exchanges messages with both neighbours in a ring; the slowest rank counts",
      "time of one operation = first start to the end of the slowest rank, per round; throughput = 2 x size_bytes x "
      "ranks / that time",
      "Intel MPI Benchmarks: Exchange (which counts four messages of one rank where all ranks' count here)", 2, false);
  p.options = options;
  p.requests = [](const Part& part, std::uint64_t) {
    return std::uint64_t{(receives_by_calls(part) ? 1 : 2) * both(part).count};
  };
  p.unfit = unfit;
  p.run = run;
  return p;
}

}  // namespace

extern const Pattern exchange;
const Pattern exchange = with_options();

}  // namespace netpipe::patterns
