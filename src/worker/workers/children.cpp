// SPDX-License-Identifier: Apache-2.0
#include "worker/workers/children.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <string>

#include "base/clock.h"
#include "base/complain.h"
#include "base/descriptor.h"
#include "engine/watchdog.h"

namespace netpipe {
namespace {

constexpr std::int64_t patience_ns = 2'500'000'000;  // for all of them together
constexpr long look_every_ns = 10'000'000;

bool ends_by_itself(pid_t pid, std::int64_t deadline_ns) {
  for (;;) {
    const pid_t done = waitpid(pid, nullptr, WNOHANG);
    if (done == pid || (done < 0 && errno == ECHILD)) return true;
    if (now_ns() >= deadline_ns) return false;
    const timespec pause{0, look_every_ns};
    nanosleep(&pause, nullptr);
  }
}

// What a new process does before its life. parent: the process that forked it.
void settle_in(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(static_cast<int>(Exit::failed));  // it died before the line above
  // Events and the words of the Python side are rank 0's.
  const int nowhere = open("/dev/null", O_RDWR);
  if (nowhere < 0) _exit(static_cast<int>(Exit::failed));
  dup2(nowhere, STDIN_FILENO);
  dup2(nowhere, STDOUT_FILENO);
  if (nowhere > STDERR_FILENO) close(nowhere);
  // Ctrl-C reaches every process of a terminal; rank 0 decides for all.
  if (Outcome watched = Watchdog::install(false); !watched) _exit(complain(watched.failure()));
}

}  // namespace

Result<std::unique_ptr<Group>> Children::fork_ranks(int ranks, const std::function<int(Group& group, int rank)>& life) {
  if (ranks == 1) return make_single_group();
  std::vector<Descriptor> ends(1);  // of the socket pairs, by rank; rank 0 has none to itself
  const pid_t parent = getpid();
  for (int rank = 1; rank < ranks; ++rank) {
    std::array<int, 2> pair{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
      return failed("the control connection to rank " + std::to_string(rank) +
                    " cannot be made: " + std::strerror(errno));
    }
    Descriptor own(pair[0]);
    Descriptor theirs(pair[1]);
    const pid_t pid = fork();
    if (pid < 0) return failed("rank " + std::to_string(rank) + " cannot be started: " + std::strerror(errno));
    if (pid == 0) {
      ends.clear();  // a rank that kept another's connection would hide that rank 0 has gone
      own.reset();
      pids_.clear();
      settle_in(parent);
      const auto group = make_socket_group(rank, ranks, {theirs.release()}, Watchdog::abort_flag());
      _exit(life(*group, rank));
    }
    ends.push_back(std::move(own));
    pids_.push_back(pid);
  }
  std::vector<int> fds;
  for (Descriptor& end : ends) fds.push_back(end.release());
  return make_socket_group(0, ranks, std::move(fds), Watchdog::abort_flag());
}

void Children::reap() {
  const std::int64_t deadline_ns = now_ns() + patience_ns;
  for (const pid_t pid : pids_) {
    if (ends_by_itself(pid, deadline_ns)) continue;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  pids_.clear();
}

}  // namespace netpipe
