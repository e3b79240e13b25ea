// SPDX-License-Identifier: Apache-2.0
// Messages from one other rank to this one: put together from their datagrams, or found to be lost.
//
// A message is lost when more than `reorder` datagrams of later messages have come before it is whole, or when its
// sender, being asked, says that it has left, and it is not there some time after that answer, which came behind it on
// the same way. (Not at once: on a busy machine an answer from another processor overtakes what the kernel has still to
// deliver.) A receiver asks after it has waited for a while, its patience. One answer speaks for all messages that left
// before it.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "udp_clerk.h"
#include "udp_datagram.h"
#include "udp_stash.h"
#include "udp_way.h"

namespace netpipe::udp {

// Whom to ask what has left.
struct Desk {
  int fd = -1;  // the socket that questions leave through
  Place at;     // the clerk of the peer
  uint64_t token = 0;
};

struct Arrivals {
  uint64_t at_once = 0;     // messages of one datagram that the short way of recv() took; that datagram is in no other
  uint64_t whole = 0;       // other messages that became whole
  uint64_t reordered = 0;   // of these, with a datagram that came behind a later one of this message or of another
  uint64_t delays = 0;      // messages whose delay could be compared with that of one before,
  uint64_t changes_ns = 0;  // and by how much they differed, altogether
  uint64_t datagrams = 0, messages_lost = 0, datagrams_lost = 0, late = 0, duplicates = 0, strangers = 0, questions = 0,
           empty_polls = 0, sleeps = 0;
};

class Inbox {
 public:
  struct Setting {
    uint64_t token = 0;    // this rank's
    uint32_t payload = 0;  // of the largest datagram that the peer sends
    uint64_t max_bytes = 0;
    uint32_t reorder = 0;
    int64_t rtt_ns = 0;
    Desk desk;
    uint32_t question = kQuestion;  // what is asked there
    Clerk* clerk = nullptr;
    std::vector<std::vector<char>> early;  // datagrams of messages that came while ranks connected
  };
  Inbox(const Way& way, const Setting& setting);
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  np_status recv(void* data, size_t bytes) {
    if (bytes < copied_end_ && stash_.count() == 0 && behind(message_, left_) <= 0) [[likely]] {
      const auto whole = static_cast<ssize_t>(sizeof(Header) + bytes);
      ssize_t got = read_small(blocking_);
      // As receive() does, which has more to look at.
      for (int i = 0; only_looks_ && got < 0 && errno == EAGAIN && i < kLooks && !way_.aborted(); ++i) {
        ++count_.empty_polls;
        got = read_small(false);
      }
      if (got == whole && small_.header.token == wire_token_ && small_.header.message == htole32(message_) &&
          small_.header.index == 0) [[likely]] {
        if (bytes != 0) std::memcpy(data, small_.bytes, bytes);
        ++count_.at_once;
        ++message_;
        if (small_.header.stamp != 0) [[unlikely]]
          note_delay(le64toh(small_.header.stamp));
        return NP_OK;
      }
      return receive(static_cast<char*>(data), bytes, got);
    }
    return receive(static_cast<char*>(data), bytes, kNotRead);
  }

  // The same without waiting. NP_PENDING: not yet known; the next call of recv or look is for the same message and has
  // the same arguments.
  np_status look(void* data, size_t bytes);

  // A new visit: neither the patience nor the delays of the one before.
  void begin_visit();

  [[nodiscard]] const Arrivals& count() const { return count_; }
  [[nodiscard]] int64_t patience_ns() const { return patience_ns_; }
  [[nodiscard]] uint32_t payload() const { return payload_; }

 private:
  static constexpr ssize_t kNotRead = -2;
  static constexpr int64_t kNoDelay = INT64_MIN;
  static constexpr int kLooks = 4096;  // about a millisecond of them
  static constexpr size_t kJoined = 65536 + sizeof(Header);

  struct Waiting {
    int64_t since_ns = 0, ask_at_ns = 0, interval_ns = 0;
    int asked = 0;
    bool asleep = false;
  };

  ssize_t read_small(bool blocking) {
    const int flags = blocking ? 0 : MSG_DONTWAIT;
    return way_.connected ? ::recv(way_.fd, &small_, sizeof small_, flags) : read_small_from(flags);
  }
  ssize_t read_small_from(int flags);
  np_status receive(char* data, size_t bytes, ssize_t got);
  np_status startable(size_t bytes) const;
  void begin(char* data, size_t bytes);
  np_status complete();
  np_status lose();
  void end();
  void unstash();
  [[nodiscard]] bool settled() const { return behind(message_, left_) > 0 && fd_io::now_ns() >= settled_at_ns_; }
  np_status read(bool blocking, bool& came);
  np_status read_datagrams(bool blocking, bool& came);
  np_status read_joined(bool blocking, bool& came);
  void set_slot(uint32_t i, bool direct);
  [[nodiscard]] bool is_expected(const Header& header, size_t bytes, uint32_t index) const;
  void skip_expected(uint32_t count, uint64_t stamp);
  void take_linear(const char* whole, size_t bytes);
  void arrive(const Header& header, const char* data, size_t bytes);
  void put(const Header& header, const char* data, size_t bytes, bool overtaken);
  void answered(const Header& header);
  void note_delay(uint64_t stamp);
  void set_patience(int64_t ns);
  void idle(Waiting& waiting);
  void begin_waiting(Waiting& waiting, int64_t now, bool slept) const;
  void ask_in_time(Waiting& waiting, int64_t now);
  void ask(int64_t now);
  np_status broken(int error);
  np_status aborted();
  [[nodiscard]] bool from_peer(const sockaddr_storage& name) const { return way_.connected || way_.from.same(name); }
  [[nodiscard]] size_t bytes_of(uint64_t index) const {
    const uint64_t at = index * room_;
    return at < bytes_ ? static_cast<size_t>(std::min<uint64_t>(room_, bytes_ - at)) : 0;
  }
  [[nodiscard]] char* scratch(uint32_t i) { return &scratch_[i * size_t{payload_}]; }

  const Way way_;
  const uint64_t wire_token_;
  const uint32_t payload_, room_, reorder_;
  bool blocking_, only_looks_;
  size_t copied_end_;
  uint32_t message_ = 0;  // that is expected next
  struct Small {
    Header header;
    char bytes[65536];
  } small_{};

  // The message that is being received.
  char* data_ = nullptr;
  size_t bytes_ = 0;
  uint32_t datagrams_ = 0, have_ = 0;
  uint32_t next_ = 0;       // all before this one are there
  bool holes_ = false;      // some behind it are there too:
  std::vector<bool> seen_;  // these
  bool overtaken_ = false;  // one of them came behind a later one
  uint32_t highest_message_ = 0, highest_index_ = 0;

  Stash stash_;
  std::array<uint32_t, 256> lost_{};  // the last messages that were lost
  size_t losses_ = 0;

  Desk desk_;
  const uint32_t question_;
  uint64_t asked_ = 0;  // the stamp of the last question
  Clerk* clerk_;
  int64_t rtt_ns_;  // the shortest that an answer took
  int64_t least_patience_ns_ = 0, patience_ns_ = 0;
  uint32_t left_ = 0;          // so many messages had left when the last answer came
  int64_t settled_at_ns_ = 0;  // what of them is not here by then is lost
  bool not_yet_ = false;       // the sender was asked too soon
  uint64_t looked_ = 0;        // one more than the message that look() has looked for in vain
  Waiting waiting_;            // of look(), for that message

  int64_t last_delay_ns_ = kNoDelay;  // of the message before that said when it left, in this visit
  np_status status_ = NP_OK;
  Arrivals count_;

  std::vector<mmsghdr> calls_;
  std::vector<iovec> parts_;
  std::vector<Header> headers_;
  std::vector<sockaddr_storage> names_;
  std::vector<char> scratch_;  // datagrams that are not where they belong
  std::vector<char> joined_;
};

}  // namespace netpipe::udp
