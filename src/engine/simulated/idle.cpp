// SPDX-License-Identifier: Apache-2.0
// How a rank of a simulated machine waits for the conductor. A rank that slept in the kernel would stop all of them, so
// it polls and lets the others run. When all of them wait, the process sleeps until something arrives for one of them:
// a simulator that spins would spoil what is measured beside it.
#include "engine/simulated/idle.h"

#include <poll.h>
#include <sys/epoll.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "base/clock.h"
#include "base/ready.h"
#include "engine/simulated/simulator.h"

namespace netpipe {
namespace {

// What the ranks of this process share.
struct Common {
  int ranks;
  int waiting;
  int epoll;
};
Common* common = nullptr;
int watched = -1;  // the descriptor of this rank that epoll watches

// Each copy of the module has globals of its own; the environment is shared by the whole process.
constexpr const char* place = "NETPIPE_SIMULATED_COMMON";

std::int64_t real_ms() {
  timespec t;
  timespec_get(&t, TIME_UTC);  // the simulator replaces clock_gettime
  return std::int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
}

bool look(int fd, short events, int wait_ms) {
  pollfd one{fd, events, 0};
  return poll(&one, 1, wait_ms) > 0;
}

}  // namespace

void begin_idling(int ranks) {
  std::uintptr_t known = 0;
  if (const char* text = std::getenv(place); text != nullptr) {
    std::from_chars(text, text + std::strlen(text), known, 16);
  } else {
    known = reinterpret_cast<std::uintptr_t>(new Common{ranks, 0, epoll_create1(EPOLL_CLOEXEC)});
    std::array<char, 2 * sizeof known + 1> room{};
    std::to_chars(room.begin(), room.end() - 1, known, 16);
    setenv(place, room.data(), 1);
  }
  common = reinterpret_cast<Common*>(known);
}

bool ready(int fd, short events, int wait_ms, bool) {
  if (look(fd, events, 0)) return true;
  const bool idle = events == POLLIN;
  if (idle && watched != fd) {
    epoll_event event{EPOLLIN, {}};
    if (epoll_ctl(common->epoll, EPOLL_CTL_ADD, fd, &event) == 0) watched = fd;
  }
  const std::int64_t end = real_ms() + wait_ms;
  if (idle) ++common->waiting;
  bool there = false;
  do {
    epoll_event event;
    if (common->waiting == common->ranks) epoll_wait(common->epoll, &event, 1, wait_ms);
    netpipe_simulator_turn(1e-6);
    there = look(fd, events, 0);
  } while (!there && real_ms() < end);
  if (idle) --common->waiting;
  return there;
}

// Simulated time passes only while a rank sleeps in it.
std::int64_t until(std::int64_t moment_ns, bool, const volatile int* abort) {
  std::int64_t now = now_ns();
  for (; now < moment_ns && *abort == 0; now = now_ns()) {
    netpipe_simulator_turn(static_cast<double>(moment_ns - now) * 1e-9);
  }
  return *abort == 0 ? now : -1;
}

}  // namespace netpipe
