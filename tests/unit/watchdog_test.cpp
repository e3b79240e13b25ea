// SPDX-License-Identifier: Apache-2.0
// Each case is a process of its own, because a watchdog belongs to a process. What it finds out becomes its exit code.
#include "engine/watchdog.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "link/group.h"

namespace netpipe {
namespace {

constexpr std::int64_t ms = 1'000'000;
constexpr std::int64_t far_away_ns = 60'000 * ms;
constexpr std::int64_t patience_ns = 20'000 * ms;  // of a test; nothing here takes as long unless it hangs

// The thread sanitizer hands signals on by itself, and the system call that one interrupts goes on whatever its handler
// wants: what is about that is not compiled for it.

void pause_ms(int milliseconds) {
  timespec left{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

// The exit codes of processes that ran these at the same time; -1 of one that did not come to one, or outlived the
// test's patience and was killed.
std::vector<int> codes_of(const std::vector<std::function<int()>>& bodies) {
  std::vector<pid_t> children;
  for (const auto& body : bodies) {
    children.push_back(fork());
    if (children.back() == 0) _exit(body());
  }
  std::vector<int> codes;
  const std::int64_t end = now_ns() + patience_ns;
  for (const pid_t child : children) {
    int status = 0;
    pid_t ended = 0;
    while ((ended = waitpid(child, &status, WNOHANG)) == 0 && now_ns() < end) pause_ms(5);
    if (ended == 0) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
    }
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  return codes;
}

int code_of(const std::function<int()>& body) { return codes_of({body})[0]; }

std::array<int, 2> made_pipe() {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  return ends;
}

// A read that nothing will ever answer. 0: it was interrupted, as it has to be once the flag is up.
[[maybe_unused]] int interrupted_read(int fd) {
  char byte = 0;
  const ssize_t n = read(fd, &byte, 1);
  return n < 0 && errno == EINTR ? 0 : 1;
}

// Spins until the flag is up, but not for ever.
bool flag_rises() {
  for (const std::int64_t end = now_ns() + patience_ns / 2; now_ns() < end;) {
    if (*Watchdog::abort_flag() != 0) return true;
  }
  return false;
}

#ifndef __SANITIZE_THREAD__  // see above
TEST(Watchdog, EndsABlockedSystemCallWhenTheDeadlinePasses) {
  const std::array<int, 2> ends = made_pipe();
  EXPECT_EQ(code_of([&] {
              if (!Watchdog::install(true)) return 10;
              Watchdog::arm(100 * ms, nullptr, {}, -1);
              if (interrupted_read(ends[0]) != 0) return 11;
              if (*Watchdog::abort_flag() == 0) return 12;
              if (Watchdog::disarm() != Cause::deadline) return 13;
              return *Watchdog::abort_flag() == 0 ? 0 : 14;
            }),
            0);
}
#endif

TEST(Watchdog, EndsALoopThatLooksAtTheFlag) {
  EXPECT_EQ(code_of([] {
              if (!Watchdog::install(true)) return 10;
              Watchdog::arm(50 * ms, nullptr, {}, -1);
              if (!flag_rises()) return 11;
              return Watchdog::disarm() == Cause::deadline ? 0 : 12;
            }),
            0);
}

TEST(Watchdog, LetsSystemCallsGoOnWhileNothingIsWrong) {
  const std::array<int, 2> ends = made_pipe();
  EXPECT_EQ(code_of([&] {
              if (!Watchdog::install(true)) return 10;
              const pid_t writer = fork();
              if (writer == 0) {
                pause_ms(350);  // three ticks of the timer
                _exit(write(ends[1], "x", 1) == 1 ? 0 : 1);
              }
              Watchdog::arm(far_away_ns, nullptr, {}, -1);
              char byte = 0;
              if (read(ends[0], &byte, 1) != 1) return 11;
              return Watchdog::disarm() == Cause::none ? 0 : 12;
            }),
            0);
}

TEST(Watchdog, DoesNothingWhenItWasDisarmedInTime) {
  EXPECT_EQ(code_of([] {
              if (!Watchdog::install(true)) return 10;
              Watchdog::arm(100 * ms, nullptr, {}, -1);
              if (Watchdog::disarm() != Cause::none) return 11;
              pause_ms(400);
              return *Watchdog::abort_flag() == 0 ? 0 : 12;
            }),
            0);
}

#ifndef __SANITIZE_THREAD__  // see above
TEST(Watchdog, CanBeArmedAgainAfterADeadline) {
  const std::array<int, 2> ends = made_pipe();
  EXPECT_EQ(code_of([&] {
              if (!Watchdog::install(true)) return 10;
              for (int i = 0; i < 2; ++i) {
                Watchdog::arm(20 * ms, nullptr, {}, -1);
                if (interrupted_read(ends[0]) != 0) return 11;
                if (Watchdog::disarm() != Cause::deadline) return 12;
              }
              Watchdog::arm(far_away_ns, nullptr, {}, -1);
              pause_ms(300);
              return Watchdog::disarm() == Cause::none ? 0 : 13;
            }),
            0);
}
#endif

// Both cases wait for the whole period of grace, so they do it together.
TEST(Watchdog, EndsTheProcessThatDoesNotComeBackWithItsLastWordsAndItsCode) {
  const std::array<int, 2> ends = made_pipe();
  const auto never_come_back = [] {
    while (now_ns() > 0) {
    }
    return 11;
  };
  const std::vector<int> codes = codes_of({[&] {
                                             if (!Watchdog::install(true)) return 10;
                                             Watchdog::arm(50 * ms, nullptr, "{\"type\":\"error\"}\n", ends[1]);
                                             return never_come_back();
                                           },
                                           [&] {
                                             if (!Watchdog::install(true)) return 10;
                                             Watchdog::arm(far_away_ns, nullptr, {}, -1);
                                             raise(SIGINT);
                                             return never_come_back();
                                           }});
  EXPECT_EQ(codes, (std::vector<int>{4, 130}));
  close(ends[1]);
  std::array<char, 64> room{};
  const ssize_t n = read(ends[0], room.data(), room.size());
  EXPECT_EQ(std::string(room.data(), n > 0 ? static_cast<std::size_t>(n) : 0), "{\"type\":\"error\"}\n");
}

// What nobody prepared words for ends with a sentence all the same.
TEST(Watchdog, NeverEndsAProcessInSilence) {
  const std::array<int, 2> ends = made_pipe();
  const std::vector<int> codes = codes_of({[&] {
    if (!Watchdog::install(true)) return 10;
    dup2(ends[1], STDERR_FILENO);
    Watchdog::arm(50 * ms, nullptr, {}, -1);
    while (now_ns() > 0) {
    }
    return 11;
  }});
  EXPECT_EQ(codes, (std::vector<int>{4}));
  close(ends[1]);
  std::array<char, 160> room{};
  const ssize_t n = read(ends[0], room.data(), room.size());
  EXPECT_EQ(std::string(room.data(), n > 0 ? static_cast<std::size_t>(n) : 0),
            "netpipe-worker: a rank did not return in time from what it waited for, so its process has ended; on a "
            "busy machine, raise --timeout or end other programs\n");
}

// A module that keeps the watchdog's signal away: the kernel ends its process.
TEST(Watchdog, EndsAProcessByForceThatHearsNoSignal) {
  const auto ended_by_force = [](const std::function<void()>& become_deaf) {
    return [become_deaf] {
      const pid_t deaf = fork();
      if (deaf == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!Watchdog::install(true)) _exit(10);
        become_deaf();
        Watchdog::arm(50 * ms, nullptr, {}, -1);
        while (now_ns() > 0) {
        }
      }
      int status = 0;
      waitpid(deaf, &status, 0);
      return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 0 : 11;
    };
  };
  const auto blocks = [] {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, nullptr);
  };
  EXPECT_EQ(codes_of({ended_by_force(blocks), ended_by_force([] { std::signal(SIGALRM, SIG_IGN); })}),
            (std::vector<int>{0, 0}));
}

TEST(Watchdog, LeavesADeafProcessAloneThatWasDisarmedInTime) {
  EXPECT_EQ(code_of([] {
              if (!Watchdog::install(true)) return 10;
              Watchdog::arm(50 * ms, nullptr, {}, -1);
              Watchdog::disarm();
              pause_ms(3500);
              return 0;
            }),
            0);
}

#ifndef __SANITIZE_THREAD__  // see above
TEST(Watchdog, TakesSigintAndSigtermAsAnInterruption) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::array<int, 2> ends = made_pipe();
    EXPECT_EQ(code_of([&] {
                if (!Watchdog::install(true)) return 10;
                if (Watchdog::interrupted()) return 11;
                Watchdog::arm(far_away_ns, nullptr, {}, -1);
                raise(signal);
                if (!Watchdog::interrupted()) return 12;
                if (interrupted_read(ends[0]) != 0) return 13;
                if (Watchdog::disarm() != Cause::interrupted) return 14;
                if (!Watchdog::interrupted()) return 15;
                // It stays true: whatever is waited for next is given up as well.
                Watchdog::arm(far_away_ns, nullptr, {}, -1);
                if (interrupted_read(ends[0]) != 0) return 16;
                return Watchdog::disarm() == Cause::interrupted ? 0 : 17;
              }),
              0);
  }
}
#endif

// Who left a talk among ranks in the middle would take the rest of it for the next one.
TEST(Watchdog, LeavesATalkAloneWhenTheUserInterrupts) {
  EXPECT_EQ(code_of([] {
              if (!Watchdog::install(true)) return 10;
              Watchdog::arm_talk(far_away_ns);
              raise(SIGINT);
              pause_ms(300);
              if (*Watchdog::abort_flag() != 0) return 11;
              if (!Watchdog::interrupted()) return 12;
              Watchdog::heed_interrupts();
              pause_ms(300);
              if (*Watchdog::abort_flag() == 0) return 13;
              if (Watchdog::disarm() != Cause::interrupted) return 14;
              Watchdog::arm_talk(100 * ms);
              pause_ms(400);
              return Watchdog::disarm() == Cause::deadline ? 0 : 15;
            }),
            0);
}

TEST(Watchdog, OfARankThatIsNotInterruptibleIgnoresBothSignals) {
  EXPECT_EQ(code_of([] {
              if (!Watchdog::install(false)) return 10;
              Watchdog::arm(far_away_ns, nullptr, {}, -1);
              raise(SIGINT);
              raise(SIGTERM);
              pause_ms(300);
              if (Watchdog::interrupted()) return 11;
              return Watchdog::disarm() == Cause::none ? 0 : 12;
            }),
            0);
}

#ifndef __SANITIZE_THREAD__  // see above
TEST(Watchdog, NoticesAPeerThatHasGone) {
  std::array<int, 2> pair{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  const std::array<int, 2> ends = made_pipe();
  EXPECT_EQ(code_of([&] {
              if (!Watchdog::install(false)) return 10;
              const auto group = make_socket_group(1, 2, {pair[1]}, Watchdog::abort_flag());
              Watchdog::arm(far_away_ns, group.get(), {}, -1);
              pause_ms(250);
              if (*Watchdog::abort_flag() != 0) return 11;
              shutdown(pair[0], SHUT_RDWR);
              if (interrupted_read(ends[0]) != 0) return 12;
              return Watchdog::disarm() == Cause::peer_gone ? 0 : 13;
            }),
            0);
}
#endif

TEST(Watchdog, EndsTheWaitForASilentRankWithASentence) {
  std::array<int, 2> pair{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  EXPECT_EQ(code_of([&] {
              if (!Watchdog::install(false)) return 10;
              const auto group = make_socket_group(1, 2, {pair[1]}, Watchdog::abort_flag());
              Watchdog::arm(50 * ms, nullptr, {}, -1);
              char byte = 0;
              const Outcome got = group->recv(0, &byte, 1);
              if (got || got.failure().sentence.find("gave up waiting for rank 0") == std::string::npos) return 11;
              Watchdog::disarm();
              // A rank that takes nothing: the socket fills, and the send ends as well.
              Watchdog::arm(50 * ms, nullptr, {}, -1);
              const std::string much(8U << 20, 'x');
              const Outcome sent = group->send(0, much.data(), much.size());
              return !sent && Watchdog::disarm() == Cause::deadline ? 0 : 12;
            }),
            0);
}

// Stopped for longer than the deadline, and let go before the last resort. Who stops it is there before the deadline
// runs: on a busy machine a process takes a while to begin.
TEST(Watchdog, LetsNoDeadlineRunWhileItsProcessIsStopped) {
  const std::array<int, 2> ends = made_pipe();
  EXPECT_EQ(code_of([&] {
              const pid_t self = getpid();
              const pid_t other = fork();
              if (other == 0) {
                char go = 0;
                if (read(ends[0], &go, 1) != 1) _exit(1);
                kill(self, SIGSTOP);
                pause_ms(2000);
                _exit(kill(self, SIGCONT));
              }
              if (!Watchdog::install(true)) return 10;
              Watchdog::arm(1500 * ms, nullptr, {}, -1);
              const std::int64_t began = now_ns();
              if (write(ends[1], "x", 1) != 1) return 16;
              while (now_ns() < began + 1900 * ms) {
              }
              if (*Watchdog::abort_flag() != 0) return 11;
              if (Watchdog::stalled_ns() < Watchdog::stalled_after_ns) return 12;
              if (!flag_rises()) return 13;  // the rest of the deadline runs
              if (now_ns() < began + 2000 * ms) return 14;
              return Watchdog::disarm() == Cause::deadline ? 0 : 15;
            }),
            0);
}

TEST(Watchdog, KnowsOfNoStallWhereItTicks) {
  EXPECT_EQ(code_of([] {
              if (!Watchdog::install(true)) return 10;
              Watchdog::arm(far_away_ns, nullptr, {}, -1);
              pause_ms(300);
              Watchdog::disarm();
              pause_ms(1300);  // nothing is watched
              Watchdog::arm(far_away_ns, nullptr, {}, -1);
              pause_ms(300);
              Watchdog::disarm();
              return Watchdog::stalled_ns() == 0 ? 0 : 11;
            }),
            0);
}

TEST(Watchdog, TurnsABrokenPipeIntoAnError) {
  const std::array<int, 2> ends = made_pipe();
  close(ends[0]);
  EXPECT_EQ(code_of([&] {
              if (!Watchdog::install(true)) return 10;
              return write(ends[1], "x", 1) < 0 && errno == EPIPE ? 0 : 11;
            }),
            0);
}

TEST(Watchdog, KeepsErrnoAcrossItsTicks) {
  std::array<int, 2> pair{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  EXPECT_EQ(code_of([&] {
              if (!Watchdog::install(true)) return 10;
              // Looking at a peer that is silent sets errno.
              const auto group = make_socket_group(1, 2, {pair[1]}, Watchdog::abort_flag());
              Watchdog::arm(far_away_ns, group.get(), {}, -1);
              errno = EXDEV;
              for (const std::int64_t end = now_ns() + 350 * ms; now_ns() < end;) {
                if (errno != EXDEV) return 11;
              }
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace netpipe
