// SPDX-License-Identifier: Apache-2.0
// Messages from this rank to one other: each is cut into datagrams that say which message they belong to.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "udp_clerk.h"
#include "udp_datagram.h"
#include "udp_way.h"

namespace netpipe::udp {

class Outbox {
 public:
  // token: the peer's; payload: of the largest datagram; rate: bytes of payload a second, 0: as fast as it goes.
  Outbox(const Way& way, uint64_t token, uint32_t payload, double rate);
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  np_status send(const void* data, size_t bytes) {
    if (bytes < copied_end_) [[likely]] {
      small_.header.message = htole32(message_);
      small_.header.stamp = stamp();
      if (bytes != 0) std::memcpy(small_.bytes.data(), data, bytes);
      const size_t whole = sizeof(Header) + bytes;
      if (::sendto(way_.fd, &small_, whole, flags_, to_, to_bytes_) == static_cast<ssize_t>(whole)) {
        ++datagrams_;
        has_left();
        return NP_OK;
      }
    }
    return send_pieces(static_cast<const char*>(data), bytes);
  }

  // NP_UNAVAILABLE: neither kernel nor device cuts what it is given.
  np_status try_segments();

  [[nodiscard]] uint64_t datagrams() const { return datagrams_; }
  [[nodiscard]] uint64_t not_sent() const { return not_sent_; }  // this host dropped them: a full queue, a firewall
  [[nodiscard]] const Departed& departed() const { return departed_; }
  [[nodiscard]] uint32_t payload() const { return payload_; }

 private:
  uint64_t stamp() const { return message_ % kStampEvery == 0 ? htole64(static_cast<uint64_t>(fd_io::now_ns())) : 0; }
  void has_left() { departed_.messages.store(++message_, std::memory_order_release); }
  np_status send_pieces(const char* data, size_t bytes);
  np_status transmit(uint32_t count);
  np_status pace(uint64_t bytes);
  np_status give_up(np_status status);

  const Way way_;
  const sockaddr* to_;  // null: the socket is connected
  socklen_t to_bytes_;
  int flags_;
  size_t copied_end_;  // one more than the largest message that is copied; 0: none is
  uint32_t message_ = 0;
  struct Small {
    Header header;
    std::array<char, kCopiedBytes> bytes;
  } small_{};
  uint32_t payload_, room_;
  double ns_per_byte_;  // 0: no rate
  int64_t due_ns_ = 0;  // when the next call may be made
  np_status status_ = NP_OK;
  uint64_t datagrams_ = 0, not_sent_ = 0;
  std::vector<mmsghdr> calls_;
  std::vector<iovec> parts_;  // of each datagram its header and its bytes
  std::vector<Header> headers_;
  Departed departed_;
};

}  // namespace netpipe::udp
