// SPDX-License-Identifier: Apache-2.0
// What goes wrong while libfabric is made to move.
#include "fabric_progress.h"

namespace netpipe::fabric {
namespace {

bool says_gone(int error) {
  switch (error) {
    case FI_ECONNRESET:
    case FI_ECONNABORTED:
    case FI_ECONNREFUSED:
    case FI_ENOTCONN:
    case FI_ESHUTDOWN:
    case FI_EHOSTDOWN:
    case FI_EHOSTUNREACH:
    case FI_ENETDOWN:
    case FI_ENETUNREACH:
    case FI_ETIMEDOUT:
    case FI_ECANCELED:  // of a receive whose connection has ended
    case EPIPE: return true;
    default: return false;
  }
}

}  // namespace

np_status broken(np_endpoint& endpoint, int error, const char* what) {
  const np_context* context = endpoint.context;
  if (*context->abort != 0) return aborted(endpoint);
  if (says_gone(error)) {
    endpoint.status = NP_PEER_LOST;
    return fail(context, NP_PEER_LOST, "libfabric: %s on rank %d: a peer has gone (%s); its own error says why", what,
                context->rank, fi_strerror(error));
  }
  endpoint.status = NP_FAILED;
  return fail(context, NP_FAILED, "libfabric: %s on rank %d, provider %s: %s", what, context->rank,
              endpoint.name.c_str(), fi_strerror(error));
}

np_status broken_completion(np_endpoint& endpoint, ssize_t code) {
  if (code != -FI_EAVAIL) return broken(endpoint, static_cast<int>(-code), "reading the completion queue");
  fi_cq_err_entry entry{};
  if (fi_cq_readerr(endpoint.queue.get(), &entry, 0) != 1) return NP_OK;  // the next look will tell
  np_request* request = request_of(entry.op_context);
  // Somebody else's datagram that does not fit: no reason to stop.
  if (endpoint.type == kDgram && request != nullptr && request->word[kKind] == kDatagram && entry.err == FI_ETRUNC) {
    take_datagram(endpoint, *reinterpret_cast<Datagram*>(request), 0);
    return NP_OK;
  }
  return broken(endpoint, entry.err == 0 ? FI_EIO : entry.err, "an operation");
}

// Requests and buffers belong to callers who may free them from here on, so nothing is looked at any more.
np_status aborted(np_endpoint& endpoint) {
  endpoint.status = NP_ABORTED;
  return fail(endpoint.context, NP_ABORTED, "libfabric: rank %d gave up an operation that was under way",
              endpoint.context->rank);
}

void take_signal(np_endpoint& endpoint, uint64_t data) {
  const uint64_t from = (data & ~kBarrierSignal) >> 32;
  if (from >= endpoint.peers.size()) return;
  Peer& peer = endpoint.peers[from];
  if ((data & kBarrierSignal) != 0) {
    ++peer.barriers_in;
    return;
  }
  if (peer.signals_in - peer.signals_out == kSignals) {
    broken(endpoint, FI_EOVERRUN, "more signals arrived than there is room for");
    return;
  }
  peer.signals[peer.signals_in++ % kSignals] = data & UINT32_MAX;
}

}  // namespace netpipe::fabric
