// SPDX-License-Identifier: Apache-2.0
#include "worker/launcher_io.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "core/watchdog.h"

namespace netpipe {

// alive: nullptr while the plan is read, when there is nothing yet that could be interrupted.
bool LauncherInput::next_line(std::string& line, const std::function<void()>* alive) {
  for (int waited = 1;; ++waited) {
    if (const auto end = pending_.find('\n'); end != std::string::npos) {
      line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return true;
    }
    pollfd p{STDIN_FILENO, POLLIN, 0};
    if (poll(&p, 1, 100) <= 0) {
      if (alive != nullptr && Watchdog::interrupted()) return false;
      if (alive != nullptr && waited % 10 == 0) (*alive)();
      continue;
    }
    std::array<char, 4096> room{};
    const ssize_t n = read(STDIN_FILENO, room.data(), room.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      line = std::move(pending_);
      pending_.clear();
      return !line.empty();
    }
    pending_.append(room.data(), static_cast<std::size_t>(n));
  }
}

Result<std::string> LauncherInput::read_plan() {
  constexpr std::size_t most = 1U << 20;
  std::string plan;
  std::string line;
  while (next_line(line, nullptr)) {
    if (line == "end" || line == "end\r") return plan;
    plan += line + "\n";
    if (plan.size() > most) return usage("the plan on standard input is longer than 1 MiB");
  }
  return plan;
}

bool LauncherInput::wait_for_line(const std::function<void()>& alive) {
  std::string line;
  return next_line(line, &alive);
}

void say(const std::string& line) {
  const std::string whole = line + "\n";
  const char* at = whole.data();
  std::size_t left = whole.size();
  while (left > 0) {
    const ssize_t n = write(STDOUT_FILENO, at, left);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // nobody listens any more; the run file has everything
    at += n;
    left -= static_cast<std::size_t>(n);
  }
}

}  // namespace netpipe
