// SPDX-License-Identifier: Apache-2.0
// What goes wrong while verbs is made to move, and how it sleeps.
#include "verbs_progress.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace netpipe::verbs {
namespace {

constexpr unsigned kAcknowledgeAt = 64;  // ibv_ack_cq_events takes a lock

bool says_gone(ibv_wc_status status) {
  return status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_REM_ABORT_ERR || status == IBV_WC_WR_FLUSH_ERR;
}

}  // namespace

np_status broken(np_endpoint& endpoint, const ibv_wc& completion) {
  const np_context* context = endpoint.context;
  if (*context->abort != 0) return aborted(endpoint);
  if (endpoint.status != NP_OK) return endpoint.status;  // what follows the first one says less
  const char* const reason = ibv_wc_status_str(completion.status);
  const int peer = endpoint.queues[completion.wr_id >> kKindBits & ((1U << kIndexBits) - 1)].peer;
  if (says_gone(completion.status)) {
    endpoint.status = NP_PEER_LOST;
    return fail(context, NP_PEER_LOST,
                "verbs: rank %d on rank %d: the peer does not answer any more (%s); its own error says why", peer,
                context->rank, reason);
  }
  endpoint.status = NP_FAILED;
  return fail(context, NP_FAILED, "verbs: an operation of rank %d with rank %d: %s (vendor error %u)", context->rank,
              peer, reason, completion.vendor_err);
}

np_status failed(np_endpoint& endpoint, const char* what, int error) {
  if (endpoint.status != NP_OK) return endpoint.status;
  endpoint.status = NP_FAILED;
  return fail(endpoint.context, NP_FAILED, "verbs: %s on rank %d: %s", what, endpoint.context->rank,
              std::strerror(error));
}

// Requests and buffers belong to callers who may free them from here on, so nothing is looked at any more.
np_status aborted(np_endpoint& endpoint) {
  endpoint.status = NP_ABORTED;
  return fail(endpoint.context, NP_ABORTED, "verbs: rank %d gave up an operation that was under way",
              endpoint.context->rank);
}

// Events are asked for first and completions looked for then, so none is missed in between.
int sleep_until_completion(np_endpoint& endpoint, int64_t most_ns) {
  if (const int error = ibv_req_notify_cq(endpoint.completions.get(), 0); error != 0) {
    failed(endpoint, "ibv_req_notify_cq", error);
    return -1;
  }
  if (const int found = drain(endpoint); found != 0) return found;
  pollfd event = {endpoint.channel->fd, POLLIN, 0};
  const int64_t ms = std::min<int64_t>(most_ns / 1'000'000 + 1, fd_io::kAbortSliceMs);
  const int got = ::poll(&event, 1, static_cast<int>(ms));
  if (got < 0 && errno != EINTR) {
    failed(endpoint, "poll", errno);
    return -1;
  }
  if (got <= 0) return 0;
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(endpoint.channel.get(), &queue, &context) == 0 && ++endpoint.unacknowledged == kAcknowledgeAt) {
    ibv_ack_cq_events(endpoint.completions.get(), endpoint.unacknowledged);
    endpoint.unacknowledged = 0;
  }
  return drain(endpoint);
}

}  // namespace netpipe::verbs
