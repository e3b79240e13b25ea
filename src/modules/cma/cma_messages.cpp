// SPDX-License-Identifier: Apache-2.0
// Messages of cma. A blocking call with nothing else to do is one publication and one wait, or one wait and one copy;
// everything else goes through the queues.
#include <cerrno>
#include <cstring>

#include "cma_endpoint.h"

using namespace netpipe::cma;  // NOLINT(google-build-using-namespace): np_endpoint's own
using netpipe::fd_io::fail;

namespace {

void put_slot(Link& with, void* data, size_t bytes) {
  const uint64_t number = ++with.published;
  with.out->slots[number % kSlots] = {reinterpret_cast<uint64_t>(data), bytes};
  with.out->published.store(number, std::memory_order_release);
}

}  // namespace

np_status np_endpoint::publish(Link& with, void* data, size_t bytes) {
  if (pending != 0 || status != NP_OK) return queued(with, true, data, bytes);
  put_slot(with, data, bytes);
  waiter.ring(*with.member);
  const uint64_t number = with.published;
  for (Waiter::Turns turns(waiter); with.out->copied.load(std::memory_order_acquire) < number;) {
    if (const np_status s = waiter.idle(turns, [&] { return has_ended(with); }); s != NP_OK) {
      if (s == NP_PEER_LOST && with.out->copied.load(std::memory_order_acquire) >= number) break;
      return gave_up(with, s);
    }
  }
  return NP_OK;
}

np_status np_endpoint::copy(Link& with, void* data, size_t bytes) {
  if (pending != 0 || status != NP_OK) return queued(with, false, data, bytes);
  for (Waiter::Turns turns(waiter); with.in->published.load(std::memory_order_acquire) <= with.copied;) {
    if (const np_status s = waiter.idle(turns, [&] { return has_ended(with); }); s != NP_OK) return gave_up(with, s);
  }
  return copy_one(with, data, bytes);
}

// What is published next.
np_status np_endpoint::copy_one(Link& with, void* data, size_t bytes) {
  const Slot slot = with.in->slots[(with.copied + 1) % kSlots];
  if (slot.bytes != bytes) {
    status = NP_FAILED;
    return fail(context, status, "cma: rank %d has a message of %llu bytes where rank %d has one of %zu", with.peer,
                static_cast<unsigned long long>(slot.bytes), context->rank, bytes);
  }
  if (bytes != 0) {
    if (const np_status s = move(way, with, data, slot.address, bytes); s != NP_OK) return s;
  }
  with.in->copied.store(++with.copied, std::memory_order_release);
  waiter.ring(*with.member);
  return NP_OK;
}

np_status np_endpoint::queued(Link& with, bool publishes, void* data, size_t bytes) {
  if (const np_status s = usable(); s != NP_OK) return s;
  np_request request{};
  const bool sends = publishes == (way == Way::read);
  if (const np_status s = start(with.peer, sends, data, bytes, &request); s != NP_OK) return s;
  return finish(&request);
}

np_status np_endpoint::start(int peer, bool sends, void* data, size_t bytes, np_request* request) {
  if (const np_status s = usable(); s != NP_OK) return s;
  Link& with = link(peer);
  request->word[kLeft] = 1;
  request->word[kData] = reinterpret_cast<uint64_t>(data);
  request->word[kBytes] = bytes;
  request->word[kPeer] = static_cast<uint64_t>(peer);
  ++pending;
  if (sends == (way == Way::read)) {
    with.publishing.add(request);
    if (with.unpublished == nullptr) with.unpublished = request;
    return advance(with);  // publishes it where there is a slot: the other rank need not wait until this one waits
  }
  with.copying.add(request);
  return NP_OK;
}

// Moves what can be moved between this rank and one other.
np_status np_endpoint::advance(Link& with) {
  const uint64_t copied = with.out->copied.load(std::memory_order_acquire);
  bool rings = false;
  while (with.unpublished != nullptr && with.published - copied < kSlots) {
    np_request* const request = with.unpublished;
    put_slot(with, reinterpret_cast<void*>(request->word[kData]), request->word[kBytes]);  // NOLINT
    request->word[kNumber] = with.published;
    with.unpublished = Queue::next(request);
    rings = true;
  }
  if (rings) waiter.ring(*with.member);
  while (with.publishing.first != nullptr && with.publishing.first != with.unpublished &&
         with.publishing.first->word[kNumber] <= copied) {
    np_request* const request = with.publishing.first;
    with.publishing.drop();
    complete(request);
  }
  while (with.copying.first != nullptr && with.in->published.load(std::memory_order_acquire) > with.copied) {
    np_request* const request = with.copying.first;
    void* const data = reinterpret_cast<void*>(request->word[kData]);  // NOLINT(performance-no-int-to-ptr)
    if (const np_status s = copy_one(with, data, request->word[kBytes]); s != NP_OK) return s;
    with.copying.drop();
    complete(request);
  }
  return NP_OK;
}

np_status np_endpoint::advance_all() {
  for (Link& with : links) {
    if (with.publishing.first == nullptr && with.copying.first == nullptr) continue;
    if (const np_status s = advance(with); s != NP_OK) return s;
  }
  return NP_OK;
}

void np_endpoint::complete(np_request* request) {
  request->word[kLeft] = 0;
  --pending;
}

np_status np_endpoint::finish(np_request* request) {
  if (request->word[kLeft] == 0) return NP_OK;
  if (const np_status s = usable(); s != NP_OK) return s;
  Link& with = link(static_cast<int>(request->word[kPeer]));
  for (Waiter::Turns turns(waiter);;) {
    if (const np_status s = advance_all(); s != NP_OK) return s;
    if (request->word[kLeft] == 0) return NP_OK;
    if (const np_status s = waiter.idle(turns, [&] { return has_ended(with); }); s != NP_OK) {
      if (s == NP_PEER_LOST && advance_all() == NP_OK && request->word[kLeft] == 0) return NP_OK;
      return gave_up(with, s);
    }
  }
}

np_status np_endpoint::look(np_request* request) {
  if (request->word[kLeft] == 0) return NP_OK;
  if (const np_status s = usable(); s != NP_OK) return s;
  if (*context->abort != 0) return gave_up(link(static_cast<int>(request->word[kPeer])), NP_ABORTED);
  if (const np_status s = advance_all(); s != NP_OK) return s;
  return request->word[kLeft] == 0 ? NP_OK : NP_PENDING;
}

// All tell rank 0 that they are here, and it tells all. What is under way moves meanwhile.
np_status np_endpoint::barrier() {
  if (const np_status s = usable(); s != NP_OK) return s;
  const uint64_t number = ++barriers;
  const auto wait_for = [&](Link& with) -> np_status {
    for (Waiter::Turns turns(waiter); with.member->barriers.load(std::memory_order_acquire) < number;) {
      if (pending != 0) {
        if (const np_status s = advance_all(); s != NP_OK) return s;
      }
      if (const np_status s = waiter.idle(turns, [&] { return has_ended(with); }); s != NP_OK) {
        if (s == NP_PEER_LOST && with.member->barriers.load(std::memory_order_acquire) >= number) break;
        return gave_up(with, s);
      }
    }
    return NP_OK;
  };
  const auto come = [&] {
    segment.member(context->rank).barriers.store(number, std::memory_order_release);
    for (Link& with : links) {
      if (with.peer >= 0 && (context->rank == 0 || with.peer == 0)) waiter.ring(*with.member);
    }
  };
  if (context->rank != 0) {
    come();
    return wait_for(link(0));
  }
  for (int peer = 1; peer < context->nranks; ++peer) {
    if (const np_status s = wait_for(link(peer)); s != NP_OK) return s;
  }
  come();
  return NP_OK;
}

np_status np_endpoint::usable() const {
  if (status == NP_OK) return NP_OK;
  return fail(context, status, "cma: an earlier transfer of rank %d failed", context->rank);
}

// The requests belong to callers who may free them from here on.
np_status np_endpoint::gave_up(const Link& with, np_status why) {
  for (Link& each : links) {
    each.publishing = each.copying = {};
    each.unpublished = nullptr;
  }
  pending = 0;
  status = why;
  if (why == NP_PEER_LOST) {
    return fail(context, why, "cma: rank %d has gone; its own error says why", with.peer);
  }
  return fail(context, why, "cma: rank %d gave up while it waited for rank %d", context->rank, with.peer);
}

np_status np_endpoint::broken(const Link& with, int error) {
  if (error == ESRCH) return gave_up(with, NP_PEER_LOST);
  gave_up(with, NP_FAILED);
  return fail(context, NP_FAILED, "cma: copying between rank %d and process %d of rank %d failed: %s", context->rank,
              with.pid, with.peer, std::strerror(error));
}
