/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that are set up once and started many times.
 */
#include "record.h"

void profiler_set_up(int call, struct transfer transfer, MPI_Request request, uint64_t begin, uint64_t end) {
  record(call, transfer.communicator, transfer.peer, transfer.tag, transfer.bytes, begin, end);
  transfer.entry = NO_ENTRY;
  started(request, transfer);
}

/* One of the requests that a call has started. The first of them has the time. */
static inline void restarted(MPI_Request request, uint64_t begin, uint64_t end, uint64_t counted_from) {
  struct transfer* const transfer = find_transfer(request_bits(request));
  if (transfer == NULL || transfer->start == 0) return;
  transfer->entry = count(transfer->start, transfer->communicator, transfer->peer, transfer->bytes, counted_from, end);
  transfer->number = ++profiler.transfer_number;
  transfer->active = 1;
  trace(transfer->start, transfer->communicator, transfer->peer, transfer->tag, transfer->bytes, begin, end,
        transfer->number);
  touch(transfer->buffer, transfer->bytes);
}

static inline void restarted_all(int many, const MPI_Request* requests, uint64_t begin, uint64_t end) {
  if (!lock_profile()) return;
  for (int i = 0; i < many; ++i) restarted(requests[i], begin, end, i == 0 ? begin : end);
  unlock_profile();
}

WRAPPER(Start)(MPI_Request* request) {
  const uint64_t begin = enter();
  const int result = PMPI_Start(request);
  if (counts(begin, result)) restarted_all(1, request, begin, returned());
  leave();
  return result;
}

WRAPPER(Startall)(int many, MPI_Request* requests) {
  const uint64_t begin = enter();
  const int result = PMPI_Startall(many, requests);
  if (counts(begin, result)) restarted_all(many, requests, begin, returned());
  leave();
  return result;
}

/* A request that nobody will wait for. */
WRAPPER(Request_free)(MPI_Request* request) {
  if (enter() != 0 && lock_profile()) {
    struct transfer* const transfer = find_transfer(request_bits(*request));
    if (transfer != NULL) drop_transfer(transfer);
    unlock_profile();
  }
  const int result = PMPI_Request_free(request);
  leave();
  return result;
}

WRAPPER(Cancel)(MPI_Request* request) {
  const uint64_t begin = enter();
  const uintptr_t handle = begin != 0 ? request_bits(*request) : 0;
  const int result = PMPI_Cancel(request);
  const uint64_t end = begin != 0 ? returned() : 0;
  if (counts(begin, result) && lock_profile()) {
    const struct transfer* const transfer = find_transfer(handle);
    count(CALL_Cancel, transfer != NULL ? transfer->communicator : 0, PEER_NONE, 0, begin, end);
    unlock_profile();
  }
  leave();
  return result;
}
