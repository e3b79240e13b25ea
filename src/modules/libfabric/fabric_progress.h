// SPDX-License-Identifier: Apache-2.0
// How libfabric is made to move: completions are taken, and whoever waits does so here. Everything that is timed comes
// through this file, so it is inline.
#pragma once

#include <sched.h>

#include <cstdint>

#include "fabric_endpoint.h"

namespace netpipe::fabric {

constexpr size_t kBatch = 8;  // completions that are taken at once
constexpr uint64_t kLookForErrors = 256;
constexpr uint64_t kBarrierSignal = uint64_t{1} << 63;  // in the remote completion data
constexpr size_t kSignals = 4096;                       // of one peer, that nobody awaited yet

inline np_request* request_of(void* context) { return static_cast<np_request*>(context); }

// What broke it and who may have gone; leaves the sentence. error: positive, of fi_errno.h.
np_status broken(np_endpoint& endpoint, int error, const char* what);
// The entry of the error that a completion queue or counter told of.
np_status broken_completion(np_endpoint& endpoint, ssize_t code);
np_status aborted(np_endpoint& endpoint);
// A message of another size, a stranger's, a late one: takes it, or keeps it for its receive.
void take_datagram(np_endpoint& endpoint, Datagram& datagram, size_t bytes);
void take_signal(np_endpoint& endpoint, uint64_t data);

inline Slot* take_slot(np_endpoint& endpoint) {
  Slot* slot = endpoint.free_slot;
  if (slot != nullptr) endpoint.free_slot = slot->next;
  return slot;
}
inline void give_slot(np_endpoint& endpoint, Slot* slot) {
  slot->next = endpoint.free_slot;
  endpoint.free_slot = slot;
}

inline void take(np_endpoint& endpoint, const fi_cq_data_entry& entry) {
  if ((entry.flags & FI_REMOTE_CQ_DATA) != 0) [[unlikely]] {
    take_signal(endpoint, entry.data);
    return;
  }
  np_request* request = request_of(entry.op_context);
  if (request == nullptr) [[unlikely]]
    return;
  request->word[kState] = kDone;
  if (request->word[kKind] == kOwned) return;
  if (request->word[kKind] == kPooled) {
    Slot* slot = reinterpret_cast<Slot*>(request);
    --endpoint.peers[static_cast<size_t>(slot->peer)].transfers;
    give_slot(endpoint, slot);
  } else {
    take_datagram(endpoint, *reinterpret_cast<Datagram*>(request), entry.len);
  }
}

// Takes what has completed. How many; -1: it is broken.
inline int taken(np_endpoint& endpoint, const fi_cq_data_entry* entries, ssize_t count) {
  if (count > 0) {
    for (ssize_t i = 0; i < count; ++i) take(endpoint, entries[i]);
    return static_cast<int>(count);
  }
  if (count == -FI_EAGAIN || count == 0 || count == -FI_EINTR || count == -FI_ETIMEDOUT) return 0;
  broken_completion(endpoint, count);
  return endpoint.status == NP_OK ? 0 : -1;
}
inline int drain(np_endpoint& endpoint) {
  fi_cq_data_entry entries[kBatch];
  return taken(endpoint, entries, fi_cq_read(endpoint.queue.get(), entries, kBatch));
}
inline int sleep_and_drain(np_endpoint& endpoint, int64_t sleep_ns) {
  fi_cq_data_entry entries[kBatch];
  const int ms = static_cast<int>(std::min<int64_t>(sleep_ns / 1'000'000 + 1, fd_io::kAbortSliceMs));
  return taken(endpoint, entries, fi_cq_sread(endpoint.queue.get(), entries, kBatch, nullptr, ms));
}

// Polls, yields or sleeps until done() says so. deadline_ns: when to return NP_LOST; 0: never.
template <typename Done>
np_status await(np_endpoint& endpoint, Done done, int64_t deadline_ns = 0) {
  int64_t sleep_at_ns = 0;
  bool sleep = endpoint.wait == Wait::block;
  while (!done()) {
    if (endpoint.status != NP_OK) return endpoint.status;
    if (*endpoint.context->abort != 0) return aborted(endpoint);
    int64_t left_ns = INT64_MAX;
    if (deadline_ns != 0) {
      left_ns = deadline_ns - now_ns();
      if (left_ns <= 0) return NP_LOST;
    }
    const int found = sleep ? sleep_and_drain(endpoint, left_ns) : drain(endpoint);
    if (found < 0) return endpoint.status;
    if (found > 0) {
      sleep_at_ns = 0;
      sleep = endpoint.wait == Wait::block;
      continue;
    }
    if (sleep) continue;
    ++endpoint.counts.empty_polls;
    if (endpoint.context->oversubscribed != 0) sched_yield();
    if (endpoint.wait == Wait::hybrid) {
      const int64_t now = now_ns();
      if (sleep_at_ns == 0) sleep_at_ns = now + endpoint.spin_ns;
      sleep = now >= sleep_at_ns;
      endpoint.counts.sleeps += sleep ? 1 : 0;
    }
  }
  return NP_OK;
}

// Until a counter has reached this number.
inline np_status await_count(np_endpoint& endpoint, const Counter& counter, uint64_t wanted) {
  fid_cntr* const fid = counter.fid.get();
  int64_t sleep_at_ns = 0;
  bool sleep = endpoint.wait == Wait::block;
  for (uint64_t polls = 1; fi_cntr_read(fid) < wanted; ++polls) {
    if (endpoint.status != NP_OK) return endpoint.status;
    if (*endpoint.context->abort != 0) return aborted(endpoint);
    if (sleep || polls % kLookForErrors == 0) {
      if (drain(endpoint) < 0) return endpoint.status;
      if (fi_cntr_readerr(fid) != 0) return broken(endpoint, FI_EIO, "an operation");
    }
    if (sleep) {
      fi_cntr_wait(fid, wanted, fd_io::kAbortSliceMs);  // whatever it says: the next round finds out
      continue;
    }
    ++endpoint.counts.empty_polls;
    if (endpoint.context->oversubscribed != 0) sched_yield();
    if (endpoint.wait == Wait::hybrid) {
      const int64_t now = now_ns();
      if (sleep_at_ns == 0) sleep_at_ns = now + endpoint.spin_ns;
      sleep = now >= sleep_at_ns;
      endpoint.counts.sleeps += sleep ? 1 : 0;
    }
  }
  return NP_OK;
}

// Posts until the provider has room: 0 from attempt() means that it took it.
template <typename Attempt>
np_status post(np_endpoint& endpoint, const char* what, Attempt attempt) {
  for (;;) {
    const ssize_t code = attempt();
    if (code == 0) [[likely]]
      return NP_OK;
    if (code != -FI_EAGAIN) return broken(endpoint, static_cast<int>(-code), what);
    if (endpoint.status != NP_OK) return endpoint.status;
    if (*endpoint.context->abort != 0) return aborted(endpoint);
    ++endpoint.counts.retries;
    const int found = drain(endpoint);
    if (found < 0) return endpoint.status;
    // Room has no completion of its own to sleep for.
    if (found == 0 && (endpoint.context->oversubscribed != 0 || endpoint.wait == Wait::block)) sched_yield();
  }
}

// A free slot, with its peer; waits for one to complete if all are in flight.
inline np_status new_slot(np_endpoint& endpoint, int peer, Slot*& slot) {
  slot = take_slot(endpoint);
  if (slot == nullptr) [[unlikely]] {
    const np_status status = await(endpoint, [&] { return (slot = take_slot(endpoint)) != nullptr; });
    if (status != NP_OK) return status;
  }
  slot->peer = peer;
  slot->request.word[kState] = kPending;
  slot->request.word[kKind] = kPooled;
  ++endpoint.peers[static_cast<size_t>(peer)].transfers;
  return NP_OK;
}

}  // namespace netpipe::fabric
