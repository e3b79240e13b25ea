// SPDX-License-Identifier: Apache-2.0
// What one rank of cma keeps, and how its messages move.
#pragma once

#include <poll.h>

#include <cstdint>
#include <vector>

#include "cma_copy.h"
#include "cma_options.h"
#include "cma_segment.h"
#include "cma_waiter.h"
#include "kit/streams/fd_connect.h"

namespace netpipe::cma {

// Of a request. kLeft: 1 until it is complete.
enum Word { kLeft, kData, kBytes, kNext, kNumber, kPeer };

// Requests in the order in which they were started.
struct Queue {
  np_request* first = nullptr;
  np_request* last = nullptr;

  void add(np_request* request) {
    request->word[kNext] = 0;
    if (last != nullptr) last->word[kNext] = reinterpret_cast<std::uint64_t>(request);
    if (first == nullptr) first = request;
    last = request;
  }
  static np_request* next(const np_request* request) {
    return reinterpret_cast<np_request*>(request->word[kNext]);  // NOLINT(performance-no-int-to-ptr)
  }
  void drop() {
    first = next(first);
    if (first == nullptr) last = nullptr;
  }
};

// This rank and one other.
struct Link {
  int peer = -1;
  pid_t pid = -1;
  fd_io::Fd fd;  // closed by the end of its process
  Member* member = nullptr;
  Lane* out = nullptr;  // this rank publishes here, the peer copies
  Lane* in = nullptr;   // and the other way round
  std::uint64_t published = 0, copied = 0;
  Queue publishing;                   // published and not yet copied, and behind these what waits for a slot
  np_request* unpublished = nullptr;  // the first of those
  Queue copying;                      // to be copied here, once it is published
};

}  // namespace netpipe::cma

struct np_endpoint {
  explicit np_endpoint(const np_context* given)
      : context(given),
        links(static_cast<size_t>(given->nranks)),
        way(given->options[netpipe::cma::kDirection].number == 0 ? netpipe::cma::Way::read : netpipe::cma::Way::write) {
  }

  // A send publishes with direction=read and copies with direction=write; a receive does the other.
  np_status send(int peer, const void* data, size_t bytes) {
    return way == netpipe::cma::Way::read ? publish(link(peer), const_cast<void*>(data), bytes)
                                          : copy(link(peer), const_cast<void*>(data), bytes);
  }
  np_status recv(int peer, void* data, size_t bytes) {
    return way == netpipe::cma::Way::read ? copy(link(peer), data, bytes) : publish(link(peer), data, bytes);
  }
  np_status start(int peer, bool sends, void* data, size_t bytes, np_request* request);
  np_status finish(np_request* request);
  np_status look(np_request* request);
  np_status barrier();

  // One copy between here and there, with a sentence if it fails.
  np_status move(netpipe::cma::Way how, const netpipe::cma::Link& with, void* near, uint64_t far, size_t bytes) {
    ++copies;
    const int error = netpipe::cma::copy(how, with.pid, near, far, bytes);
    return error == 0 ? NP_OK : broken(with, error);
  }
  netpipe::cma::Link& link(int peer) { return links[static_cast<size_t>(peer)]; }

  const np_context* context;
  netpipe::fd_io::LocalMeeting meeting;
  std::vector<netpipe::cma::Link> links;  // by rank; that of the rank itself is empty
  netpipe::cma::Way way;
  netpipe::cma::Segment segment;
  netpipe::cma::Waiter waiter;
  uint64_t probe = netpipe::cma::kMagic;  // what the others read to see that they may
  uint64_t barriers = 0;
  uint64_t pending = 0;  // requests that are not complete
  uint64_t copies = 0;
  np_status status = NP_OK;

 private:
  np_status publish(netpipe::cma::Link& with, void* data, size_t bytes);
  np_status copy(netpipe::cma::Link& with, void* data, size_t bytes);
  np_status copy_one(netpipe::cma::Link& with, void* data, size_t bytes);
  np_status queued(netpipe::cma::Link& with, bool publishes, void* data, size_t bytes);
  np_status advance(netpipe::cma::Link& with);
  np_status advance_all();
  void complete(np_request* request);
  [[nodiscard]] np_status usable() const;
  np_status gave_up(const netpipe::cma::Link& with, np_status why);
  np_status broken(const netpipe::cma::Link& with, int error);
};

namespace netpipe::cma {

// Whether the other process has ended.
inline bool has_ended(const Link& link) {
  pollfd ended{link.fd.get(), POLLRDHUP, 0};
  return poll(&ended, 1, 0) == 1;
}

}  // namespace netpipe::cma
