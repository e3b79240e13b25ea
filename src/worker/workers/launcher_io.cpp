// SPDX-License-Identifier: Apache-2.0
#include "worker/workers/launcher_io.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "engine/watchdog.h"

namespace netpipe {
namespace {

constexpr std::size_t longest_plan = 1U << 20;  // and nobody sends a longer line

}  // namespace

bool LauncherInput::take_line(std::string& line) {
  const auto end = pending_.find('\n');
  if (end == std::string::npos) {
    line.clear();
    if (closed_) line.swap(pending_);
    return !line.empty();
  }
  line = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  return true;
}

bool LauncherInput::read_more() {
  std::array<char, 4096> room{};
  const ssize_t n = read(STDIN_FILENO, room.data(), room.size());
  if (n > 0) pending_.append(room.data(), static_cast<std::size_t>(n));
  if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN) || pending_.size() > longest_plan) closed_ = true;
  return !closed_;
}

// alive: nullptr while the plan is read, when there is nothing yet that could be interrupted.
bool LauncherInput::next_line(std::string& line, const std::function<void()>* alive) {
  for (int waited = 1;; ++waited) {
    if (take_line(line)) return true;
    if (closed_) return false;
    pollfd p{STDIN_FILENO, POLLIN, 0};
    if (poll(&p, 1, 100) <= 0) {
      if (alive != nullptr && Watchdog::interrupted()) return false;
      if (alive != nullptr && waited % 10 == 0) (*alive)();
      continue;
    }
    read_more();
  }
}

// "failed 3 mpirun was not found"
void LauncherInput::note(const std::string& line) {
  const std::vector<std::string> words = split(line, ' ');
  const Result<std::int64_t> job = parse_integer(words.size() > 2 ? words[1] : "");
  if (words[0] != "failed" || !job) return;
  // The first is the cause: of a job with several launchers the others end because of it.
  failures_.emplace(static_cast<int>(*job), line.substr(words[0].size() + words[1].size() + 2));
}

std::optional<std::string> LauncherInput::failed(int job, int wait_ms) {
  for (const std::int64_t end = now_ns() + wait_ms * std::int64_t{1'000'000};;) {
    std::string line;
    while (take_line(line)) note(line);
    if (const auto found = failures_.find(job); found != failures_.end()) return found->second;
    const std::int64_t left_ms = (end - now_ns()) / 1'000'000;
    pollfd p{STDIN_FILENO, POLLIN, 0};
    const bool more = !closed_ && poll(&p, 1, static_cast<int>(std::max<std::int64_t>(left_ms, 0))) > 0;
    if (more) read_more();
    if (!more && (closed_ || left_ms <= 0)) return std::nullopt;
  }
}

Result<std::string> LauncherInput::read_plan() {
  std::string plan;
  std::string line;
  while (next_line(line, nullptr)) {
    if (line == "end" || line == "end\r") return plan;
    plan += line + "\n";
    if (plan.size() > longest_plan) return usage("the plan on standard input is longer than 1 MiB");
  }
  return plan;
}

bool LauncherInput::wait_for_go(const std::function<void()>& alive) {
  std::string line;
  while (next_line(line, &alive)) {
    if (line == "go") return true;
    note(line);
  }
  return false;
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
