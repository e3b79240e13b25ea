// SPDX-License-Identifier: Apache-2.0
#include "link/group.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/ready.h"
#include "base/text.h"
#include "link/frame.h"

namespace netpipe {
namespace {

constexpr std::uint32_t longest_text = 1U << 20;
constexpr std::size_t kept_bytes = 1024;  // that a link keeps of a frame that was read
// The watchdog's signal ends a wait at once when the flag has risen; this is for a flag that something else raises.
constexpr int look_every_ms = 1000;
constexpr char succeeded = '+';
constexpr char refused = '-';  // followed by the exit code, a blank and the sentence

std::string encoded(const Result<std::string>& mine) {
  return mine ? succeeded + *mine
              : refused + std::to_string(static_cast<int>(mine.failure().exit)) + " " + mine.failure().sentence;
}

// nullopt: the sender succeeded. A rank fails with one of three codes: whether the user has interrupted, or a byte is
// wrong, nobody on another host decides.
std::optional<Failure> failure_in(const std::string& outcome) {
  if (!outcome.empty() && outcome[0] == succeeded) return std::nullopt;
  const auto blank = outcome.find(' ');
  const Result<std::int64_t> code = parse_integer(std::string_view(outcome).substr(outcome.empty() ? 0 : 1, blank - 1));
  Failure failure{Exit::failed,
                  blank == std::string::npos ? "no reason given" : without_controls(outcome.substr(blank + 1))};
  for (const Exit one : {Exit::usage, Exit::unavailable}) {
    if (code && *code == static_cast<std::int64_t>(one)) failure.exit = one;
  }
  return failure;
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

// What one sealed connection keeps beside its descriptor.
struct Sealed {
  explicit Sealed(const FrameKeys& keys) : out(keys.sending), in(keys.receiving) {}
  Seal out, in;
  std::vector<std::byte> arrived;     // payload and tag of the frame that came last
  std::span<const std::byte> unread;  // of its payload
  bool forged = false;                // something that is not the peer's has arrived
};

class SocketGroup final : public Group {
 public:
  SocketGroup(int rank, int size, std::vector<int> fds, const volatile int* abort, const std::vector<FrameKeys>& keys)
      : rank_(rank), size_(size), fds_(std::move(fds)), abort_(abort) {
    for (const FrameKeys& one : keys) sealed_.emplace_back(one);
  }
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
    std::span<const std::byte> left(static_cast<const std::byte*>(data), bytes);
    if (sealed_.empty()) return put(peer, left);
    while (!left.empty()) {
      const std::span<const std::byte> payload = left.first(std::min(left.size(), max_sealed_bytes));
      if (Outcome sent = put(peer, sealed(sealed_[at(peer)].out, payload)); !sent) return sent;
      left = left.subspan(payload.size());
    }
    return ok();
  }

  Outcome recv(int peer, void* data, std::size_t bytes) override {
    std::span<std::byte> room(static_cast<std::byte*>(data), bytes);
    if (sealed_.empty()) return get(peer, room);
    Sealed& link = sealed_[at(peer)];
    while (!room.empty()) {
      if (link.unread.empty()) {
        if (Outcome got = take_frame(peer, link); !got) return got;
      }
      const std::size_t some = std::min(room.size(), link.unread.size());
      std::copy_n(link.unread.begin(), some, room.begin());
      link.unread = link.unread.subspan(some);
      room = room.subspan(some);
    }
    // Rank 0 has a link to every rank, and of many ranks large frames would be most of its memory.
    if (link.unread.empty() && link.arrived.capacity() > kept_bytes) link.arrived = std::vector<std::byte>();
    return ok();
  }

  bool arrives(int peer, int wait_ms) override {
    return (!sealed_.empty() && !sealed_[at(peer)].unread.empty()) || ready(fd(peer), POLLIN, wait_ms, true);
  }

  // During a measurement nothing arrives here unasked but a report or a command, whose first word is not 0 where it
  // means trouble (engine/commands.h), or the end of the connection. Of a frame the word is believed unproved: whoever
  // can put a wrong one there can as well cut the connection.
  [[nodiscard]] bool gone(int peer) const noexcept override {
    if (at(peer) >= fds_.size() || fd(peer) < 0) return false;
    std::array<std::byte, sealed_header_bytes + sizeof(std::int32_t)> front{};
    const std::size_t header = sealed_.empty() ? 0 : sealed_header_bytes;
    const std::size_t wanted = header + sizeof(std::int32_t);
    const ssize_t n = ::recv(fd(peer), front.data(), wanted, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return true;
    if (n != static_cast<ssize_t>(wanted)) return false;
    if (header > 0 && read_big_endian(front) < sizeof(std::int32_t)) return false;  // the word would be the tag's
    std::int32_t word = 0;
    std::memcpy(&word, front.data() + header, sizeof word);
    return word != 0;
  }

 private:
  [[nodiscard]] static std::size_t at(int peer) { return static_cast<std::size_t>(peer); }
  [[nodiscard]] int fd(int peer) const { return fds_[at(peer)]; }

  Outcome put(int peer, std::span<const std::byte> left) {
    while (!left.empty()) {
      const ssize_t n = ::send(fd(peer), left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (*abort_ != 0) return gave_up(peer);
        ready(fd(peer), POLLOUT, look_every_ms, false);
        continue;
      }
      if (n < 0) return lost(peer);
      left = left.subspan(static_cast<std::size_t>(n));
    }
    return ok();
  }

  Outcome get(int peer, std::span<std::byte> room) {
    for (bool fresh = true; !room.empty();) {
      const ssize_t n = ::recv(fd(peer), room.data(), room.size(), MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        ready(fd(peer), POLLIN, look_every_ms, fresh);
        fresh = false;
        if (*abort_ != 0) return gave_up(peer);
        continue;
      }
      if (n <= 0) return lost(peer);
      room = room.subspan(static_cast<std::size_t>(n));
    }
    return ok();
  }

  // The next frame with this payload, in one piece: one system call sends it.
  std::span<const std::byte> sealed(Seal& out, std::span<const std::byte> payload) {
    const std::string header = big_endian(static_cast<std::uint32_t>(payload.size()));
    const auto bytes = std::as_bytes(std::span(header));
    const auto tag = out.next(payload);
    frame_.assign(bytes.begin(), bytes.end());
    frame_.insert(frame_.end(), payload.begin(), payload.end());
    frame_.insert(frame_.end(), tag.begin(), tag.end());
    return frame_;
  }

  // Nothing of a frame is given out before its tag was found right.
  Outcome take_frame(int peer, Sealed& link) {
    std::array<std::byte, sealed_header_bytes> header{};
    if (Outcome got = get(peer, header); !got) return got;
    const std::size_t length = read_big_endian(header);
    if (length == 0 || length > max_sealed_bytes) return forged(peer);
    link.arrived.resize(length + seal_bytes);
    if (Outcome got = get(peer, link.arrived); !got) return got;
    const std::span<const std::byte> payload = std::span(link.arrived).first(length);
    if (!same(std::span(link.arrived).last<seal_bytes>(), link.in.next(payload))) return forged(peer);
    link.unread = payload;
    return ok();
  }

  // Nothing that comes after it can be right either, so the conversation is over for both.
  Failure forged(int peer) {
    sealed_[at(peer)].forged = true;
    ::shutdown(fd(peer), SHUT_RDWR);
    return lost(peer);
  }
  [[nodiscard]] Failure lost(int peer) const {
    if (!sealed_.empty() && sealed_[at(peer)].forged) {
      return failed("what arrived from " + name(peer) +
                    " does not carry the tag of this conversation: something between the hosts changed, repeated or "
                    "left out what was sent");
    }
    return failed(name(peer) + " has gone: its process ended or the connection to its host broke");
  }
  [[nodiscard]] Failure gave_up(int peer) const {
    return failed("gave up waiting for " + name(peer) + ": it is silent, or the run was interrupted");
  }

  int rank_;
  int size_;
  std::vector<int> fds_;
  const volatile int* abort_;
  std::vector<Sealed> sealed_;    // by peer; empty: the connections stay within this host and carry bytes as they are
  std::vector<std::byte> frame_;  // that is sent now: one at a time, to whichever peer
};

class Subgroup final : public Group {
 public:
  Subgroup(Group& whole, int rank, int size) : whole_(whole), rank_(rank), size_(size) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  Outcome send(int peer, const void* data, std::size_t bytes) override { return whole_.send(peer, data, bytes); }
  Outcome recv(int peer, void* data, std::size_t bytes) override { return whole_.recv(peer, data, bytes); }
  bool arrives(int peer, int wait_ms) override { return whole_.arrives(peer, wait_ms); }
  [[nodiscard]] bool gone(int peer) const noexcept override { return whole_.gone(peer); }

 private:
  Group& whole_;
  int rank_, size_;
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
  const auto take = [&](int peer) -> Outcome {
    if (Outcome got = recv(peer, &token, 1); !got) return got;
    if (token != 0) return failed(name(peer) + " said something else where all ranks meet");
    return ok();
  };
  if (rank() != 0) {
    if (Outcome sent = send(0, &token, 1); !sent) return sent;
    return take(0);
  }
  for (int peer = 1; peer < size(); ++peer) {
    if (Outcome got = take(peer); !got) return got;
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
  struct Told {
    std::string who;
    Failure failure;
  };
  std::vector<Told> told;
  for (std::size_t peer = 0; peer < outcomes.size(); ++peer) {
    if (const std::optional<Failure> failure = failure_in(outcomes[peer])) {
      told.push_back({name(static_cast<int>(peer)), *failure});
    } else {
      outcomes[peer].erase(0, 1);
    }
  }
  if (told.empty()) return outcomes;
  // A rank that knows what is wrong goes before one that only missed the others: exit codes 2 and 3 before 4.
  std::stable_sort(told.begin(), told.end(),
                   [](const Told& a, const Told& b) { return a.failure.exit < b.failure.exit; });
  const auto& [who, first] = told.front();
  if (told.size() == 1 || told[1].failure.exit != first.exit) return Failure{first.exit, who + ": " + first.sentence};
  const auto& [other, second] = told[1];
  if (second.sentence == first.sentence) return Failure{first.exit, who + " and " + other + ": " + first.sentence};
  return Failure{first.exit, who + ": " + first.sentence + "; " + other + ": " + second.sentence};
}

std::unique_ptr<Group> make_single_group() { return std::make_unique<SingleGroup>(); }

std::unique_ptr<Group> make_socket_group(int rank, int size, std::vector<int> fds, const volatile int* abort,
                                         const std::vector<FrameKeys>& keys) {
  return std::make_unique<SocketGroup>(rank, size, std::move(fds), abort, keys);
}

std::unique_ptr<Group> make_subgroup(Group& whole, int size) {
  return std::make_unique<Subgroup>(whole, whole.rank(), size);
}

std::unique_ptr<Group> make_member(Group& connection, int rank, int size) {
  return std::make_unique<Subgroup>(connection, rank, size);
}

}  // namespace netpipe
