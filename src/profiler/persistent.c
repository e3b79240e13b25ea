/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that are set up once and started many times, and calls that use a request and leave it as it is.
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

/* A call that leaves the request as it is. Its bytes are those of the start, and of the wait. */
static inline void used(int call, MPI_Request request, int traced, uint64_t begin, uint64_t end) {
  if (!lock_profile()) return;
  const struct transfer* const transfer = find_transfer(request_bits(request));
  const int known = transfer != NULL && transfer->active;
  const uint16_t communicator = known ? transfer->communicator : 0;
  const int32_t peer = known ? transfer->peer : PEER_NONE;
  count(call, communicator, peer, 0, begin, end);
  if (traced) trace(call, communicator, peer, 0, 0, begin, end, 0);
  unlock_profile();
}

#if MPI_VERSION >= 2
/* What found the transfer complete is still the wait that comes. As a probe it is not in the trace: a loop of them
 * would fill it. */
WRAPPER(Request_get_status)(MPI_Request request, int* flag, MPI_Status* status) {
  const uint64_t begin = enter();
  const int result = PMPI_Request_get_status(request, flag, status);
  if (counts(begin, result)) used(CALL_Request_get_status, request, 0, begin, returned());
  leave();
  return result;
}
#endif

/* ------------------------------------------------------------------------------------------- partitioned messages */

#if HAS_MPI_4
/* A persistent message, whose start has all of its bytes whenever its partitions leave. */
#define SETS_UP_PARTITIONED(Name, BUFFER, as)                                                                   \
  WRAPPER(Name)(BUFFER void* buffer, int partitions, MPI_Count elements, MPI_Datatype type, int other, int tag, \
                MPI_Comm comm, MPI_Info info, MPI_Request* request) {                                           \
    const uint64_t begin = enter();                                                                             \
    const int result = PMPI_##Name(buffer, partitions, elements, type, other, tag, comm, info, request);        \
    const uint64_t end = begin != 0 ? returned() : 0;                                                           \
    if (counts(begin, result) && lock_profile()) {                                                              \
      const uint16_t communicator = index_of(comm);                                                             \
      const struct transfer transfer = {.start = as,                                                            \
                                        .bytes = bytes_of((uint64_t)partitions * (uint64_t)elements, type),     \
                                        .peer = peer_of(communicator, other),                                   \
                                        .tag = tag,                                                             \
                                        .communicator = communicator,                                           \
                                        .buffer = buffer};                                                      \
      profiler.partitioned = 1;                                                                                 \
      profiler_set_up(CALL_##Name, transfer, *request, begin, end);                                             \
      unlock_profile();                                                                                         \
    }                                                                                                           \
    leave();                                                                                                    \
    return result;                                                                                              \
  }
SETS_UP_PARTITIONED(Psend_init, const, CALL_Start_send)
#define NOTHING
SETS_UP_PARTITIONED(Precv_init, NOTHING, CALL_Start_recv)

#define USES_REQUEST(Name, as, traced, declared, given)                             \
  WRAPPER(Name) declared {                                                          \
    const uint64_t begin = enter();                                                 \
    const int result = PMPI_##Name given;                                           \
    if (counts(begin, result)) used(CALL_##as, request, traced, begin, returned()); \
    leave();                                                                        \
    return result;                                                                  \
  }
USES_REQUEST(Pready, Pready, 1, (int partition, MPI_Request request), (partition, request))
USES_REQUEST(Pready_range, Pready, 1, (int low, int high, MPI_Request request), (low, high, request))
USES_REQUEST(Parrived, Parrived, 0, (MPI_Request request, int partition, int* flag), (request, partition, flag))

/* Whether the list is const differs from library to library (MPICH 4.0, Open MPI 5: it is not), so the compiler knows
 * this function by a name of its own, which no header declares. */
WEAK(PMPI_Pready_list)
// NOLINTNEXTLINE(misc-use-internal-linkage)
EXPORT int profiler_pready_list(int length, const int* partitions, MPI_Request request) __asm__("MPI_Pready_list");
int profiler_pready_list(int length, const int* partitions, MPI_Request request) {
  const uint64_t begin = enter();
  const int result = PMPI_Pready_list(length, (int*)partitions, request);
  if (counts(begin, result)) used(CALL_Pready, request, 1, begin, returned());
  leave();
  return result;
}
#endif

/* ------------------------------------------------------------------------------------------------- without a wait */

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
