// SPDX-License-Identifier: Apache-2.0
// One peer's link, as kit/services/queued.h wants it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "grpc_link.h"
#include "kit/services/queued.h"
#include "netpipe/module.h"

namespace netpipe::grpc {

using fd_io::fail;

class Socket {
 public:
  static constexpr bool kHolds = true;  // a send ends when the library has written it
  static constexpr char kAlternates[] = "api=unary";

  struct Sleeper {
    Loop* loop = nullptr;
    void clear() {}
    void sleep(int ms) const { (void)loop->sleep(ms); }
  };

  // One endpoint has one loop, and a link for each peer.
  Socket(const np_context* context, int peer, Loop& loop, Link& link)
      : context_(context), peer_(peer), loop_(&loop), link_(&link) {}

  np_status send(const void* data, size_t bytes, bool sleep) {
    if (link_->sending() && !moves_on(sleep, [&] { return !link_->sending(); })) return NP_PENDING;
    if (link_->lost()) [[unlikely]]
      return gone();
    const Library& lib = loop_->lib;
    grpc_slice slice = lib.grpc_slice_from_copied_buffer(static_cast<const char*>(data), bytes);
    grpc_byte_buffer* const message = lib.grpc_raw_byte_buffer_create(&slice, 1);
    lib.grpc_slice_unref(slice);
    const bool taken = link_->send(message);
    lib.grpc_byte_buffer_destroy(message);
    if (!taken) [[unlikely]]
      return link_->lost() ? gone() : broken("sending");
    ++handed_;
    if (link_->sending()) loop_->look();  // most are written at once
    return NP_OK;
  }

  np_status recv(void* data, size_t bytes, bool sleep) {
    size_t got = 0;
    if (const np_status status = copy(data, bytes, got, sleep); status != NP_OK) return status;
    if (got == bytes) [[likely]]
      return NP_OK;
    return fail(context_, NP_FAILED, "grpc: a message of %zu bytes from rank %d instead of %zu", got, peer_, bytes);
  }

  np_status take(void* data, size_t room, size_t& bytes) { return copy(data, room, bytes, false); }

  [[nodiscard]] uint64_t handed() const { return handed_; }
  // Both ranks may be sending: so that neither waits for the other, what comes meanwhile is received.
  bool released(uint64_t ticket) {
    if (written(ticket)) [[likely]]
      return true;
    link_->listen();
    loop_->look();
    return written(ticket);
  }

  void add_wanted(Sleeper& sleeper, bool, bool, bool) const { sleeper.loop = loop_; }

 private:
  [[nodiscard]] bool written(uint64_t ticket) const { return ticket < handed_ || !link_->sending(); }

  // What comes back may be of another link; the caller asks again.
  template <typename Condition>
  bool moves_on(bool sleep, const Condition& condition) {
    (void)(sleep ? loop_->sleep(queued::kSliceMs) : loop_->look());
    return condition();
  }

  np_status copy(void* data, size_t room, size_t& bytes, bool sleep) {
    if (!link_->has_message()) {
      link_->listen();
      const bool here = moves_on(sleep, [&] { return link_->has_message() || link_->lost(); });
      if (!here) return NP_PENDING;
      if (!link_->has_message()) return gone();
    }
    const Library& lib = loop_->lib;
    grpc_byte_buffer_reader reader{};
    if (lib.grpc_byte_buffer_reader_init(&reader, link_->message()) == 0) return broken("receiving");
    auto* const into = static_cast<char*>(data);
    bytes = 0;
    for (grpc_slice* slice = nullptr; lib.grpc_byte_buffer_reader_peek(&reader, &slice) != 0;) {
      const size_t length = GRPC_SLICE_LENGTH(*slice);
      if (bytes < room) std::memcpy(into + bytes, GRPC_SLICE_START_PTR(*slice), std::min(length, room - bytes));
      bytes += length;
    }
    lib.grpc_byte_buffer_reader_destroy(&reader);
    link_->drop_incoming();
    return NP_OK;
  }

  [[gnu::cold]] np_status gone() const {
    return fail(context_, NP_PEER_LOST, "grpc: rank %d has gone (its connection ended); its own error says why", peer_);
  }
  [[gnu::cold]] np_status broken(const char* what) const {
    return fail(context_, NP_FAILED, "grpc: %s failed on rank %d", what, context_->rank);
  }

  const np_context* context_;
  int peer_;
  Loop* loop_;
  Link* link_;
  uint64_t handed_ = 0;
};

}  // namespace netpipe::grpc
