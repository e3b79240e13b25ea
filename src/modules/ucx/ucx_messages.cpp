// SPDX-License-Identifier: Apache-2.0
#include "ucx_messages.h"

#include <algorithm>
#include <cstring>

namespace netpipe::ucx {
namespace {

constexpr uint64_t kWholeTag = ~uint64_t{0};
constexpr size_t kPooled = 64;  // arrivals that are there from the beginning; more are made when they are needed
constexpr size_t kPooledBytes = 8 << 10;  // what UCX hands over without letting it be kept: a segment of TCP
constexpr int kTruncated = UCS_ERR_MESSAGE_TRUNCATED;

// ---------------------------------------------------------------------------------------------- active messages

Arrival* new_arrival(np_endpoint* e) {
  if (e->free_arrivals == nullptr) {
    e->arrivals.push_back(std::make_unique<Arrival>());
    e->arrivals.back()->room.reserve(kPooledBytes);
    return e->arrivals.back().get();
  }
  Arrival* const one = e->free_arrivals;
  e->free_arrivals = one->next;
  one->next = nullptr;
  return one;
}

void release(np_endpoint* e, Arrival* one) {
  one->next = e->free_arrivals;
  e->free_arrivals = one;
}

void append(Arrival*& first, Arrival*& last, Arrival* one) {
  (first == nullptr ? first : last->next) = one;
  last = one;
}

Arrival* take_first(Arrival*& first) {
  Arrival* const one = first;
  first = one->next;
  one->next = nullptr;
  return one;
}

// Notes its size alone.
Arrival* mark_of(np_endpoint* e, size_t bytes) {
  Arrival* const one = new_arrival(e);
  one->kind = Arrival::left;
  one->data = nullptr;
  one->bytes = bytes;
  return one;
}

// Keeps a copy: UCX needs its own room again.
Arrival* copy_of(np_endpoint* e, const void* data, size_t bytes) {
  Arrival* const one = new_arrival(e);
  const char* const from = static_cast<const char*>(data);
  one->kind = Arrival::copied;
  one->room.assign(from, from + bytes);
  one->data = one->room.data();
  one->bytes = bytes;
  return one;
}

void start_rendezvous(np_endpoint* e, np_request& request, void* descriptor) {
  begin(request, ucp_am_recv_data_nbx(e->worker, descriptor, reinterpret_cast<void*>(request.word[kData]),
                                      request.word[kBytes], &e->plain));
}

// A message has come. It goes to the first receive that waits, or waits itself.
ucs_status_t on_message(void* box, const void*, size_t, void* data, size_t bytes, const ucp_am_recv_param_t* param) {
  Inbox& inbox = *static_cast<Inbox*>(box);
  const bool rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  if (np_request* const request = inbox.first; request != nullptr) [[likely]] {
    inbox.first = reinterpret_cast<np_request*>(request->word[kNext]);
    request->word[kPosted] = 0;
    if (bytes != request->word[kBytes]) {
      request->word[kFailed] = static_cast<uint64_t>(kTruncated);
    } else if (rendezvous) {
      start_rendezvous(inbox.endpoint, *request, data);
    } else if (!inbox.endpoint->leaves) {
      std::memcpy(reinterpret_cast<void*>(request->word[kData]), data, bytes);
    }
    return UCS_OK;
  }
  np_endpoint* const e = inbox.endpoint;
  ++e->unexpected;
  const bool keeps = rendezvous || (!e->leaves && (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0);
  Arrival* one = nullptr;
  if (keeps) {
    one = new_arrival(e);
    one->kind = rendezvous ? Arrival::rendezvous : Arrival::kept_by_ucx;
    one->data = data;
    one->bytes = bytes;
  } else {
    one = e->leaves ? mark_of(e, bytes) : copy_of(e, data, bytes);
  }
  append(inbox.arrived, inbox.arrived_last, one);
  return keeps ? UCS_INPROGRESS : UCS_OK;
}

ucs_status_t on_barrier(void* count, const void*, size_t, void*, size_t, const ucp_am_recv_param_t*) {
  ++*static_cast<uint64_t*>(count);
  return UCS_OK;
}

ucs_status_t on_signal(void* box, const void*, size_t, void* data, size_t bytes, const ucp_am_recv_param_t*) {
  Inbox& inbox = *static_cast<Inbox*>(box);
  append(inbox.signals, inbox.signals_last, copy_of(inbox.endpoint, data, bytes));
  return UCS_OK;
}

void receive_arrival(np_endpoint* e, Inbox& inbox, np_request& request) {
  Arrival* const one = take_first(inbox.arrived);
  if (one->bytes != request.word[kBytes]) {
    request.word[kFailed] = static_cast<uint64_t>(kTruncated);
    if (one->kind == Arrival::kept_by_ucx || one->kind == Arrival::rendezvous) {
      ucp_am_data_release(e->worker, one->data);
    }
  } else if (one->kind == Arrival::rendezvous) {
    start_rendezvous(e, request, one->data);
  } else if (one->kind != Arrival::left) {
    std::memcpy(reinterpret_cast<void*>(request.word[kData]), one->data, one->bytes);
    if (one->kind == Arrival::kept_by_ucx) ucp_am_data_release(e->worker, one->data);
  }
  release(e, one);
}

void post_receive(np_endpoint* e, int peer, void* data, size_t bytes, np_request& request) {
  Inbox& inbox = e->inboxes[static_cast<size_t>(peer)];
  request.word[kHandle] = request.word[kFailed] = request.word[kPosted] = request.word[kNext] = 0;
  request.word[kData] = reinterpret_cast<uint64_t>(data);
  request.word[kBytes] = bytes;
  if (inbox.arrived != nullptr) {
    receive_arrival(e, inbox, request);
    return;
  }
  request.word[kPosted] = 1;
  if (inbox.first == nullptr) {
    inbox.first = &request;
  } else {
    inbox.last->word[kNext] = reinterpret_cast<uint64_t>(&request);
  }
  inbox.last = &request;
}

// ---------------------------------------------------------------------------------------------- one message

ucs_status_ptr_t start_send(np_endpoint* e, int peer, const void* data, size_t bytes) {
  ucp_ep_h to = e->to[static_cast<size_t>(peer)];
  if (e->api == Api::tag) [[likely]] {
    return ucp_tag_send_nbx(to, data, bytes, e->own_tag, &e->message);
  }
  if (e->api == Api::stream) return ucp_stream_send_nbx(to, data, bytes, &e->message);
  return ucp_am_send_nbx(to, message_number(e, e->context->rank), nullptr, 0, data, bytes, &e->message);
}

ucs_status_ptr_t start_receive(np_endpoint* e, int peer, void* data, size_t bytes) {
  if (e->api == Api::tag) [[likely]] {
    return ucp_tag_recv_nbx(e->worker, data, bytes, static_cast<uint64_t>(peer), kWholeTag, &e->message);
  }
  return ucp_stream_recv_nbx(e->to[static_cast<size_t>(peer)], data, bytes, &e->stream_bytes, &e->whole);
}

np_status send(np_endpoint* e, int peer, const void* data, size_t bytes) {
  return e->finish(start_send(e, peer, data, bytes), "sending", peer);
}

np_status recv(np_endpoint* e, int peer, void* data, size_t bytes) {
  if (e->api != Api::am) [[likely]] {
    return e->finish(start_receive(e, peer, data, bytes), "receiving", peer);
  }
  np_request request;
  post_receive(e, peer, data, bytes, request);
  return wait(e, &request, 1);
}

np_status isend(np_endpoint* e, int peer, const void* data, size_t stride, size_t bytes, np_request* requests,
                size_t count) {
  const char* from = static_cast<const char*>(data);
  for (size_t i = 0; i < count; ++i, from += stride) begin(requests[i], start_send(e, peer, from, bytes));
  return NP_OK;
}

np_status irecv(np_endpoint* e, int peer, void* data, size_t stride, size_t bytes, np_request* requests, size_t count) {
  if (e->to[static_cast<size_t>(peer)] == nullptr) [[unlikely]] {
    return fail(e->context, NP_UNSUPPORTED, "%s", e->not_to_itself.c_str());
  }
  char* into = static_cast<char*>(data);
  for (size_t i = 0; i < count; ++i, into += stride) {
    if (e->api == Api::am) {
      post_receive(e, peer, into, bytes, requests[i]);
    } else {
      begin(requests[i], start_receive(e, peer, into, bytes));
    }
  }
  return NP_OK;
}

np_status ended(np_endpoint* e, const np_request& request) {
  if (request.word[kFailed] == 0) [[likely]]
    return NP_OK;
  return e->failed(static_cast<ucs_status_t>(static_cast<int64_t>(request.word[kFailed])), "a transfer", -1);
}

// Nobody will end these: UCX is to forget their buffers.
void cancel(np_endpoint* e, np_request* requests, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (requests[i].word[kHandle] == 0) continue;
    auto* const handle = reinterpret_cast<void*>(requests[i].word[kHandle]);
    ucp_request_cancel(e->worker, handle);
    ucp_request_free(handle);
    requests[i].word[kHandle] = 0;
  }
}

}  // namespace

unsigned message_number(const np_endpoint*, int from) { return static_cast<unsigned>(from); }
unsigned barrier_number(const np_endpoint* e, int round) { return static_cast<unsigned>(e->context->nranks + round); }
unsigned signal_number(const np_endpoint* e, int from) {
  return static_cast<unsigned>(e->context->nranks + kBarrierRounds + from);
}

np_status take_active_messages(np_endpoint* e) {
  for (size_t i = 0; i < kPooled; ++i) {
    e->arrivals.push_back(std::make_unique<Arrival>());
    e->arrivals.back()->room.reserve(kPooledBytes);
    release(e, e->arrivals.back().get());
  }
  const auto take = [&](unsigned number, ucp_am_recv_callback_t call, void* argument) {
    ucp_am_handler_param_t param{};
    param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    param.id = number;
    param.cb = call;
    param.arg = argument;
    return ucp_worker_set_am_recv_handler(e->worker, &param);
  };
  ucs_status_t status = UCS_OK;
  for (int peer = 0; peer < e->context->nranks && status == UCS_OK; ++peer) {
    Inbox& inbox = e->inboxes[static_cast<size_t>(peer)];
    inbox.endpoint = e;
    status = take(message_number(e, peer), on_message, &inbox);
    if (status == UCS_OK) status = take(signal_number(e, peer), on_signal, &inbox);
  }
  for (int round = 0; round < kBarrierRounds && status == UCS_OK; ++round) {
    status = take(barrier_number(e, round), on_barrier, &e->barrier_arrived[round]);
  }
  return status == UCS_OK ? NP_OK : e->failed(status, "ucp_worker_set_am_recv_handler", -1);
}

void begin(np_request& request, ucs_status_ptr_t begun) {
  const bool error = UCS_PTR_IS_ERR(begun);
  request.word[kHandle] = error ? 0 : reinterpret_cast<uint64_t>(begun);
  request.word[kPosted] = 0;
  request.word[kFailed] = error ? static_cast<uint64_t>(UCS_PTR_STATUS(begun)) : 0;
}

bool under_way(np_request& request) {
  if (request.word[kPosted] != 0) return true;
  if (request.word[kHandle] == 0) return false;
  auto* const handle = reinterpret_cast<void*>(request.word[kHandle]);
  const ucs_status_t status = ucp_request_check_status(handle);
  if (status == UCS_INPROGRESS) return true;
  ucp_request_free(handle);
  request.word[kHandle] = 0;
  if (status != UCS_OK) request.word[kFailed] = static_cast<uint64_t>(status);
  return false;
}

np_status wait(np_endpoint* e, np_request* requests, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    np_status status = e->until([&] { return !under_way(requests[i]); });
    if (status == NP_OK) status = ended(e, requests[i]);
    if (status == NP_OK) [[likely]]
      continue;
    cancel(e, requests + i, count - i);
    return status;
  }
  return NP_OK;
}

np_status test(np_endpoint* e, np_request* request) {
  if (!under_way(*request)) return ended(e, *request);
  if (*e->context->abort != 0) {
    cancel(e, request, 1);
    return e->gave_up(NP_ABORTED);
  }
  if (e->lost_status != UCS_OK) return e->failed(e->lost_status, "testing", e->lost);
  if (ucp_worker_progress(e->worker) == 0) {
    ++e->empty_polls;
    if (e->context->oversubscribed != 0) sched_yield();
  }
  return under_way(*request) ? NP_PENDING : ended(e, *request);
}

// Dissemination: in round r every rank tells the one 2^r above it.
np_status barrier(np_endpoint* e) {
  const int nranks = e->context->nranks;
  const uint64_t turn = ++e->barrier_turn;
  for (int round = 0, step = 1; step < nranks; ++round, step *= 2) {
    const int peer = (e->context->rank + step) % nranks;
    np_status status = e->finish(
        ucp_am_send_nbx(e->to[static_cast<size_t>(peer)], barrier_number(e, round), nullptr, 0, nullptr, 0, &e->plain),
        "a barrier", peer);
    if (status == NP_OK) status = e->until([&] { return e->barrier_arrived[round] >= turn; });
    if (status != NP_OK) return status;
  }
  return NP_OK;
}

np_status await_signal(np_endpoint* e, int peer, uint64_t* value) {
  Inbox& inbox = e->inboxes[static_cast<size_t>(peer)];
  if (const np_status status = e->until([&] { return inbox.signals != nullptr; }); status != NP_OK) return status;
  Arrival* const one = take_first(inbox.signals);
  std::memcpy(value, one->data, std::min(one->bytes, sizeof *value));
  release(e, one);
  return NP_OK;
}

const np_messages kMessages = {
    .size = sizeof(np_messages), .to_itself = 1, .send = send, .recv = recv, .isend = isend, .irecv = irecv};

}  // namespace netpipe::ucx
