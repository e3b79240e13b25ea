// SPDX-License-Identifier: Apache-2.0
// Datagrams may be lost, so each begins with 16 bytes: a token that only the ranks of this measurement know, the number
// of the message and the rank that sends it. They arrive in memory of this file, always as many receives posted as
// there is room for, and are copied to where their receive wants them.
//
// A message is lost when one with a higher number has arrived. A receive that waits in vain asks the sender, beside the
// library (kit/sent_counts.h), how many messages have left, after a third of its patience and again after two. What had
// left by the second third and is not there at the end of the third is lost, all at once. A message that has not left
// is waited for. What comes after it was counted as lost is late, and dropped.
#include "fabric_datagrams.h"

#include <sys/uio.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "fabric_memory.h"
#include "fabric_open.h"
#include "fabric_progress.h"

namespace netpipe::fabric {
namespace {

constexpr size_t kHeader = 16;
constexpr uint32_t kMostReceives = 512;
constexpr uint32_t kAhead = 4096;  // numbers that a peer may be ahead; a power of two
// The words of a receive that was started, beside those of fabric_endpoint.h.
enum ReceiveWord { kInto = 0, kBytes = 1, kNext = 2, kAskAt = 3 };

np_status repost(np_endpoint& endpoint, Datagram& datagram) {
  datagram.request.word[kState] = kPending;
  datagram.request.word[kKind] = kDatagram;
  const size_t room = kHeader + endpoint.datagram_most;
  void* const descriptor = endpoint.datagram_memory ? fi_mr_desc(endpoint.datagram_memory.get()) : nullptr;
  for (;;) {
    const ssize_t code =
        fi_recv(endpoint.endpoint.get(), datagram.data, room, descriptor, FI_ADDR_UNSPEC, &datagram.request);
    if (code == 0) return NP_OK;
    if (code != -FI_EAGAIN) return broken(endpoint, static_cast<int>(-code), "fi_recv");
    if (*endpoint.context->abort != 0) return aborted(endpoint);
  }
}

void write_header(uint8_t* header, const Peer& peer, uint32_t rank) {
  std::memcpy(header, &peer.token, 8);
  std::memcpy(header + 8, &peer.sent, 4);
  std::memcpy(header + 12, &rank, 4);
}

Datagram*& held(Peer& peer, uint32_t number) { return peer.held[number % kAhead]; }

bool decided(Peer& peer) {
  return held(peer, peer.expected) != nullptr || static_cast<int32_t>(peer.seen - peer.expected) > 0;
}

// The next message of this peer, of which is known whether it came.
np_status finish_next(np_endpoint& endpoint, Peer& peer, void* data, size_t bytes) {
  Datagram*& place = held(peer, peer.expected++);
  Datagram* const datagram = place;
  if (datagram == nullptr) {
    ++endpoint.counts.lost;
    return NP_LOST;
  }
  place = nullptr;
  if (datagram->bytes != kHeader + bytes) {
    return fail(endpoint.context, NP_FAILED, "libfabric: a message of %zu bytes arrived where one of %zu was expected",
                datagram->bytes - kHeader, bytes);
  }
  std::memcpy(data, datagram->data + kHeader, bytes);
  return repost(endpoint, *datagram);
}

int64_t part_of_patience_ns(const np_endpoint& endpoint) { return endpoint.patience_ns / 3; }

// After a part of the patience in vain. What was known to have left before it has had its time.
void lose_patience(np_endpoint& endpoint, Peer& peer) {
  const auto rank = static_cast<int>(&peer - endpoint.peers.data());
  endpoint.left.serve();
  if (static_cast<int32_t>(peer.settled - peer.seen) > 0) peer.seen = peer.settled;
  peer.settled = endpoint.left.told(rank);
  if (!decided(peer)) endpoint.left.ask(rank);
}

// Until it is known whether the next message of this peer came.
np_status await_decision(np_endpoint& endpoint, Peer& peer) {
  const auto done = [&] { return decided(peer); };
  while (!done()) {
    const np_status status = await(endpoint, done, now_ns() + part_of_patience_ns(endpoint));
    if (status == NP_LOST) {
      lose_patience(endpoint, peer);
    } else if (status != NP_OK) {
      return status;
    }
  }
  return NP_OK;
}

np_status receive_next(np_endpoint& endpoint, Peer& peer, void* data, size_t bytes) {
  const np_status status = await_decision(endpoint, peer);
  return status == NP_OK ? finish_next(endpoint, peer, data, bytes) : status;
}

// The first receive that was started, of which is known whether its message came.
np_status finish_first(np_endpoint& endpoint, Peer& peer) {
  np_request* const first = peer.first;
  peer.first = reinterpret_cast<np_request*>(first->word[kNext]);
  if (peer.first == nullptr) peer.last = nullptr;
  const np_status status =
      finish_next(endpoint, peer, reinterpret_cast<void*>(first->word[kInto]), first->word[kBytes]);
  first->word[kState] = status == NP_LOST ? kGivenUp : kDone;
  return status == NP_LOST ? NP_OK : status;
}

np_status receive_first(np_endpoint& endpoint, Peer& peer) {
  const np_status status = await_decision(endpoint, peer);
  return status == NP_OK ? finish_first(endpoint, peer) : status;
}

np_status too_long(const np_endpoint& endpoint, size_t bytes) {
  return fail(endpoint.context, NP_UNSUPPORTED, "libfabric: a datagram of provider %s holds %zu bytes, not %zu",
              endpoint.name.c_str(), endpoint.datagram_most, bytes);
}

}  // namespace

uint64_t datagram_bytes(const np_endpoint& endpoint) { return endpoint.info->ep_attr->max_msg_size - kHeader; }

uint64_t datagram_inject_bytes(const np_endpoint& endpoint) {
  const uint64_t room = endpoint.info->tx_attr->inject_size;
  const uint64_t beside_header = std::min<uint64_t>(room - std::min(room, uint64_t{kHeader}), datagram_bytes(endpoint));
  return std::min(beside_header, static_cast<uint64_t>(std::max<int64_t>(endpoint.inject_most, 0)));
}

np_status open_datagrams(np_endpoint& endpoint) {
  const fi_info& info = *endpoint.info;
  const size_t most = info.ep_attr->max_msg_size;
  if (most <= kHeader) {
    return fail(endpoint.context, NP_UNAVAILABLE, "libfabric: provider %s has datagrams of %zu bytes; 17 are needed",
                endpoint.name.c_str(), most);
  }
  endpoint.datagram_most =
      static_cast<size_t>(std::min<uint64_t>(most - kHeader, std::max<uint64_t>(endpoint.context->max_bytes, 1)));
  endpoint.patience_ns = endpoint.context->options[kPatience].number * 1000;
  const size_t each = (kHeader + endpoint.datagram_most + 63) / 64 * 64;
  const size_t count = std::clamp<size_t>(info.rx_attr->size, 1, kMostReceives);
  endpoint.datagram_room = std::make_unique<char[]>(each * count);
  if (endpoint.registers) {
    const np_status s = register_memory(endpoint, endpoint.datagram_room.get(), each * count, FI_SEND | FI_RECV,
                                        endpoint.datagram_memory);
    if (s != NP_OK) return s;
  }
  if (const np_status s = endpoint.left.open(endpoint.context, "libfabric"); s != NP_OK) return s;
  for (Peer& peer : endpoint.peers) peer.held.assign(kAhead, nullptr);
  endpoint.datagrams.resize(count);
  for (size_t i = 0; i < count; ++i) {
    endpoint.datagrams[i].data = endpoint.datagram_room.get() + i * each;
    if (const np_status s = repost(endpoint, endpoint.datagrams[i]); s != NP_OK) return s;
  }
  return NP_OK;
}

void take_datagram(np_endpoint& endpoint, Datagram& datagram, size_t bytes) {
  datagram.bytes = bytes;
  uint64_t token = 0;
  uint32_t number = 0, rank = UINT32_MAX;
  if (bytes >= kHeader) {
    std::memcpy(&token, datagram.data, 8);
    std::memcpy(&number, datagram.data + 8, 4);
    std::memcpy(&rank, datagram.data + 12, 4);
  }
  const auto own = static_cast<size_t>(endpoint.context->rank);
  if (rank >= endpoint.peers.size() || token != endpoint.peers[own].token) {
    ++endpoint.counts.strangers;
    repost(endpoint, datagram);
    return;
  }
  Peer& peer = endpoint.peers[rank];
  const auto ahead = static_cast<int32_t>(number - peer.expected);
  if (ahead >= 0 && static_cast<int32_t>(number + 1 - peer.seen) > 0) peer.seen = number + 1;
  if (ahead < 0 || ahead >= static_cast<int32_t>(kAhead) || held(peer, number) != nullptr) {
    ++endpoint.counts.late;
    repost(endpoint, datagram);
    return;
  }
  held(peer, number) = &datagram;
}

np_status send_datagram(np_endpoint& endpoint, int rank, const void* data, size_t bytes, np_request* request) {
  if (bytes > endpoint.datagram_most) return too_long(endpoint, bytes);
  Peer& peer = endpoint.peers[static_cast<size_t>(rank)];
  const bool inject =
      static_cast<int64_t>(bytes) <= endpoint.inject_most && bytes + kHeader <= endpoint.info->tx_attr->inject_size;
  np_request* const own = request != nullptr ? request : &endpoint.direct_out;
  own->word[kState] = inject ? kDone : kPending;
  own->word[kKind] = kOwned;
  // An injected message is the library's at once, another one the caller's until it is complete.
  uint8_t* header = reinterpret_cast<uint8_t*>(&own->word[kPlace]);
  np_request* complete = own;
  if (inject) {
    Slot* slot = nullptr;
    if (const np_status s = new_slot(endpoint, rank, slot); s != NP_OK) return s;
    header = slot->header;
    complete = &slot->request;
  }
  write_header(header, peer, static_cast<uint32_t>(endpoint.context->rank));
  const iovec parts[2] = {{header, kHeader}, {const_cast<void*>(data), bytes}};
  void* descriptors[2] = {descriptor_of(endpoint, header, kHeader), descriptor_of(endpoint, data, bytes)};
  const fi_msg message = {parts, descriptors, bytes > 0 ? 2U : 1U, peer.at, complete, 0};
  const uint64_t flags = FI_COMPLETION | (inject ? FI_INJECT : 0);
  const np_status status =
      post(endpoint, "fi_sendmsg", [&] { return fi_sendmsg(endpoint.endpoint.get(), &message, flags); });
  if (status != NP_OK) return status;
  endpoint.left.left(rank, ++peer.sent);
  if (inject || request != nullptr) return NP_OK;
  return await(endpoint, [own] { return own->word[kState] == kDone; });
}

np_status recv_datagram(np_endpoint& endpoint, int rank, void* data, size_t bytes) {
  Peer& peer = endpoint.peers[static_cast<size_t>(rank)];
  while (peer.first != nullptr) [[unlikely]] {
    if (const np_status s = receive_first(endpoint, peer); s != NP_OK) return s;
  }
  return receive_next(endpoint, peer, data, bytes);
}

np_status irecv_datagram(np_endpoint& endpoint, int rank, void* data, size_t bytes, np_request* request) {
  if (bytes > endpoint.datagram_most) return too_long(endpoint, bytes);
  Peer& peer = endpoint.peers[static_cast<size_t>(rank)];
  request->word[kInto] = reinterpret_cast<uint64_t>(data);
  request->word[kBytes] = bytes;
  request->word[kNext] = 0;
  request->word[kAskAt] = static_cast<uint64_t>(now_ns() + part_of_patience_ns(endpoint));  // for test()
  request->word[kState] = kPending;
  request->word[kKind] = kReceive;
  request->word[kPlace] = reinterpret_cast<uint64_t>(&peer);
  if (peer.last != nullptr) peer.last->word[kNext] = reinterpret_cast<uint64_t>(request);
  if (peer.first == nullptr) peer.first = request;
  peer.last = request;
  return NP_OK;
}

np_status wait_datagram(np_endpoint& endpoint, np_request* request) {
  Peer& peer = *reinterpret_cast<Peer*>(request->word[kPlace]);
  while (request->word[kState] == kPending) {
    if (const np_status s = receive_first(endpoint, peer); s != NP_OK) return s;
  }
  return request->word[kState] == kDone ? NP_OK : NP_LOST;
}

np_status test_datagram(np_endpoint& endpoint, np_request* request) {
  Peer& peer = *reinterpret_cast<Peer*>(request->word[kPlace]);
  while (request->word[kState] == kPending) {
    if (endpoint.status != NP_OK) return endpoint.status;
    if (*endpoint.context->abort != 0) return aborted(endpoint);
    if (!decided(peer) && drain(endpoint) < 0) return endpoint.status;
    uint64_t& ask_at_ns = peer.first->word[kAskAt];
    if (!decided(peer)) {
      if (now_ns() <= static_cast<int64_t>(ask_at_ns)) return NP_PENDING;
      lose_patience(endpoint, peer);
      ask_at_ns = static_cast<uint64_t>(now_ns() + part_of_patience_ns(endpoint));
      if (!decided(peer)) return NP_PENDING;
    }
    if (const np_status s = finish_first(endpoint, peer); s != NP_OK) return s;
  }
  return request->word[kState] == kDone ? NP_OK : NP_LOST;
}

}  // namespace netpipe::fabric
