// SPDX-License-Identifier: Apache-2.0
// Sleeping, and what is said of failures.
#include "ucx_endpoint.h"

using netpipe::ucx::fail;

// The worker is armed only if nothing is waiting in it, and from then on whatever comes makes the descriptor readable.
np_status np_endpoint::sleep_until_event() {
  const ucs_status_t armed = ucp_worker_arm(worker);
  if (armed == UCS_ERR_BUSY) return NP_OK;  // something has come
  if (armed != UCS_OK) return failed(armed, "ucp_worker_arm", -1);
  ++sleeps;
  pollfd wanted{event, POLLIN, 0};
  ::poll(&wanted, 1, netpipe::ucx::kAbortSliceMs);  // whatever it says: the next look finds out
  return NP_OK;
}

np_status np_endpoint::gave_up(np_status status) {
  broken = true;
  for (netpipe::ucx::Inbox& inbox : inboxes) inbox.first = inbox.last = nullptr;  // they belong to the caller
  return fail(context, status, "ucx: rank %d gave up a transfer that was under way", context->rank);
}

np_status np_endpoint::failed(ucs_status_t status, const char* what, int peer) {
  gave_up(NP_FAILED);
  const std::string said = netpipe::ucx::Log::take();
  const char* const before = said.empty() ? "" : "; UCX says: ";
  switch (status) {
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_REJECTED:
      return fail(context, NP_PEER_LOST, "ucx: rank %d has gone (%s: %s)%s%s", peer, what, ucs_status_string(status),
                  before, said.c_str());
    case UCS_ERR_NO_MEMORY:
      return fail(context, NP_NO_MEMORY, "ucx: %s: %s%s%s", what, ucs_status_string(status), before, said.c_str());
    default:
      return fail(context, NP_FAILED, "ucx: %s on rank %d: %s%s%s", what, context->rank, ucs_status_string(status),
                  before, said.c_str());
  }
}
