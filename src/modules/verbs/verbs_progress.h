// SPDX-License-Identifier: Apache-2.0
// How verbs is made to move: completions are taken, and whoever waits does so here. Everything that is timed comes
// through this file, so it is inline.
#pragma once

#include <sched.h>

#include <cstdint>

#include "verbs_endpoint.h"

namespace netpipe::verbs {

inline constexpr int kBatch = 16;  // completions that are taken at once

// What broke it and who may have gone; leaves the sentence.
np_status broken(np_endpoint& endpoint, const ibv_wc& completion);
np_status failed(np_endpoint& endpoint, const char* what, int error);
np_status aborted(np_endpoint& endpoint);
// Takes what has arrived in a cell: of a control pair, of datagrams, or in none (op=write_imm).
void take_cell(np_endpoint& endpoint, Queue& queue, const ibv_wc& completion);
// Posts receives that had no room.
void post_backlog(np_endpoint& endpoint, Peer& peer);
// Sleeps on the completion channel, at most so long, unless there is a completion already. -1: it is broken.
int sleep_until_completion(np_endpoint& endpoint, int64_t most_ns);

inline Peer& peer_of(np_endpoint& endpoint, int rank) { return endpoint.peers[static_cast<size_t>(rank)]; }

inline bool take(np_endpoint& endpoint, const ibv_wc& completion) {
  const uint64_t index = completion.wr_id >> kKindBits & ((1U << kIndexBits) - 1);
  Queue& queue = endpoint.queues[index];
  if (completion.status != IBV_WC_SUCCESS) [[unlikely]] {
    broken(endpoint, completion);
    return false;
  }
  switch (completion.wr_id & ((1U << kKindBits) - 1)) {
    case kToSend: queue.completed = completion.wr_id >> (kKindBits + kIndexBits); break;
    case kToReceive: {
      ++queue.arrived;
      Peer& peer = peer_of(endpoint, queue.peer);
      if (peer.backlog.first != nullptr) [[unlikely]]
        post_backlog(endpoint, peer);
      break;
    }
    default: take_cell(endpoint, queue, completion);
  }
  return true;
}

// Takes what has completed. How many; -1: it is broken.
inline int drain(np_endpoint& endpoint) {
  ibv_wc completions[kBatch];
  const int count = ibv_poll_cq(endpoint.completions.get(), kBatch, completions);
  for (int i = 0; i < count; ++i) {
    if (!take(endpoint, completions[i])) return -1;
  }
  if (count < 0) [[unlikely]]
    failed(endpoint, "ibv_poll_cq", -count);
  return count;
}

// Polls, yields or sleeps until done() says so. deadline_ns: when to return NP_LOST; 0: never.
template <typename Done>
np_status await(np_endpoint& endpoint, Done done, int64_t deadline_ns = 0) {
  int64_t sleep_at_ns = 0;
  bool sleep = endpoint.set.wait == Wait::block;
  while (!done()) {
    if (endpoint.status != NP_OK) return endpoint.status;
    if (*endpoint.context->abort != 0) return aborted(endpoint);
    int64_t left_ns = INT64_MAX;
    if (deadline_ns != 0) {
      left_ns = deadline_ns - now_ns();
      if (left_ns <= 0) {  // a process that was stopped has not looked since
        const int found = drain(endpoint);
        if (found < 0) return endpoint.status;
        if (found == 0) return NP_LOST;
        continue;
      }
    }
    const int found = sleep ? sleep_until_completion(endpoint, left_ns) : drain(endpoint);
    if (found < 0) return endpoint.status;
    if (found > 0) {
      sleep_at_ns = 0;
      sleep = endpoint.set.wait == Wait::block;
      continue;
    }
    if (sleep) continue;
    ++endpoint.counts.empty_polls;
    if (endpoint.context->oversubscribed != 0) sched_yield();
    if (endpoint.set.wait == Wait::hybrid) {
      const int64_t now = now_ns();
      if (sleep_at_ns == 0) sleep_at_ns = now + endpoint.set.spin_ns;
      sleep = now >= sleep_at_ns;
      endpoint.counts.sleeps += sleep ? 1 : 0;
    }
  }
  return NP_OK;
}

inline np_status await_sent(np_endpoint& endpoint, const Queue& queue, uint64_t number) {
  return await(endpoint, [&] { return queue.completed >= number; });
}

// Until the send queue has room for so many more.
inline np_status room_for(np_endpoint& endpoint, const Queue& queue, uint64_t count) {
  if (queue.sent + count - queue.completed <= endpoint.set.send_depth) [[likely]]
    return NP_OK;
  return await(endpoint, [&] { return queue.sent + count - queue.completed <= endpoint.set.send_depth; });
}

// Gives a work request its number, and decides whether it asks for a completion. must: it does.
inline void number(const np_endpoint& endpoint, Queue& queue, ibv_send_wr& request, bool must) {
  request.wr_id = id_of(kToSend, queue.index, ++queue.sent);
  if (must || ++queue.unsignalled >= endpoint.set.signal) {
    request.send_flags |= IBV_SEND_SIGNALED;
    queue.unsignalled = 0;
  }
}

// Of a chain for which there is room, and which has its numbers.
inline np_status post(np_endpoint& endpoint, Queue& queue, ibv_send_wr& first) {
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(queue.pair.get(), &first, &bad);
  return error == 0 ? NP_OK : failed(endpoint, "ibv_post_send", error);
}

// One work request. must: it asks for a completion.
inline np_status start(np_endpoint& endpoint, Queue& queue, ibv_send_wr& request, bool must) {
  if (const np_status s = room_for(endpoint, queue, 1); s != NP_OK) return s;
  number(endpoint, queue, request, must);
  return post(endpoint, queue, request);
}

inline np_status post_receive(np_endpoint& endpoint, Queue& queue, ibv_recv_wr& request) {
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(queue.pair.get(), &request, &bad);
  return error == 0 ? NP_OK : failed(endpoint, "ibv_post_recv", error);
}

inline unsigned inlined(const np_endpoint& endpoint, size_t bytes) {
  return static_cast<int64_t>(bytes) <= endpoint.set.inline_most ? unsigned{IBV_SEND_INLINE} : 0U;
}

}  // namespace netpipe::verbs
