// SPDX-License-Identifier: Apache-2.0
//
// A ping-pong written by hand over the cells of the shm module: the same messages without netpipe around them. What
// netpipe adds to a message is its own figure for shm less this one. Two pinned processes; batches of round trips,
// each batch timed by one pair of clock readings; printed is one JSON object with the median one-way time over the
// batches, in nanoseconds.
//
//     shm_pingpong [--cpus a,b] [--seconds s] [--bytes n] [--gap ns]
//
// It waits as the module does with its defaults; --gap is the module's option poll_gap.
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "modules/shm_cells.h"
#include "modules/shm_pace.h"

namespace {

using netpipe::shm::Cells;
using netpipe::shm::Pace;

constexpr int kRoundTrips = 1000;

struct Settings {
  int cpus[2] = {0, 1};
  double seconds = 1;
  std::size_t bytes = 8;
  int gap_ns = 30;
};

[[gnu::noinline]] void send(Cells& cells, const void* data, std::size_t bytes) {
  while (!cells.put(data, bytes, bytes)) netpipe::shm::relax();
}

[[gnu::noinline]] void receive(Cells& cells, void* data, std::size_t bytes, Pace& pace) {
  Cells::Found found = cells.look();
  if (found.cell == nullptr) {
    std::uint32_t looks = 1;
    pace.foresee(bytes);
    for (found = cells.look(); found.cell == nullptr; found = cells.look(), ++looks) pace.leave_gap();
    pace.note(looks);
  }
  cells.take(found.cell, data, bytes);
}

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

bool parse(int argc, char** argv, Settings& settings) {
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) return false;
    const std::string_view name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--cpus") {
      if (std::sscanf(value, "%d,%d", &settings.cpus[0], &settings.cpus[1]) != 2) return false;
    } else if (name == "--seconds") {
      if (std::sscanf(value, "%lf", &settings.seconds) != 1) return false;
    } else if (name == "--bytes") {
      if (std::sscanf(value, "%zu", &settings.bytes) != 1) return false;
    } else if (name == "--gap") {
      if (std::sscanf(value, "%d", &settings.gap_ns) != 1) return false;
    } else {
      return false;
    }
  }
  return settings.cpus[0] != settings.cpus[1] && settings.seconds > 0 && settings.seconds <= 3600 &&
         settings.bytes <= (64 << 10) && settings.gap_ns >= 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (!parse(argc, argv, settings)) {
    std::fputs("usage: shm_pingpong [--cpus a,b] [--seconds s] [--bytes 0..65536] [--gap ns]\n", stderr);
    return 2;
  }
  netpipe::shm::Shape shape;
  shape.handover_bytes = std::max(shape.handover_bytes, settings.bytes);
  void* memory =
      mmap(nullptr, Cells::bytes(shape), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("shm_pingpong: mmap");
    return 4;
  }
  const pid_t child = fork();
  if (child < 0) {
    std::perror("shm_pingpong: fork");
    return 4;
  }
  const unsigned rank = child == 0;
  if (rank == 1) prctl(PR_SET_PDEATHSIG, SIGKILL);  // its loop has no end of its own
  if (!pin(settings.cpus[rank])) {
    std::perror("shm_pingpong: cannot pin to the given cpus");
    if (child > 0) kill(child, SIGKILL);
    return 3;
  }
  Pace pace;
  pace.calibrate(settings.gap_ns, true);
  Cells cells;
  cells.bind(memory, shape, rank, true, true);
  std::vector<unsigned char> out(settings.bytes + 1, 1);
  std::vector<unsigned char> in(settings.bytes + 1, 0);
  while (rank == 1) {
    receive(cells, in.data(), settings.bytes, pace);
    send(cells, out.data(), settings.bytes);
  }

  std::vector<double> ns;
  ns.reserve(1 << 20);
  for (const double end = now_s() + settings.seconds; ns.size() < 3 || now_s() < end;) {
    const double begin = now_s();
    for (int i = 0; i < kRoundTrips; ++i) {
      send(cells, out.data(), settings.bytes);
      receive(cells, in.data(), settings.bytes, pace);
    }
    ns.push_back((now_s() - begin) * 1e9 / (2.0 * kRoundTrips));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  std::sort(ns.begin(), ns.end());
  std::printf("{\"bench\":\"shm_pingpong\",\"cpus\":[%d,%d],\"bytes\":%zu,\"batches\":%zu,\"oneway_ns\":%.2f}\n",
              settings.cpus[0], settings.cpus[1], settings.bytes, ns.size(), ns[ns.size() / 2]);
  return 0;
}
