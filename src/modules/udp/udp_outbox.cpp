// SPDX-License-Identifier: Apache-2.0
#include "udp_outbox.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace netpipe::udp {

using namespace netpipe::fd_io;

Outbox::Outbox(const Way& way, uint64_t token, uint32_t payload, double rate)
    : way_(way),
      to_(way.connected ? nullptr : way_.to.name()),
      to_bytes_(way.connected ? 0 : way_.to.bytes),
      flags_(MSG_NOSIGNAL | (way.wait == Wait::poll ? MSG_DONTWAIT : 0)),
      copied_end_(rate > 0 ? 0 : std::min<size_t>(kCopiedBytes, payload - sizeof(Header)) + 1),
      payload_(payload),
      room_(payload - static_cast<uint32_t>(sizeof(Header))),
      ns_per_byte_(rate > 0 ? 1e9 / rate : 0) {
  small_.header = header_of(token, 0, 0, 0);
  calls_.resize(way.batch);
  parts_.resize(size_t{2} * way.batch);
  headers_.assign(way.batch, header_of(token, 0, 0, 0));
  for (uint32_t i = 0; i < way.batch; ++i) {
    msghdr& call = calls_[i].msg_hdr;
    call = {};
    call.msg_name = const_cast<sockaddr*>(to_);
    call.msg_namelen = to_bytes_;
    call.msg_iov = &parts_[size_t{2} * i];
    call.msg_iovlen = 2;
    parts_[size_t{2} * i] = {&headers_[i], sizeof(Header)};
  }
}

np_status Outbox::send_pieces(const char* data, size_t bytes) {
  if (status_ != NP_OK) return fail(way_.context, status_, "udp: an earlier transfer of this rank failed");
  const uint64_t datagrams = datagrams_of(bytes, room_);
  if (datagrams >= kMostIndex) {
    return fail(way_.context, NP_UNSUPPORTED, "udp: a message of %zu bytes has too many datagrams of payload=%u", bytes,
                payload_);
  }
  for (uint64_t next = 0; next < datagrams;) {
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(way_.batch, datagrams - next));
    uint64_t whole = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t at = (next + i) * room_;
      const uint64_t here = std::min<uint64_t>(room_, bytes - at);
      headers_[i].message = htole32(message_);
      headers_[i].index = htole32(static_cast<uint32_t>(next + i));
      headers_[i].stamp = 0;
      parts_[size_t{2} * i + 1] = {const_cast<char*>(data) + at, here};
      whole += sizeof(Header) + here;
    }
    if (ns_per_byte_ > 0) {
      if (const np_status s = pace(whole); s != NP_OK) return s;
    }
    // Not before its turn has come: waiting for that is no delay of the way.
    if (next == 0) headers_[0].stamp = stamp();
    if (const np_status s = transmit(count); s != NP_OK) return s;
    next += count;
  }
  has_left();
  return NP_OK;
}

// Of the prepared datagrams the first `count`. What this host itself drops is as lost as what the network drops.
np_status Outbox::transmit(uint32_t count) {
  for (uint32_t done = 0; done < count;) {
    int sent = 0;
    if (way_.gso || count == 1) {
      msghdr& call = calls_[0].msg_hdr;
      call.msg_iovlen = size_t{2} * count;
      sent = ::sendmsg(way_.fd, &call, flags_) >= 0 ? static_cast<int>(count) : -1;
      call.msg_iovlen = 2;
    } else {
      sent = ::sendmmsg(way_.fd, &calls_[done], count - done, flags_);
    }
    if (sent > 0) {
      done += static_cast<uint32_t>(sent);
      datagrams_ += static_cast<uint64_t>(sent);
      continue;
    }
    const int error = errno;
    if (way_.aborted()) {
      return fail(way_.context, give_up(NP_ABORTED), "udp: rank %d gave up sending", way_.context->rank);
    }
    switch (error) {
      case EINTR: break;
      case EAGAIN:
        if (way_.yields()) sched_yield();
        break;
      case ENOBUFS:
      case EPERM: {
        const uint32_t gone = way_.gso ? count - done : 1;
        not_sent_ += gone;
        done += gone;
        break;
      }
      case ECONNREFUSED:
        return fail(way_.context, give_up(NP_PEER_LOST), "udp: %s has gone (%s); its own error says why",
                    way_.whom().c_str(), std::strerror(error));
      case EMSGSIZE:
        return fail(way_.context, give_up(NP_FAILED),
                    "udp: the way to %s takes no datagrams of payload=%u; give a smaller one", way_.whom().c_str(),
                    payload_);
      default:
        return fail(way_.context, give_up(NP_FAILED), "udp: sending from rank %d to %s failed: %s", way_.context->rank,
                    way_.whom().c_str(), std::strerror(error));
    }
  }
  return NP_OK;
}

// Waits for the turn of these bytes. What could not be offered in time is not made up for beyond a millisecond, or a
// pause between two visits would end in a burst.
np_status Outbox::pace(uint64_t bytes) {
  constexpr int64_t kGrace = 1'000'000, kSleepFrom = 300'000, kWakeBefore = 150'000, kSlice = 50'000'000;
  int64_t now = now_ns();
  due_ns_ = std::max(due_ns_, now - kGrace);
  for (; now < due_ns_; now = now_ns()) {
    if (way_.aborted()) {
      return fail(way_.context, give_up(NP_ABORTED), "udp: rank %d gave up sending", way_.context->rank);
    }
    const int64_t left = due_ns_ - now;
    if (left > kSleepFrom) {
      const timespec nap{0, std::min(left - kWakeBefore, kSlice)};
      clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
    } else if (way_.yields()) {
      sched_yield();
    }
  }
  due_ns_ += static_cast<int64_t>(static_cast<double>(bytes) * ns_per_byte_);
  return NP_OK;
}

np_status Outbox::give_up(np_status status) {
  status_ = status;
  copied_end_ = 0;
  return status;
}

np_status Outbox::try_segments() {
  const int segment = static_cast<int>(payload_);
  if (setsockopt(way_.fd, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment) != 0) {
    return fail(way_.context, NP_UNAVAILABLE, "udp: gso=yes: this kernel does not cut datagrams: %s",
                std::strerror(errno));
  }
  std::vector<char> empty(room_);
  Header padding = headers_[0];
  padding.index = htole32(kPadding);
  iovec parts[3] = {{&padding, sizeof padding}, {empty.data(), empty.size()}, {&padding, sizeof padding}};
  msghdr call{};
  call.msg_name = const_cast<sockaddr*>(to_);
  call.msg_namelen = to_bytes_;
  call.msg_iov = parts;
  call.msg_iovlen = 3;
  if (::sendmsg(way_.fd, &call, MSG_NOSIGNAL) < 0) {
    return fail(way_.context, NP_UNAVAILABLE,
                "udp: gso=yes: the way to %s cannot cut datagrams of payload=%u: %s; give a smaller payload, or "
                "gso=no",
                way_.whom().c_str(), payload_, std::strerror(errno));
  }
  return NP_OK;
}

}  // namespace netpipe::udp
