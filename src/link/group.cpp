// SPDX-License-Identifier: Apache-2.0
#include "link/group.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/ready.h"
#include "base/text.h"

namespace netpipe {
namespace {

constexpr std::uint32_t longest_text = 1U << 20;
// The watchdog's signal ends a wait at once when the flag has risen; this is for a flag that something else raises.
constexpr int look_every_ms = 1000;
constexpr char succeeded = '+';
constexpr char refused = '-';  // followed by the exit code, a blank and the sentence

std::string encoded(const Result<std::string>& mine) {
  return mine ? succeeded + *mine
              : refused + std::to_string(static_cast<int>(mine.failure().exit)) + " " + mine.failure().sentence;
}

// nullopt: the sender succeeded.
std::optional<Failure> failure_in(const std::string& outcome) {
  if (!outcome.empty() && outcome[0] == succeeded) return std::nullopt;
  const auto blank = outcome.find(' ');
  const Result<std::int64_t> code = parse_integer(std::string_view(outcome).substr(outcome.empty() ? 0 : 1, blank - 1));
  return Failure{code ? static_cast<Exit>(*code) : Exit::failed,
                 blank == std::string::npos ? "no reason given" : outcome.substr(blank + 1)};
}

class SingleGroup final : public Group {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  Outcome send(int, const void*, std::size_t) override { return failed("rank 0 is alone and has nobody to send to"); }
  Outcome recv(int, void*, std::size_t) override { return failed("rank 0 is alone and has nobody to receive from"); }
  bool arrives(int, int) override { return true; }
  [[nodiscard]] bool gone(int) const noexcept override { return false; }
};

class SocketGroup final : public Group {
 public:
  SocketGroup(int rank, int size, std::vector<int> fds, const volatile int* abort)
      : rank_(rank), size_(size), fds_(std::move(fds)), abort_(abort) {}
  ~SocketGroup() override {
    for (const int fd : fds_) {
      if (fd >= 0) close(fd);
    }
  }
  SocketGroup(const SocketGroup&) = delete;
  SocketGroup& operator=(const SocketGroup&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }

  Outcome send(int peer, const void* data, std::size_t bytes) override {
    const char* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t n = ::send(fd(peer), at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (*abort_ != 0) return gave_up(peer);
        ready(fd(peer), POLLOUT, look_every_ms, false);
        continue;
      }
      if (n < 0) return lost(peer);
      at += n;
      bytes -= static_cast<std::size_t>(n);
    }
    return ok();
  }

  Outcome recv(int peer, void* data, std::size_t bytes) override {
    char* at = static_cast<char*>(data);
    for (bool fresh = true; bytes > 0;) {
      const ssize_t n = ::recv(fd(peer), at, bytes, MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        ready(fd(peer), POLLIN, look_every_ms, fresh);
        fresh = false;
        if (*abort_ != 0) return gave_up(peer);
        continue;
      }
      if (n <= 0) return lost(peer);
      at += n;
      bytes -= static_cast<std::size_t>(n);
    }
    return ok();
  }

  bool arrives(int peer, int wait_ms) override { return ready(fd(peer), POLLIN, wait_ms, true); }

  // During a measurement nothing arrives here unasked but a report or a command, whose first word is not 0 where it
  // means trouble (engine/commands.h), or the end of the connection.
  [[nodiscard]] bool gone(int peer) const noexcept override {
    if (static_cast<std::size_t>(peer) >= fds_.size() || fd(peer) < 0) return false;
    std::int32_t word = 0;
    const ssize_t n = ::recv(fd(peer), &word, sizeof word, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return true;
    return n == sizeof word && word != 0;
  }

 private:
  [[nodiscard]] int fd(int peer) const { return fds_[static_cast<std::size_t>(peer)]; }
  [[nodiscard]] Failure lost(int peer) const {
    return failed(name(peer) + " has gone: its process ended or the connection to its host broke");
  }
  [[nodiscard]] Failure gave_up(int peer) const {
    return failed("gave up waiting for " + name(peer) + ": it is silent, or the run was interrupted");
  }

  int rank_;
  int size_;
  std::vector<int> fds_;
  const volatile int* abort_;
};

class Subgroup final : public Group {
 public:
  Subgroup(Group& whole, int size) : whole_(whole), size_(size) {}
  [[nodiscard]] int rank() const override { return whole_.rank(); }
  [[nodiscard]] int size() const override { return size_; }
  Outcome send(int peer, const void* data, std::size_t bytes) override { return whole_.send(peer, data, bytes); }
  Outcome recv(int peer, void* data, std::size_t bytes) override { return whole_.recv(peer, data, bytes); }
  bool arrives(int peer, int wait_ms) override { return whole_.arrives(peer, wait_ms); }
  [[nodiscard]] bool gone(int peer) const noexcept override { return whole_.gone(peer); }

 private:
  Group& whole_;
  int size_;
};

}  // namespace

bool Group::any_gone() const noexcept {
  for (int peer = 0; peer < size(); ++peer) {
    if (gone(peer)) return true;
  }
  return false;
}

std::string Group::name(int peer) const {
  const auto at = static_cast<std::size_t>(peer);
  return at < names_.size() && !names_[at].empty() ? names_[at] : "rank " + std::to_string(peer);
}

void Group::rename(int peer, std::string name) {
  names_.resize(std::max(names_.size(), static_cast<std::size_t>(peer) + 1));
  names_[static_cast<std::size_t>(peer)] = std::move(name);
}

Outcome Group::bcast(void* data, std::size_t bytes) {
  if (rank() != 0) return recv(0, data, bytes);
  for (int peer = 1; peer < size(); ++peer) {
    if (Outcome sent = send(peer, data, bytes); !sent) return sent;
  }
  return ok();
}

Outcome Group::barrier() {
  char token = 0;
  if (rank() != 0) {
    if (Outcome sent = send(0, &token, 1); !sent) return sent;
    return recv(0, &token, 1);
  }
  for (int peer = 1; peer < size(); ++peer) {
    if (Outcome got = recv(peer, &token, 1); !got) return got;
  }
  return bcast(&token, 1);
}

Outcome Group::send_text(int peer, const std::string& text) {
  const auto length = static_cast<std::uint32_t>(text.size());
  if (Outcome sent = send(peer, &length, sizeof length); !sent) return sent;
  return send(peer, text.data(), text.size());
}

Outcome Group::recv_text(int peer, std::string& text) {
  std::uint32_t length = 0;
  if (Outcome got = recv(peer, &length, sizeof length); !got) return got;
  if (length > longest_text) {
    return failed(name(peer) + " announces a text of " + std::to_string(length) + " bytes, and at most " +
                  std::to_string(longest_text) + " are allowed; is the same netpipe installed there?");
  }
  text.resize(length);
  return recv(peer, text.data(), length);
}

Outcome Group::bcast_text(std::string& text) {
  if (rank() != 0) return recv_text(0, text);
  for (int peer = 1; peer < size(); ++peer) {
    if (Outcome sent = send_text(peer, text); !sent) return sent;
  }
  return ok();
}

Result<std::vector<std::string>> Group::gather_text(const std::string& text) {
  std::vector<std::string> all;
  if (rank() != 0) {
    if (Outcome sent = send_text(0, text); !sent) return sent.failure();
    return all;
  }
  all.resize(static_cast<std::size_t>(size()));
  all[0] = text;
  for (int peer = 1; peer < size(); ++peer) {
    if (Outcome got = recv_text(peer, all[static_cast<std::size_t>(peer)]); !got) return got.failure();
  }
  return all;
}

Result<std::vector<std::string>> Group::exchange_text(const std::string& text) {
  Result<std::vector<std::string>> all = gather_text(text);
  if (!all) return all.failure();
  if (rank() != 0) {
    all->resize(static_cast<std::size_t>(size()));
    for (std::string& one : *all) {
      if (Outcome got = recv_text(0, one); !got) return got.failure();
    }
    return all;
  }
  // All of them in one piece for each rank: a thousand ranks would exchange a million pieces.
  std::string piece;
  for (const std::string& one : *all) {
    const auto length = static_cast<std::uint32_t>(one.size());
    piece.append(reinterpret_cast<const char*>(&length), sizeof length).append(one);
  }
  if (Outcome sent = bcast(piece.data(), piece.size()); !sent) return sent.failure();
  return all;
}

Result<std::vector<std::string>> Group::agree(const Result<std::string>& mine) {
  Result<std::vector<std::string>> all = exchange_text(encoded(mine));
  if (!all) return all.failure();
  return decoded(std::move(*all));
}

Result<std::vector<std::string>> Group::agree_for_root(const Result<std::string>& mine) {
  Result<std::vector<std::string>> all = gather_text(encoded(mine));
  if (!all) return all.failure();
  std::string verdict;
  if (rank() == 0) {
    all = decoded(std::move(*all));
    verdict = encoded(all ? Result<std::string>(std::string()) : Result<std::string>(all.failure()));
  }
  if (Outcome told = bcast_text(verdict); !told) return told.failure();
  if (rank() == 0) return all;
  if (const std::optional<Failure> failure = failure_in(verdict)) return *failure;
  return all;
}

Result<std::vector<std::string>> Group::decoded(std::vector<std::string> outcomes) const {
  std::vector<Failure> failures;
  for (std::size_t peer = 0; peer < outcomes.size(); ++peer) {
    if (const std::optional<Failure> failure = failure_in(outcomes[peer])) {
      failures.push_back({failure->exit, name(static_cast<int>(peer)) + ": " + failure->sentence});
    } else {
      outcomes[peer].erase(0, 1);
    }
  }
  if (failures.empty()) return outcomes;
  // A rank that knows what is wrong goes before one that only missed the others: exit codes 2 and 3 before 4.
  std::stable_sort(failures.begin(), failures.end(),
                   [](const Failure& a, const Failure& b) { return a.exit < b.exit; });
  Failure& first = failures.front();
  if (failures.size() > 1 && failures[1].exit == first.exit) first.sentence += "; " + failures[1].sentence;
  return first;
}

std::unique_ptr<Group> make_single_group() { return std::make_unique<SingleGroup>(); }

std::unique_ptr<Group> make_socket_group(int rank, int size, std::vector<int> fds, const volatile int* abort) {
  return std::make_unique<SocketGroup>(rank, size, std::move(fds), abort);
}

std::unique_ptr<Group> make_subgroup(Group& whole, int size) { return std::make_unique<Subgroup>(whole, size); }

}  // namespace netpipe
