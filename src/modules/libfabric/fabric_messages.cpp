// SPDX-License-Identifier: Apache-2.0
// One call of the library starts a message: fi_inject where it is small enough, which has no completion, and otherwise
// fi_send and fi_recv (or their tagged kin). Whoever waits takes completions until his own is there.
#include "fabric_messages.h"

#include <rdma/fi_tagged.h>

#include <array>

#include "fabric_datagrams.h"
#include "fabric_memory.h"
#include "fabric_progress.h"
#include "fabric_reach.h"

namespace netpipe::fabric {
namespace {

Peer& peer_of(np_endpoint* endpoint, int rank) { return endpoint->peers[static_cast<size_t>(rank)]; }

bool injected(const np_endpoint& endpoint, size_t bytes) { return static_cast<int64_t>(bytes) <= endpoint.inject_most; }

np_status inject(np_endpoint& endpoint, const Peer& peer, const void* data, size_t bytes, uint64_t tag) {
  ++endpoint.sends.issued;
  if (endpoint.tagged) {
    return post(endpoint, "fi_tinject", [&] { return fi_tinject(peer.ep, data, bytes, peer.at, tag); });
  }
  return post(endpoint, "fi_inject", [&] { return fi_inject(peer.ep, data, bytes, peer.at); });
}

// Which counter and what it will say at least when this request is complete. Receives complete in order; of sends and
// transfers it is known only when all have completed.
void expect(const Counter& counter, np_request* request) {
  request->word[kPlace] = reinterpret_cast<uint64_t>(&counter);
  request->word[kNumber] = counter.issued;
}

np_status start_send(np_endpoint& endpoint, const Peer& peer, const void* data, size_t bytes, uint64_t tag,
                     np_request* request) {
  request->word[kState] = kPending;
  request->word[kKind] = kOwned;
  void* const descriptor = descriptor_of(endpoint, data, bytes);
  ++endpoint.sends.issued;
  if (endpoint.counting) expect(endpoint.sends, request);
  if (endpoint.tagged) {
    return post(endpoint, "fi_tsend",
                [&] { return fi_tsend(peer.ep, data, bytes, descriptor, peer.at, tag, request); });
  }
  return post(endpoint, "fi_send", [&] { return fi_send(peer.ep, data, bytes, descriptor, peer.at, request); });
}

np_status start_recv(np_endpoint& endpoint, const Peer& peer, void* data, size_t bytes, uint64_t tag,
                     np_request* request) {
  request->word[kState] = kPending;
  request->word[kKind] = kOwned;
  void* const descriptor = descriptor_of(endpoint, data, bytes);
  ++endpoint.receives.issued;
  if (endpoint.counting) expect(endpoint.receives, request);
  // With tags the tag says from whom it is, with two ranks there is nobody else.
  const fi_addr_t from = endpoint.directed ? peer.at : FI_ADDR_UNSPEC;
  if (endpoint.tagged) {
    return post(endpoint, "fi_trecv",
                [&] { return fi_trecv(peer.ep, data, bytes, descriptor, FI_ADDR_UNSPEC, tag, 0, request); });
  }
  return post(endpoint, "fi_recv", [&] { return fi_recv(peer.ep, data, bytes, descriptor, from, request); });
}

uint64_t wanted_of(const np_endpoint& endpoint, const np_request& request) {
  const auto* counter = reinterpret_cast<const Counter*>(request.word[kPlace]);
  return counter == &endpoint.receives ? request.word[kNumber] : counter->issued;
}

np_status finish(np_endpoint& endpoint, np_request* request) {
  if (endpoint.counting) {
    if (request->word[kState] == kDone) return NP_OK;
    const auto* counter = reinterpret_cast<const Counter*>(request->word[kPlace]);
    const np_status status = await_count(endpoint, *counter, wanted_of(endpoint, *request));
    if (status == NP_OK) request->word[kState] = kDone;
    return status;
  }
  return await(endpoint, [request] { return request->word[kState] == kDone; });
}

np_status send(np_endpoint* endpoint, int rank, const void* data, size_t bytes) {
  if (endpoint->type == kDgram) return send_datagram(*endpoint, rank, data, bytes, nullptr);
  const Peer& peer = peer_of(endpoint, rank);
  if (injected(*endpoint, bytes)) return inject(*endpoint, peer, data, bytes, peer.send_tag);
  const np_status status = start_send(*endpoint, peer, data, bytes, peer.send_tag, &endpoint->direct_out);
  return status == NP_OK ? finish(*endpoint, &endpoint->direct_out) : status;
}

np_status recv(np_endpoint* endpoint, int rank, void* data, size_t bytes) {
  if (endpoint->type == kDgram) return recv_datagram(*endpoint, rank, data, bytes);
  const Peer& peer = peer_of(endpoint, rank);
  const np_status status = start_recv(*endpoint, peer, data, bytes, peer.recv_tag, &endpoint->direct_in);
  return status == NP_OK ? finish(*endpoint, &endpoint->direct_in) : status;
}

np_status isend(np_endpoint* endpoint, int rank, const void* data, size_t stride, size_t bytes, np_request* requests,
                size_t count) {
  const char* from = static_cast<const char*>(data);
  const Peer& peer = peer_of(endpoint, rank);
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i, from += stride) {
    if (endpoint->type == kDgram) {
      status = send_datagram(*endpoint, rank, from, bytes, &requests[i]);
    } else if (injected(*endpoint, bytes)) {
      requests[i].word[kState] = kDone;
      status = inject(*endpoint, peer, from, bytes, peer.send_tag);
    } else {
      status = start_send(*endpoint, peer, from, bytes, peer.send_tag, &requests[i]);
    }
  }
  return status;
}

np_status irecv(np_endpoint* endpoint, int rank, void* data, size_t stride, size_t bytes, np_request* requests,
                size_t count) {
  char* into = static_cast<char*>(data);
  const Peer& peer = peer_of(endpoint, rank);
  if (rank == endpoint->context->rank && endpoint->type == kMsg) [[unlikely]] {
    return fail(endpoint->context, NP_UNSUPPORTED,
                "libfabric: ep=msg has a connection for each two ranks and none of a rank to itself; take ep=rdm");
  }
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i, into += stride) {
    status = endpoint->type == kDgram ? irecv_datagram(*endpoint, rank, into, bytes, &requests[i])
                                      : start_recv(*endpoint, peer, into, bytes, peer.recv_tag, &requests[i]);
  }
  return status;
}

// Whether it has completed, without waiting.
bool looked(np_endpoint& endpoint, np_request* request) {
  if (request->word[kState] == kDone || !endpoint.counting) return request->word[kState] == kDone;
  const auto* counter = reinterpret_cast<const Counter*>(request->word[kPlace]);
  if (fi_cntr_read(counter->fid.get()) < wanted_of(endpoint, *request)) return false;
  request->word[kState] = kDone;
  return true;
}

// One round of a barrier, in empty messages.
np_status swap_tokens(np_endpoint& endpoint, const Peer& above, const Peer& below) {
  np_request in{}, out{};
  np_status status = start_recv(endpoint, below, nullptr, 0, below.barrier_recv_tag, &in);
  if (status == NP_OK) status = start_send(endpoint, above, nullptr, 0, above.barrier_send_tag, &out);
  if (status == NP_OK) status = finish(endpoint, &out);
  return status == NP_OK ? finish(endpoint, &in) : status;
}

}  // namespace

const np_messages kMessages = {
    .size = sizeof(np_messages), .to_itself = 1, .send = send, .recv = recv, .isend = isend, .irecv = irecv};

np_status wait(np_endpoint* endpoint, np_request* requests, size_t count) {
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) {
    status = is_datagram_receive(*endpoint, requests[i]) ? wait_datagram(*endpoint, &requests[i])
                                                         : finish(*endpoint, &requests[i]);
  }
  return status;
}

np_status test(np_endpoint* endpoint, np_request* request) {
  if (is_datagram_receive(*endpoint, *request)) return test_datagram(*endpoint, request);
  if (looked(*endpoint, request)) return NP_OK;
  if (endpoint->status != NP_OK) return endpoint->status;
  if (*endpoint->context->abort != 0) return aborted(*endpoint);
  if (drain(*endpoint) < 0) return endpoint->status;
  return looked(*endpoint, request) ? NP_OK : NP_PENDING;
}

// In round k each rank tells the one 2^k above it and hears the one 2^k below it (dissemination): log2(n) rounds. Who
// waits takes completions, so what peers put here meanwhile arrives.
np_status barrier(np_endpoint* endpoint) {
  // Datagrams may be lost, and no pattern that needs a barrier runs over them.
  if (endpoint->type == kDgram) return NP_OK;
  const int n = endpoint->context->nranks, own = endpoint->context->rank;
  const bool by_signal = endpoint->type == kMsg && has_signals(*endpoint);
  for (int distance = 1; distance < n; distance *= 2) {
    const int above = (own + distance) % n, below = (own - distance + n) % n;
    np_status status = NP_OK;
    if (by_signal) {
      status = signal_barrier(*endpoint, above);
      if (status == NP_OK) status = await_barrier(*endpoint, below);
    } else {
      status = swap_tokens(*endpoint, peer_of(endpoint, above), peer_of(endpoint, below));
    }
    if (status != NP_OK) return status;
  }
  return NP_OK;
}

np_status greet_all(np_endpoint& endpoint) {
  const np_context* context = endpoint.context;
  std::vector<np_request> in(endpoint.peers.size()), out(endpoint.peers.size());
  np_status status = NP_OK;
  const auto each = [&](auto act) {
    for (int rank = 0; rank < context->nranks && status == NP_OK; ++rank) {
      const auto at = static_cast<size_t>(rank);
      if (rank != context->rank) status = act(endpoint.peers[at], in[at], out[at]);
    }
  };
  each([&](const Peer& peer, np_request& request, np_request&) {
    return start_recv(endpoint, peer, nullptr, 0, peer.recv_tag, &request);
  });
  each([&](const Peer& peer, np_request&, np_request& request) {
    return start_send(endpoint, peer, nullptr, 0, peer.send_tag, &request);
  });
  const int64_t deadline_ns = now_ns() + context->timeout_ns;
  each([&](const Peer& peer, np_request& received, np_request& sent) {
    while (status == NP_OK && (test(&endpoint, &sent) != NP_OK || test(&endpoint, &received) != NP_OK)) {
      if (endpoint.status != NP_OK) return endpoint.status;
      if (now_ns() > deadline_ns) {
        return fail(context, NP_FAILED,
                    "libfabric: no message from rank %d at %s within %.1f s; is it alive, or is a firewall in between?",
                    static_cast<int>(&peer - endpoint.peers.data()), peer.name.c_str(),
                    static_cast<double>(context->timeout_ns) * 1e-9);
      }
      sched_yield();
    }
    return status;
  });
  // The requests end here.
  if (status != NP_OK && endpoint.status == NP_OK) endpoint.status = status;
  return status;
}

}  // namespace netpipe::fabric
