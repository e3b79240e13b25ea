// SPDX-License-Identifier: Apache-2.0
#include "serving/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <string_view>

#include "base/clock.h"

namespace netpipe {
namespace {

constexpr std::size_t max_words = 1024;  // of an ending; below PIPE_BUF, so that it is written whole or not at all

// The address space as it is now, plus what is granted. Not RLIMIT_DATA: that one does not see shared memory. Relative
// to now, because what the process has at its start (a sanitizer's shadow is 20 TB) is not the client's doing.
void limit_memory(std::uint64_t bytes) {
  std::uint64_t pages = 0;
  if (!(std::ifstream("/proc/self/statm") >> pages)) return;
  const std::uint64_t now = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const rlim_t most = now > std::numeric_limits<rlim_t>::max() - bytes ? RLIM_INFINITY : now + bytes;
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0) return;
  limit.rlim_cur = std::min(limit.rlim_max, most);
  limit.rlim_max = limit.rlim_cur;
  ::setrlimit(RLIMIT_AS, &limit);
}

Ending guarded(const std::function<Ending()>& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return {static_cast<int>(Exit::failed), true, "it needed more memory than the server grants"};
  } catch (const std::exception& error) {
    return {static_cast<int>(Exit::failed), true, error.what()};
  }
}

std::string seconds_text(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g s", seconds);
  return text.data();
}

}  // namespace

void Child::live(int words_fd, const std::function<Ending()>& body) {
  const Ending ending = guarded(body);
  const std::string words = (ending.measured ? "m" : "r") + ending.sentence.substr(0, max_words - 1);
  // Nothing can be done about words that cannot be left: the exit code says the most important.
  [[maybe_unused]] const ssize_t left = ::write(words_fd, words.data(), words.size());
  std::fflush(nullptr);
  ::_exit(ending.exit);
}

Result<Child> Child::start(const std::function<Ending(int words_fd)>& body, const Bounds& bounds, std::int64_t grace_ns,
                           const sigset_t& mask) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    return unavailable(std::string("the server has no pipe left for a measurement: ") + std::strerror(errno));
  }
  Descriptor reading(pipe[0]);
  Descriptor writing(pipe[1]);
  std::fflush(nullptr);  // or both processes would write what is buffered now
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0)
    return unavailable(std::string("the server cannot start a process for a measurement: ") + std::strerror(errno));
  if (pid == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(static_cast<int>(Exit::failed));  // it died before the line above
    reading.reset();
    limit_memory(bounds.max_memory_bytes);
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
    live(writing.get(), [&] { return body(writing.get()); });
  }
  ::setpgid(pid, pid);  // on both sides: whoever is first, a signal to the group finds it
  Child child;
  child.pid_ = pid;
  child.words_ = std::move(reading);
  child.started_ns_ = now_ns();
  child.next_ns_ = child.started_ns_ + static_cast<std::int64_t>(bounds.max_seconds * 1e9);
  child.grace_ns_ = grace_ns;
  child.max_seconds_ = bounds.max_seconds;
  return child;
}

void Child::kill_group(int signal) const {
  ::kill(-pid_, signal);
  ::kill(pid_, SIGCONT);  // a stopped process would not see SIGTERM
}

// Its own watchdog ends a process that is stopped while it waits for something. Before it has one, or between two
// waits, nobody would.
void Child::notice_stop(std::int64_t now_ns) {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WCONTINUED | WNOHANG) == 0 && info.si_pid != 0) {
    stopped_ns_ = info.si_code == CLD_STOPPED ? now_ns : 0;
    info = {};
  }
}

std::int64_t Child::next_ns() const {
  return stopped_ns_ == 0 ? next_ns_ : std::min(next_ns_, stopped_ns_ + grace_ns_);
}

void Child::tick(std::int64_t now_ns) {
  notice_stop(now_ns);
  if (stopped_ns_ != 0 && now_ns >= stopped_ns_ + grace_ns_) {
    ::kill(-pid_, SIGKILL);
    given_up_ = true;
    stopped_ns_ = 0;
    return;
  }
  if (now_ns < next_ns_) return;
  kill_group(asked_ ? SIGKILL : SIGTERM);
  asked_ = true;
  next_ns_ = now_ns + grace_ns_;
}

std::optional<Ending> Child::reap() {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
    return std::nullopt;
  ::kill(-pid_, SIGKILL);  // while the dead leader still holds the number of the group
  int status = 0;
  ::waitpid(pid_, &status, 0);
  std::array<char, max_words> words{};
  const ssize_t got = ::read(words_.get(), words.data(), words.size());
  Ending ending;
  if (got > 0) {
    ending.measured = words[0] == 'm';
    ending.sentence = std::string(words.data() + 1, static_cast<std::size_t>(got - 1));
  }
  if (WIFEXITED(status)) {
    ending.exit = WEXITSTATUS(status);
  } else {
    const char* name = ::strsignal(WTERMSIG(status));
    ending.sentence =
        "killed by signal " + std::to_string(WTERMSIG(status)) + " (" + (name != nullptr ? name : "?") + ")";
  }
  if (given_up_) ending.sentence = "ended, because somebody had stopped it for " + seconds_text(1e-9 * grace_ns_);
  if (asked_) ending.sentence = "stopped after " + seconds_text(max_seconds_) + ", which is all that the server grants";
  return ending;
}

Ending Child::stop() {
  kill_group(SIGTERM);
  const std::int64_t deadline = now_ns() + grace_ns_;
  for (;;) {
    if (std::optional<Ending> ending = reap()) return *ending;
    if (now_ns() >= deadline) ::kill(-pid_, SIGKILL);
    ::poll(nullptr, 0, 5);
  }
}

}  // namespace netpipe
