// SPDX-License-Identifier: Apache-2.0
// Every rank sends to the rank on its right and receives from the one on its left, at once; neighbours.h says how, and
// what is timed. One message of each rank counts.
//
// call=sendrecv: a rank makes one blocking call for both of its messages, where the layer has one, in place of a
// receive and a send that it starts and then waits for. What is timed is the same.
#include "patterns/kit/neighbours.h"

namespace netpipe::patterns {
namespace {

enum Option { call };
constexpr std::array<np_option, 1> options{{
    {"call", NP_CHOICE, "requests", 0, 0, "requests|sendrecv", "",
     "requests: a rank starts a receive and a send and waits for both; sendrecv: it makes one blocking call for both "
     "(MPI_Sendrecv)",
     1},
}};
bool in_one_call(const Part& part) { return part.options[call].number != 0; }

neighbours::Neighbours left_and_right(const Part& part) {
  return {1, {(part.rank + part.nranks - 1) % part.nranks}, {(part.rank + 1) % part.nranks}};
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to) {
  if (!in_one_call(s)) return neighbours::run<left_and_right>(s, samples, rounds, to);
  const neighbours::Neighbours with = left_and_right(s);
  return neighbours::run_each(s, samples, rounds, to, [&](Slots& outgoing, Slots& incoming) {
    return s.module.sendrecv(s.endpoint, with.to[0], outgoing.take(), with.from[0], incoming.take(), s.size_bytes);
  });
}

std::string unfit(const Part& part, const Layer& m) {
  if (!in_one_call(part) || m.sendrecv != nullptr) return {};
  return "needs sendrecv, which module " + std::string(m.name) + " lacks; call=requests does not";
}

constexpr Pattern with_options() {
  Pattern p = neighbours::pattern<left_and_right>(
      "ring", "every rank sends to the right and receives from the left; the slowest rank counts",
      "time of one operation = first start to the end of the slowest rank, per round; throughput = size_bytes x ranks "
      "/ "
      "that time",
      "Intel MPI Benchmarks: Sendrecv (which counts two messages of one rank where all ranks' count here)", 2, false);
  p.options = options;
  p.requests = [](const Part& part, std::uint64_t) { return std::uint64_t{in_one_call(part) ? 0U : 2U}; };
  p.unfit = unfit;
  p.run = run;
  return p;
}

}  // namespace

extern const Pattern ring;
const Pattern ring = with_options();

}  // namespace netpipe::patterns
