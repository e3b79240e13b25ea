// SPDX-License-Identifier: Apache-2.0
// What travels: 24 bytes of header before the bytes of a message. Numbers are little-endian on the wire.
#pragma once

#include <endian.h>

#include <cstddef>
#include <cstdint>

namespace netpipe::udp {

struct Header {
  uint64_t token = 0;    // that the receiving rank told its peers: who does not know it is a stranger
  uint32_t message = 0;  // number of the message from this rank to that one
  uint32_t index = 0;    // of the datagram in its message, or one of those below
  uint64_t stamp = 0;    // by the sender's clock, when the message left; 0: not noted. Of a question by the asker's
};
static_assert(sizeof(Header) == 24 && offsetof(Header, stamp) == 16);

// Index of a datagram that belongs to no message.
inline constexpr uint32_t kAnswer = 0xffffffff;    // message: how many messages have left for the asker
inline constexpr uint32_t kQuestion = 0xfffffffe;  // message: the rank that asks, at the clerk's socket
inline constexpr uint32_t kPadding = 0xfffffffd;   // means nothing
// As kQuestion, for messages that leave for all ranks; the answer goes to all, too.
inline constexpr uint32_t kCastQuestion = 0xfffffffc;
inline constexpr uint32_t kMostIndex = 0xfffffff0;

struct Answer {
  Header header;
  uint32_t payload = 0;  // of the largest datagram that this rank sends
  uint32_t asker = 0;    // whose question it answers
};
static_assert(sizeof(Answer) == 32);

// One message in 16 says when it left: enough for the variation of the delay (RFC 3393 takes any selection of packets),
// and a clock reading for each would be a part of what is measured.
inline constexpr uint32_t kStampEvery = 16;

// How far message a is behind b; numbers wrap.
inline int32_t behind(uint32_t a, uint32_t b) { return static_cast<int32_t>(b - a); }

inline Header header_of(uint64_t token, uint32_t message, uint32_t index, uint64_t stamp) {
  return {htole64(token), htole32(message), htole32(index), htole64(stamp)};
}
// A header as it was received, in the machine's order.
inline Header in_order(const Header& h) {
  return {le64toh(h.token), le32toh(h.message), le32toh(h.index), le64toh(h.stamp)};
}

}  // namespace netpipe::udp
