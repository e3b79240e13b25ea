// SPDX-License-Identifier: Apache-2.0
//
// A ping-pong written by hand over the cells of the shm module: the same messages without netpipe around them. What
// netpipe adds to a message is its own figure for shm less this one. Two pinned processes; batches of round trips,
// each batch timed by one pair of clock readings. The file gets one-way times in nanoseconds, a line for some batches.
//
//     shm_pingpong --output FILE [--cpus a,b] [--seconds s] [--bytes n] [--gap ns]
//
// It waits as the module does with its defaults; --gap is the module's option poll_gap.
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "modules/shm/shm_cells.h"
#include "modules/shm/shm_pace.h"

namespace {

using netpipe::shm::Cells;
using netpipe::shm::Pace;

constexpr int kRoundTrips = 100;
constexpr std::size_t kLine = 50;  // batches

struct Settings {
  std::FILE* output = nullptr;
  unsigned cpus[2] = {0, 1};
  double seconds = 1;
  std::size_t bytes = 8;
  std::int64_t gap_ns = 30;
};

[[gnu::noinline]] void send(Cells& cells, const void* data, std::size_t bytes) {
  if (bytes <= netpipe::shm::kInlineBytes && cells.hand_over(data, bytes)) return;
  while (!cells.put(data, bytes, bytes)) netpipe::shm::relax();
}

[[gnu::noinline]] void receive(Cells& cells, void* data, std::size_t bytes, unsigned gap) {
  if (bytes <= netpipe::shm::kInlineBytes) {
    for (;; Pace::leave(gap)) {
      const Cells::Seen seen = cells.take_handed(data, bytes);
      if (seen == Cells::Seen::taken) return;
      if (seen == Cells::Seen::other) break;
    }
  }
  Cells::Found found = cells.look();
  for (; found.cell == nullptr; found = cells.look()) Pace::leave(gap);
  cells.take(found.cell, data, bytes);
}

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool pin(unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

// The whole text as a number within the bounds.
template <typename Number>
bool read(std::string_view text, Number least, Number most, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= least && number <= most;
}

bool parse(int argc, char** argv, Settings& settings) {
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) return false;
    const std::string_view name = argv[i], value = argv[i + 1];
    bool known = false;
    if (name == "--cpus") {
      const std::size_t comma = std::min(value.find(','), value.size() - 1);
      known = read(value.substr(0, comma), 0U, CPU_SETSIZE - 1U, settings.cpus[0]) &&
              read(value.substr(comma + 1), 0U, CPU_SETSIZE - 1U, settings.cpus[1]) &&
              settings.cpus[0] != settings.cpus[1];
    }
    if (name == "--output") known = (settings.output = std::fopen(argv[i + 1], "w")) != nullptr;
    if (name == "--seconds") known = read(value, 0.001, 3600.0, settings.seconds);
    if (name == "--bytes") known = read<std::size_t>(value, 0, 64 << 10, settings.bytes);
    if (name == "--gap") known = read<std::int64_t>(value, 0, 1'000'000, settings.gap_ns);
    if (!known) return false;
  }
  return settings.output != nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (!parse(argc, argv, settings)) {
    std::fputs("usage: shm_pingpong --output FILE [--cpus a,b] [--seconds s] [--bytes 0..65536] [--gap ns]\n", stderr);
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
  if (!pin(settings.cpus[1]) || !pin(settings.cpus[0])) {  // before there is a second process that would wait
    std::perror("shm_pingpong: cannot pin to the given cpus");
    return 3;
  }
  const pid_t child = fork();
  if (child < 0) {
    std::perror("shm_pingpong: fork");
    return 4;
  }
  const unsigned rank = child == 0;
  if (rank == 1) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // its loop has no end of its own
    pin(settings.cpus[1]);
  }
  Pace pace;
  pace.calibrate(settings.gap_ns);
  const unsigned gap = pace.gap(settings.bytes);
  Cells cells;
  cells.bind(memory, shape, rank, true, true);
  std::vector<unsigned char> in(settings.bytes + 1,
                                1);  // as in netpipe a message leaves from where the last one landed
  if (rank == 1) {
    for (;;) {  // until it is killed
      receive(cells, in.data(), settings.bytes, gap);
      send(cells, in.data(), settings.bytes);
    }
  }

  for (const double end = now_s() + settings.seconds; now_s() < end;) {
    double ns[kLine];
    for (double& one : ns) {
      const double begin = now_s();
      for (int i = 0; i < kRoundTrips; ++i) {
        send(cells, in.data(), settings.bytes);
        receive(cells, in.data(), settings.bytes, gap);
      }
      one = (now_s() - begin) * 1e9 / (2.0 * kRoundTrips);
    }
    for (const double one : ns) std::fprintf(settings.output, "%.2f ", one);
    std::fputc('\n', settings.output);
    std::fflush(settings.output);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return 0;
}
