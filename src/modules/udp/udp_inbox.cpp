// SPDX-License-Identifier: Apache-2.0
#include "udp_inbox.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <sys/time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "udp_options.h"

namespace netpipe::udp {

using namespace netpipe::fd_io;

namespace {

constexpr int64_t kLeastPatience = 1'000'000;
constexpr int64_t kMostPatience = 40'000'000;   // also how long a blocking receive sleeps at most: abort must be seen
constexpr int64_t kMostInterval = 100'000'000;  // between two questions
constexpr int64_t kGrace = 10'000'000;          // from an answer until what it speaks of must be here
constexpr int kQuestionsAtOnePace = 16;         // that nobody answers, before they become rarer

}  // namespace

Inbox::Inbox(const Way& way, const Setting& setting)
    : way_(way),
      wire_token_(htole64(setting.token)),
      payload_(setting.payload),
      room_(setting.payload - static_cast<uint32_t>(sizeof(Header))),
      reorder_(setting.reorder),
      blocking_(way.wait == Wait::block),
      only_looks_(way.wait == Wait::poll && !way.yields()),
      copied_end_(way.gro ? 0 : std::min<size_t>(kCopiedBytes, room_) + 1),
      seen_(static_cast<size_t>(datagrams_of(setting.max_bytes, room_))),
      stash_(size_t{setting.reorder} + (way.gro ? kMostBatch : way.batch) + 1 + setting.early.size(), room_),
      desk_(setting.desk),
      question_(setting.question),
      clerk_(setting.clerk),
      rtt_ns_(setting.rtt_ns),
      calls_(way.batch),
      parts_(std::max<size_t>(size_t{3} * way.batch, size_t{2} * kMostBatch + 1)),
      headers_(std::max<size_t>(way.batch, kMostBatch)),
      names_(way.batch),
      scratch_(size_t{way.batch} * payload_),
      joined_(way.gro ? 2 * kJoined : 0) {
  for (uint32_t i = 0; i < way.batch; ++i) {
    msghdr& call = calls_[i].msg_hdr;
    call = {};
    call.msg_iov = &parts_[size_t{3} * i];
  }
  for (const std::vector<char>& one : setting.early) {
    Header header;
    std::memcpy(&header, one.data(), sizeof header);
    const char* const bytes = one.data() + sizeof header;
    if (stash_.keep(in_order(header), bytes, one.size() - sizeof header, false)) ++count_.datagrams;
  }
  begin_visit();
}

void Inbox::begin_visit() {
  last_delay_ns_ = kNoDelay;
  // Some round trips: a question that is asked too soon is in vain.
  least_patience_ns_ = std::clamp<int64_t>(4 * rtt_ns_, kLeastPatience, kMostPatience);
  set_patience(least_patience_ns_);
}

// A blocking receive returns after it. The kernel counts in ticks, of 1 to 10 ms.
void Inbox::set_patience(int64_t ns) {
  if (ns == patience_ns_) return;
  patience_ns_ = ns;
  if (way_.wait == Wait::poll) return;
  const timeval limit{0, std::max<int64_t>(ns / 1000, 1)};
  setsockopt(way_.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

ssize_t Inbox::read_small_from(int flags) {
  sockaddr_storage name{};
  socklen_t name_bytes = sizeof name;
  for (;;) {
    const ssize_t got =
        ::recvfrom(way_.fd, &small_, sizeof small_, flags, reinterpret_cast<sockaddr*>(&name), &name_bytes);
    if (got < 0 || from_peer(name)) return got;
    ++count_.strangers;
    if (way_.aborted()) {
      errno = EINTR;
      return -1;
    }
  }
}

void Inbox::begin(char* data, size_t bytes) {
  data_ = data;
  bytes_ = bytes;
  datagrams_ = static_cast<uint32_t>(datagrams_of(bytes, room_));
  not_yet_ = false;
  // The short way of recv() does not keep this: what it takes comes in order.
  if (behind(highest_message_, message_ - 1) > 0) {
    highest_message_ = message_ - 1;
    highest_index_ = 0;
  }
}

void Inbox::end() {
  if (holes_) std::fill_n(seen_.begin(), datagrams_, false);
  holes_ = overtaken_ = false;
  have_ = next_ = datagrams_ = 0;
  ++message_;
}

np_status Inbox::complete() {
  ++count_.whole;
  count_.reordered += overtaken_ ? 1 : 0;
  end();
  // The sender takes longer than this rank waits before it asks: wait longer from now on.
  if (not_yet_) set_patience(std::min({2 * patience_ns_, 8 * least_patience_ns_, kMostPatience}));
  return NP_OK;
}

np_status Inbox::lose() {
  ++count_.messages_lost;
  count_.datagrams_lost += datagrams_ - have_;
  lost_[losses_++ % lost_.size()] = message_;
  end();
  set_patience(std::max(patience_ns_ / 2, least_patience_ns_));
  return NP_LOST;
}

np_status Inbox::startable(size_t bytes) const {
  if (status_ != NP_OK) return fail(way_.context, status_, "udp: an earlier transfer of this rank failed");
  if (datagrams_of(bytes, room_) <= std::max<size_t>(seen_.size(), 1)) return NP_OK;
  return fail(way_.context, NP_UNSUPPORTED, "udp: a message of %zu bytes is larger than was announced", bytes);
}

void Inbox::unstash() {
  if (stash_.count() == 0) return;
  stash_.take(message_, [this](const Header& header, const char* at, size_t n, bool overtaken) {
    put(header, at, n, overtaken);
  });
}

np_status Inbox::look(void* data, size_t bytes) {
  if (looked_ != uint64_t{message_} + 1) {
    if (const np_status s = startable(bytes); s != NP_OK) return s;
    begin(static_cast<char*>(data), bytes);
    waiting_ = {};
    unstash();
  }
  for (;;) {
    if (have_ == datagrams_) return complete();
    if (stash_.count() > reorder_) return lose();
    if (way_.aborted()) return aborted();
    const bool late = settled();
    bool came = false;
    if (const np_status s = read(false, came); s != NP_OK) return s;
    if (late && !came) return lose();
    if (came) {
      waiting_ = {};
      continue;
    }
    looked_ = uint64_t{message_} + 1;
    const int64_t now = now_ns();
    begin_waiting(waiting_, now, false);
    ++count_.empty_polls;
    if (way_.yields()) sched_yield();
    ask_in_time(waiting_, now);
    return NP_PENDING;
  }
}

np_status Inbox::receive(char* data, size_t bytes, ssize_t got) {
  if (const np_status s = startable(bytes); s != NP_OK) return s;
  begin(data, bytes);
  const bool failed = got == -1 && errno != EAGAIN && errno != EINTR;
  if (failed) return broken(errno);
  if (got >= 0) take_linear(reinterpret_cast<const char*>(&small_), static_cast<size_t>(got));
  unstash();
  bool waited = got == -1;
  for (Waiting waiting;;) {
    if (have_ == datagrams_) return complete();
    if (stash_.count() > reorder_) return lose();
    if (way_.aborted()) return aborted();
    const bool late = settled();
    bool came = false;
    if (!waited || late) {
      if (const np_status s = read((blocking_ || waiting.asleep) && !late, came); s != NP_OK) return s;
    }
    waited = false;
    if (late && !came) return lose();
    if (came) {
      waiting = {};
      continue;
    }
    idle(waiting);
  }
}

np_status Inbox::read(bool blocking, bool& came) {
  return way_.gro ? read_joined(blocking, came) : read_datagrams(blocking, came);
}

// direct: to where the next but i-th datagram belongs. A datagram of another message may be longer than the last one of
// this, so there is room behind it.
void Inbox::set_slot(uint32_t i, bool direct) {
  iovec* const parts = &parts_[size_t{3} * i];
  msghdr& call = calls_[i].msg_hdr;
  parts[0] = {&headers_[i], sizeof(Header)};
  if (!direct) {
    parts[1] = {scratch(i), room_};
    call.msg_iovlen = 2;
  } else {
    const uint64_t index = uint64_t{next_} + i;
    const size_t here = bytes_of(index);
    parts[1] = {data_ + index * room_, here};
    const bool spill = datagrams_ > 1 && here < room_;
    parts[2] = {scratch(i) + here, spill ? room_ - here : 0};
    call.msg_iovlen = spill ? 3 : 2;
  }
  call.msg_name = way_.connected ? nullptr : &names_[i];
  call.msg_namelen = way_.connected ? 0 : sizeof names_[i];
  call.msg_flags = 0;
}

bool Inbox::is_expected(const Header& header, size_t bytes, uint32_t index) const {
  return bytes == sizeof(Header) + bytes_of(index) && header.token == wire_token_ &&
         header.message == htole32(message_) && header.index == htole32(index);
}

void Inbox::skip_expected(uint32_t count, uint64_t stamp) {
  next_ += count;
  have_ += count;
  count_.datagrams += count;
  // All before it of this message are here, so only a later message can have overtaken it.
  overtaken_ = overtaken_ || behind(message_, highest_message_) > 0;
  if (stamp != 0) note_delay(le64toh(stamp));
}

np_status Inbox::read_datagrams(bool blocking, bool& came) {
  const bool direct = !holes_;
  const uint32_t wanted = std::min(way_.batch, datagrams_ - next_);
  for (uint32_t i = 0; i < wanted; ++i) set_slot(i, direct);
  int got = 0;
  if (wanted == 1) {
    const ssize_t bytes = ::recvmsg(way_.fd, &calls_[0].msg_hdr, blocking ? 0 : MSG_DONTWAIT);
    got = bytes < 0 ? -1 : 1;
    if (bytes >= 0) calls_[0].msg_len = static_cast<unsigned>(bytes);
  } else {
    got = ::recvmmsg(way_.fd, calls_.data(), wanted, blocking ? MSG_WAITFORONE : MSG_DONTWAIT, nullptr);
  }
  if (got < 0) return errno == EAGAIN || errno == EINTR ? NP_OK : broken(errno);
  came = true;
  const auto count = static_cast<uint32_t>(got);
  uint32_t right = 0;
  while (direct && right < count && is_expected(headers_[right], calls_[right].msg_len, next_ + right) &&
         from_peer(names_[right])) {
    ++right;
  }
  if (right > 0) skip_expected(right, next_ == 0 ? headers_[0].stamp : 0);
  // What is in the place of another datagram leaves it before anything is put there.
  for (uint32_t i = right; direct && i < count; ++i) {
    const iovec& place = parts_[size_t{3} * i + 1];
    if (place.iov_len != 0) {
      std::memcpy(scratch(i), place.iov_base, std::min<size_t>(place.iov_len, calls_[i].msg_len));
    }
  }
  for (uint32_t i = right; i < count; ++i) {
    const size_t bytes = calls_[i].msg_len;
    if (bytes < sizeof(Header) || !from_peer(names_[i])) {
      ++count_.strangers;
      continue;
    }
    arrive(in_order(headers_[i]), scratch(i), bytes - sizeof(Header));
  }
  return NP_OK;
}

// One read that may bring several datagrams, one behind the other. Where they are those that are expected, each lands
// where it belongs.
np_status Inbox::read_joined(bool blocking, bool& came) {
  const uint32_t slots = holes_ ? 0 : std::min<uint32_t>(kMostBatch, datagrams_ - next_);
  for (uint32_t i = 0; i < slots; ++i) {
    parts_[size_t{2} * i] = {&headers_[i], sizeof(Header)};
    parts_[size_t{2} * i + 1] = {data_ + (uint64_t{next_} + i) * room_, bytes_of(uint64_t{next_} + i)};
  }
  char* const rest = joined_.data();
  parts_[size_t{2} * slots] = {rest, kJoined};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  sockaddr_storage name{};
  msghdr call{};
  call.msg_name = way_.connected ? nullptr : &name;
  call.msg_namelen = way_.connected ? 0 : sizeof name;
  call.msg_iov = parts_.data();
  call.msg_iovlen = size_t{2} * slots + 1;
  call.msg_control = control;
  call.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(way_.fd, &call, blocking ? 0 : MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? NP_OK : broken(errno);
  came = true;
  const auto whole = static_cast<size_t>(got);
  size_t each = std::max<size_t>(whole, 1);
  for (cmsghdr* c = CMSG_FIRSTHDR(&call); c != nullptr; c = CMSG_NXTHDR(&call, c)) {
    if (c->cmsg_level != IPPROTO_UDP || c->cmsg_type != UDP_GRO) continue;
    int segment = 0;
    std::memcpy(&segment, CMSG_DATA(c), sizeof segment);
    if (segment > 0) each = static_cast<size_t>(segment);
  }
  if (!from_peer(name)) {
    ++count_.strangers;
    return NP_OK;
  }
  uint32_t right = 0;
  size_t at = 0;
  // Only where all before it were as long as their slots does a header lie where it is looked for.
  while (right < slots && at < whole && is_expected(headers_[right], std::min(each, whole - at), next_ + right)) {
    at += std::min(each, whole - at);
    ++right;
  }
  if (at < whole) {
    char* const linear = joined_.data() + kJoined;
    size_t copied = 0;
    for (size_t p = 0; p < call.msg_iovlen && copied < whole; ++p) {
      const size_t n = std::min(parts_[p].iov_len, whole - copied);
      if (n != 0) std::memcpy(linear + copied, parts_[p].iov_base, n);
      copied += n;
    }
    if (right > 0) skip_expected(right, next_ == 0 ? headers_[0].stamp : 0);
    for (; at < whole; at += each) take_linear(linear + at, std::min(each, whole - at));
  } else if (right > 0) {
    skip_expected(right, next_ == 0 ? headers_[0].stamp : 0);
  } else {
    ++count_.strangers;  // an empty datagram
  }
  return NP_OK;
}

void Inbox::take_linear(const char* whole, size_t bytes) {
  Header header;
  if (bytes < sizeof header) {
    ++count_.strangers;
    return;
  }
  std::memcpy(&header, whole, sizeof header);
  arrive(in_order(header), whole + sizeof header, bytes - sizeof header);
}

// Any datagram, whatever it is. header: in the machine's order.
void Inbox::arrive(const Header& header, const char* data, size_t bytes) {
  if (header.token != le64toh(wire_token_)) {
    ++count_.strangers;
    return;
  }
  if (header.index == kAnswer) return answered(header);
  if (header.index > kMostIndex) return;
  ++count_.datagrams;
  const int32_t after = behind(highest_message_, header.message);
  const bool overtaken = after < 0 || (after == 0 && header.index < highest_index_);
  if (!overtaken) {
    highest_message_ = header.message;
    highest_index_ = header.index;
  }
  if (header.stamp != 0) note_delay(header.stamp);
  const int32_t early = behind(message_, header.message);
  if (early == 0) return put(header, data, bytes, overtaken);
  if (early > 0) {
    if (!stash_.keep(header, data, bytes, overtaken)) ++count_.duplicates;
    return;
  }
  const size_t known = std::min(losses_, lost_.size());
  const bool was_lost = std::find(lost_.begin(), lost_.begin() + static_cast<std::ptrdiff_t>(known), header.message) !=
                        lost_.begin() + static_cast<std::ptrdiff_t>(known);
  ++(was_lost ? count_.late : count_.duplicates);
}

// A datagram of the message that is being received.
void Inbox::put(const Header& header, const char* data, size_t bytes, bool overtaken) {
  const uint32_t index = header.index;
  if (index >= datagrams_ || bytes != bytes_of(index)) {
    ++count_.strangers;
    return;
  }
  if (index < next_ || (holes_ && seen_[index])) {
    ++count_.duplicates;
    return;
  }
  if (bytes != 0) std::memcpy(data_ + uint64_t{index} * room_, data, bytes);
  ++have_;
  overtaken_ = overtaken_ || overtaken;
  if (index > next_) {
    holes_ = true;
    seen_[index] = true;
    return;
  }
  ++next_;
  while (holes_ && next_ < datagrams_ && seen_[next_]) ++next_;
}

// Of the answer no more than the header is sure to be here: it comes in the place of a message, which may be empty.
// Casts bring the answers to other ranks too, with the time by their clocks.
void Inbox::answered(const Header& header) {
  const int64_t took = now_ns() - static_cast<int64_t>(header.stamp);
  if (took > 0 && header.stamp == asked_) rtt_ns_ = std::min(rtt_ns_, took);
  if (behind(left_, header.message) > 0) {
    left_ = header.message;
    settled_at_ns_ = now_ns() + std::max(kGrace, 2 * least_patience_ns_);
  }
  not_yet_ = behind(message_, left_) <= 0;
}

// |D| of RFC 3550, 6.4.1, without its smoothing. Clocks of two hosts may differ: only differences of delays count.
void Inbox::note_delay(uint64_t stamp) {
  const int64_t delay_ns = now_ns() - static_cast<int64_t>(stamp);
  if (last_delay_ns_ != kNoDelay) {
    ++count_.delays;
    count_.changes_ns += static_cast<uint64_t>(std::abs(delay_ns - last_delay_ns_));
  }
  last_delay_ns_ = delay_ns;
}

// slept: in a call that has been patient already.
void Inbox::begin_waiting(Waiting& waiting, int64_t now, bool slept) const {
  if (waiting.since_ns != 0) return;
  waiting.since_ns = now;
  waiting.interval_ns = patience_ns_;
  waiting.ask_at_ns = slept ? now : now + patience_ns_;
}

// Nothing came: waits a little, and asks the sender from time to time.
void Inbox::idle(Waiting& waiting) {
  const int64_t now = now_ns();
  begin_waiting(waiting, now, blocking_);
  if (!blocking_ && !waiting.asleep) {
    ++count_.empty_polls;
    if (way_.yields()) sched_yield();
    if (way_.wait == Wait::hybrid && now - waiting.since_ns >= way_.spin_ns) {
      waiting.asleep = true;
      ++count_.sleeps;
    }
  }
  ask_in_time(waiting, now);
}

void Inbox::ask_in_time(Waiting& waiting, int64_t now) {
  if (now < waiting.ask_at_ns) return;
  ask(now);
  clerk_->serve();
  if (not_yet_ || ++waiting.asked > kQuestionsAtOnePace) {
    waiting.interval_ns = std::min(2 * waiting.interval_ns, kMostInterval);
  }
  waiting.ask_at_ns = now + waiting.interval_ns;
}

// A question that is dropped is asked again.
void Inbox::ask(int64_t now) {
  asked_ = static_cast<uint64_t>(now);
  const Header question = header_of(desk_.token, static_cast<uint32_t>(way_.context->rank), question_, asked_);
  (void)::sendto(desk_.fd, &question, sizeof question, MSG_DONTWAIT | MSG_NOSIGNAL, desk_.at.name(), desk_.at.bytes);
  ++count_.questions;
}

np_status Inbox::broken(int error) {
  copied_end_ = 0;
  if (error == ECONNREFUSED) {
    status_ = NP_PEER_LOST;
    return fail(way_.context, status_, "udp: rank %d has gone (%s); its own error says why", way_.peer,
                std::strerror(error));
  }
  status_ = NP_FAILED;
  return fail(way_.context, status_, "udp: receiving on rank %d from rank %d failed: %s", way_.context->rank, way_.peer,
              std::strerror(error));
}

np_status Inbox::aborted() {
  copied_end_ = 0;
  status_ = NP_ABORTED;
  return fail(way_.context, status_,
              "udp: rank %d gave up message %u of rank %d, which has not come (it asked %llu "
              "times)",
              way_.context->rank, message_, way_.peer, static_cast<unsigned long long>(count_.questions));
}

}  // namespace netpipe::udp
