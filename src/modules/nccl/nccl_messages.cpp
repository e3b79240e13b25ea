// SPDX-License-Identifier: Apache-2.0
// Messages of nccl. A blocking one is one operation and a wait for the stream. What isend and irecv start is kept until
// a wait, a test or a blocking message needs it, and then handed over as one group: outside a group each operation
// would wait for the one before it. NCCL cannot have a receive wait beside later operations, so one that nobody waits
// for yet is not handed over.
#include <sched.h>

#include <algorithm>

#include "kit/streams/fd.h"
#include "nccl_endpoint.h"

using namespace netpipe::nccl;  // NOLINT(google-build-using-namespace): np_endpoint's own
using netpipe::fd_io::fail;

np_status np_endpoint::usable() const {
  if (status == NP_OK) return NP_OK;
  return fail(context, status, "nccl: an earlier operation of rank %d failed", context->rank);
}

// The communicator cannot be used any more: what is on its way would never end.
np_status np_endpoint::gave_up(np_status why) {
  status = why;
  waiting.clear();
  if (comm != nullptr) nccl.abort(comm);
  comm = nullptr;
  return why;
}

np_status np_endpoint::checked(ncclResult_t result, const char* where) {
  if (result == ncclSuccess) [[likely]]
    return NP_OK;
  const char* const more = nccl.last_error(comm);  // which may be NULL: there is one for the process
  fail(context, NP_FAILED, "nccl: %s on rank %d failed: %s%s%s", where, context->rank, nccl.error_text(result),
       more != nullptr && *more != '\0' ? ": " : "", more != nullptr ? more : "");
  return gave_up(result == ncclRemoteError ? NP_PEER_LOST : NP_FAILED);
}

np_status np_endpoint::poll_once(bool& empty) {
  const CUresult error = cuda.cuStreamQuery(stream);
  empty = error == CUDA_SUCCESS;
  if (empty) {
    over = launched;
    return NP_OK;
  }
  if (error == CUDA_ERROR_NOT_READY) return NP_OK;
  np_cuda_trouble(&device, error, "nccl: cuStreamQuery");
  return gave_up(NP_FAILED);
}

np_status np_endpoint::settle() {
  for (std::uint32_t looks = 1;; ++looks) {
    bool empty = false;
    if (const np_status s = poll_once(empty); s != NP_OK || empty) return s;
    if (context->oversubscribed != 0) sched_yield();
    if (looks % 64 != 0) continue;
    if (*context->abort != 0) {
      fail(context, NP_ABORTED, "nccl: rank %d gave up while it waited for other ranks", context->rank);
      return gave_up(NP_ABORTED);
    }
    if (looks % 4096 != 0) continue;
    ncclResult_t async = ncclSuccess;  // a rank that has gone shows here
    np_status s = checked(nccl.async_error(comm, &async), "ncclCommGetAsyncError");
    if (s == NP_OK) s = checked(async, "an operation that was under way");
    if (s != NP_OK) return s;
  }
}

// Which of what was started is handed over now: every send, and of the receives those that are asked for (all: each)
// with what was started before them from the same rank, because messages between two ranks match in their order.
void np_endpoint::choose(bool all) {
  std::fill(needed.begin(), needed.end(), all ? char{1} : char{0});
  for (size_t i = waiting.size(); i-- > 0;) {
    np_request* const request = waiting[i];
    char& from_peer = needed[request->word[kPeer]];
    if (request->word[kSends] == 0 && request->word[kAsked] != 0) from_peer = 1;
    request->word[kAsked] = request->word[kSends] != 0 || from_peer != 0 ? 1 : 0;
  }
}

np_status np_endpoint::launch(bool all) {
  if (waiting.empty()) return NP_OK;
  choose(all);
  np_status s = checked(nccl.group_start(), "ncclGroupStart");
  if (s != NP_OK) return s;
  ++launched;
  ++groups;
  size_t kept = 0;
  for (np_request* const request : waiting) {
    if (request->word[kAsked] == 0) {
      waiting[kept++] = request;
      continue;
    }
    void* const data = reinterpret_cast<void*>(request->word[kData]);  // NOLINT(performance-no-int-to-ptr)
    const auto peer = static_cast<int>(request->word[kPeer]);
    const size_t bytes = request->word[kBytes];
    s = request->word[kSends] != 0 ? checked(nccl.send(data, bytes, ncclUint8, peer, comm, stream), "ncclSend")
                                   : checked(nccl.recv(data, bytes, ncclUint8, peer, comm, stream), "ncclRecv");
    if (s != NP_OK) return s;
    request->word[kState] = kLaunched;
    request->word[kBatch] = launched;
  }
  waiting.resize(kept);
  return checked(nccl.group_end(), "ncclGroupEnd");
}

np_status np_endpoint::start(int peer, bool sends, void* data, size_t bytes, np_request* request) {
  if (const np_status s = usable(); s != NP_OK) return s;
  if (waiting.size() == kMostInGroup) {
    return fail(context, NP_UNSUPPORTED, "nccl: more than %zu messages in flight at once: NCCL groups no more",
                kMostInGroup);
  }
  request->word[kState] = kWaiting;
  request->word[kData] = reinterpret_cast<std::uint64_t>(data);
  request->word[kBytes] = bytes;
  request->word[kPeer] = static_cast<std::uint64_t>(peer);
  request->word[kSends] = sends ? 1 : 0;
  request->word[kAsked] = 0;
  waiting.push_back(request);  // within what open reserved
  return NP_OK;
}

np_status np_endpoint::move(int peer, bool sends, void* data, size_t bytes) {
  if (const np_status s = usable(); s != NP_OK) return s;
  if (!waiting.empty()) [[unlikely]] {
    np_request request{};  // behind what was started before
    if (const np_status s = start(peer, sends, data, bytes, &request); s != NP_OK) return s;
    request.word[kAsked] = 1;
    const np_status s = launch(false);
    return s == NP_OK ? settle() : s;
  }
  ++launched;
  ++groups;
  const np_status s = sends ? checked(nccl.send(data, bytes, ncclUint8, peer, comm, stream), "ncclSend")
                            : checked(nccl.recv(data, bytes, ncclUint8, peer, comm, stream), "ncclRecv");
  return s == NP_OK ? settle() : s;
}

// Hands over what these wait for. Where one of them is a send, everything is: two ranks that wait for their sends and
// then for their receives would wait for ever.
np_status np_endpoint::hand_over(np_request* requests, size_t count) {
  bool any = false, sends = false;
  for (size_t i = 0; i < count; ++i) {
    if (requests[i].word[kState] != kWaiting) continue;
    any = true;
    sends |= requests[i].word[kSends] != 0;
    requests[i].word[kAsked] = 1;
  }
  return any ? launch(sends) : NP_OK;
}

np_status np_endpoint::finish(np_request* requests, size_t count) {
  np_status s = usable();
  if (s == NP_OK) s = hand_over(requests, count);
  for (size_t i = 0; i < count && s == NP_OK; ++i) {
    if (requests[i].word[kState] != kDone && requests[i].word[kBatch] > over) s = settle();
    if (s == NP_OK) requests[i].word[kState] = kDone;
  }
  return s;
}

np_status np_endpoint::look(np_request* request) {
  if (request->word[kState] == kDone) return NP_OK;
  np_status s = usable();
  if (s == NP_OK) s = hand_over(request, 1);
  bool empty = false;
  if (s == NP_OK && request->word[kBatch] > over) s = poll_once(empty);
  if (s != NP_OK) return s;
  if (request->word[kBatch] > over) return *context->abort != 0 ? gave_up(NP_ABORTED) : NP_PENDING;
  request->word[kState] = kDone;
  return NP_OK;
}

namespace netpipe::nccl {
namespace {

np_status send(np_endpoint* e, int peer, const void* data, size_t bytes) {
  return e->move(peer, true, const_cast<void*>(data), bytes);
}
np_status recv(np_endpoint* e, int peer, void* data, size_t bytes) { return e->move(peer, false, data, bytes); }

np_status start_all(np_endpoint* e, int peer, bool sends, char* data, size_t stride, size_t bytes, np_request* requests,
                    size_t count) {
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) {
    status = e->start(peer, sends, data + i * stride, bytes, &requests[i]);
  }
  return status;
}
np_status isend(np_endpoint* e, int peer, const void* data, size_t stride, size_t bytes, np_request* requests,
                size_t count) {
  return start_all(e, peer, true, const_cast<char*>(static_cast<const char*>(data)), stride, bytes, requests, count);
}
np_status irecv(np_endpoint* e, int peer, void* data, size_t stride, size_t bytes, np_request* requests, size_t count) {
  return start_all(e, peer, false, static_cast<char*>(data), stride, bytes, requests, count);
}

}  // namespace

constexpr np_messages kMessages = {
    .size = sizeof(np_messages), .send = send, .recv = recv, .isend = isend, .irecv = irecv};

}  // namespace netpipe::nccl
