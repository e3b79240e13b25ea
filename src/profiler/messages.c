/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between two ranks: blocking, started, and persistent ones.
 */
#include "record.h"

OFTEN void sent(int call, const void* buffer, COUNT elements, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                uint64_t begin, uint64_t end) {
  if (!lock_profile()) return;
  const uint16_t communicator = index_of(comm);
  const uint64_t bytes = bytes_of((uint64_t)elements, type);
  record(call, communicator, peer_of(communicator, to), tag, bytes, begin, end);
  touch(buffer, bytes);
  unlock_profile();
}

#define SEND(Name)                                                                                          \
  WRAPPER(Name)(IN void* buffer, COUNT elements, MPI_Datatype type, int to, int tag, MPI_Comm comm) {       \
    const uint64_t begin = enter();                                                                         \
    const int result = REAL(Name)(buffer, elements, type, to, tag, comm);                                   \
    if (counts(begin, result)) sent(CALL_##Name, buffer, elements, type, to, tag, comm, begin, returned()); \
    leave();                                                                                                \
    return result;                                                                                          \
  }
SEND(Send)
SEND(Ssend)
SEND(Bsend)
SEND(Rsend)

/* A receive that named no source has PEER_ANY in its entry, and in its event the rank that sent. */
OFTEN void received(int call, const void* buffer, uint64_t bytes, int from, int tag, uint16_t communicator,
                    const MPI_Status* status, uint64_t begin, uint64_t end) {
  count(call, communicator, peer_of(communicator, from), bytes, begin, end);
  trace(call, communicator, peer_of(communicator, from == MPI_ANY_SOURCE ? status->MPI_SOURCE : from),
        tag == MPI_ANY_TAG ? status->MPI_TAG : tag, bytes, begin, end, 0);
  touch(buffer, bytes);
}

WRAPPER(Recv)(void* buffer, COUNT elements, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status) {
  const uint64_t begin = enter();
  MPI_Status own;
  MPI_Status* const seen = begin != 0 && status == MPI_STATUS_IGNORE ? &own : status;
  const int result = REAL(Recv)(buffer, elements, type, from, tag, comm, seen);
  const uint64_t end = begin != 0 ? returned() : 0;
  if (counts(begin, result) && lock_profile()) {
    received(CALL_Recv, buffer, bytes_of((uint64_t)elements, type), from, tag, index_of(comm), seen, begin, end);
    unlock_profile();
  }
  leave();
  return result;
}

/* ------------------------------------------------------------------------------------- sending and receiving at once
 */

/* The receiving half of such a call: it has no time of its own. `request`: whose end tells who sent; 0: none. */
OFTEN void half(COUNT elements, MPI_Datatype type, const void* buffer, int from, int tag, int source, int real_tag,
                uint16_t communicator, uint64_t begin, uint64_t end, uint64_t request) {
  const uint64_t bytes = bytes_of((uint64_t)elements, type);
  if (profiler.phase != 0)
    profiler.entries[entry_of(CALL_Sendrecv_recv, communicator, peer_of(communicator, from), bytes)].calls++;
  trace(CALL_Sendrecv_recv, communicator, peer_of(communicator, from == MPI_ANY_SOURCE ? source : from),
        tag == MPI_ANY_TAG ? real_tag : tag, bytes, begin, end, request);
  touch(buffer, bytes);
}

OFTEN void both_ways(int call, const void* out, COUNT out_count, MPI_Datatype out_type, int to, int out_tag,
                     const void* in, COUNT in_count, MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm,
                     const MPI_Status* status, uint64_t begin, uint64_t end) {
  if (!lock_profile()) return;
  const uint64_t bytes = bytes_of((uint64_t)out_count, out_type);
  const uint16_t communicator = index_of(comm);
  record(call, communicator, peer_of(communicator, to), out_tag, bytes, begin, end);
  touch(out, bytes);
  half(in_count, in_type, in, from, in_tag, status->MPI_SOURCE, status->MPI_TAG, communicator, begin, end, 0);
  unlock_profile();
}

WRAPPER(Sendrecv)(IN void* out, COUNT out_count, MPI_Datatype out_type, int to, int out_tag, void* in, COUNT in_count,
                  MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm, MPI_Status* status) {
  const uint64_t begin = enter();
  MPI_Status own;
  MPI_Status* const seen = begin != 0 && status == MPI_STATUS_IGNORE ? &own : status;
  const int result =
      REAL(Sendrecv)(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag, comm, seen);
  if (counts(begin, result)) {
    both_ways(CALL_Sendrecv, out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag, comm, seen,
              begin, returned());
  }
  leave();
  return result;
}

WRAPPER(Sendrecv_replace)(void* buffer, COUNT elements, MPI_Datatype type, int to, int out_tag, int from, int in_tag,
                          MPI_Comm comm, MPI_Status* status) {
  const uint64_t begin = enter();
  MPI_Status own;
  MPI_Status* const seen = begin != 0 && status == MPI_STATUS_IGNORE ? &own : status;
  const int result = REAL(Sendrecv_replace)(buffer, elements, type, to, out_tag, from, in_tag, comm, seen);
  if (counts(begin, result)) {
    both_ways(CALL_Sendrecv_replace, buffer, elements, type, to, out_tag, buffer, elements, type, from, in_tag, comm,
              seen, begin, returned());
  }
  leave();
  return result;
}

/* ----------------------------------------------------------------------------------------------- started messages */

OFTEN void begun(int call, const void* buffer, COUNT elements, MPI_Datatype type, int other, int tag,
                 uint16_t communicator, MPI_Request request, uint64_t begin, uint64_t end) {
  const uint64_t bytes = bytes_of((uint64_t)elements, type);
  const int32_t peer = peer_of(communicator, other);
  const uint32_t entry = count(call, communicator, peer, bytes, begin, end);
  const uint64_t number = started(
      request,
      (struct transfer){.entry = entry, .bytes = bytes, .peer = peer, .tag = tag, .communicator = communicator});
  trace(call, communicator, peer, tag, bytes, begin, end, number);
  touch(buffer, bytes);
}

#define STARTS_MESSAGE(Name, BUFFER)                                                                       \
  WRAPPER(Name)(BUFFER void* buffer, COUNT elements, MPI_Datatype type, int other, int tag, MPI_Comm comm, \
                MPI_Request* request) {                                                                    \
    const uint64_t begin = enter();                                                                        \
    const int result = REAL(Name)(buffer, elements, type, other, tag, comm, request);                      \
    const uint64_t end = begin != 0 ? returned() : 0;                                                      \
    if (counts(begin, result) && lock_profile()) {                                                         \
      begun(CALL_##Name, buffer, elements, type, other, tag, index_of(comm), *request, begin, end);        \
      unlock_profile();                                                                                    \
    }                                                                                                      \
    leave();                                                                                               \
    return result;                                                                                         \
  }
#define NOTHING
STARTS_MESSAGE(Isend, IN)
STARTS_MESSAGE(Issend, IN)
STARTS_MESSAGE(Ibsend, IN)
STARTS_MESSAGE(Irsend, IN)
STARTS_MESSAGE(Irecv, NOTHING)

#if HAS_MPI_4
/* Whether the status of such a request is that of the receive, which tells who sent. MPICH (4.0 to 5.0) leaves it as it
 * was. */
#ifdef OPEN_MPI
enum { STATUS_OF_RECEIVE = 1 };
#else
enum { STATUS_OF_RECEIVE = 0 };
#endif

/* Its one request stands for both halves, and is followed as the receive where its end tells more of that. */
OFTEN void both_begun(int call, const void* out, COUNT out_count, MPI_Datatype out_type, int to, int out_tag,
                      const void* in, COUNT in_count, MPI_Datatype in_type, int from, int in_tag, uint16_t communicator,
                      MPI_Request request, uint64_t begin, uint64_t end) {
  const uint64_t bytes = bytes_of((uint64_t)out_count, out_type);
  const int32_t peer = peer_of(communicator, to);
  const uint32_t entry = count(call, communicator, peer, bytes, begin, end);
  const uint64_t number =
      started(request, (struct transfer){.entry = entry,
                                         .bytes = bytes,
                                         .peer = STATUS_OF_RECEIVE ? peer_of(communicator, from) : peer,
                                         .tag = STATUS_OF_RECEIVE ? in_tag : out_tag,
                                         .communicator = communicator});
  trace(call, communicator, peer, out_tag, bytes, begin, end, number);
  touch(out, bytes);
  half(in_count, in_type, in, from, in_tag, MPI_ANY_SOURCE, MPI_ANY_TAG, communicator, begin, end,
       STATUS_OF_RECEIVE ? number : 0);
}

#define STARTS_BOTH(Name, declared, given, out, to, in_count, in_type, in, from, in_tag)                         \
  WRAPPER(Name) declared {                                                                                       \
    const uint64_t begin = enter();                                                                              \
    const int result = REAL(Name) given;                                                                         \
    const uint64_t end = begin != 0 ? returned() : 0;                                                            \
    if (counts(begin, result) && lock_profile()) {                                                               \
      both_begun(CALL_##Name, out, elements, type, to, tag, in, in_count, in_type, from, in_tag, index_of(comm), \
                 *request, begin, end);                                                                          \
      unlock_profile();                                                                                          \
    }                                                                                                            \
    leave();                                                                                                     \
    return result;                                                                                               \
  }
STARTS_BOTH(Isendrecv,
            (const void* out, COUNT elements, MPI_Datatype type, int to, int tag, void* in, COUNT in_count,
             MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm, MPI_Request* request),
            (out, elements, type, to, tag, in, in_count, in_type, from, in_tag, comm, request), out, to, in_count,
            in_type, in, from, in_tag)
STARTS_BOTH(Isendrecv_replace,
            (void* buffer, COUNT elements, MPI_Datatype type, int to, int tag, int from, int in_tag, MPI_Comm comm,
             MPI_Request* request),
            (buffer, elements, type, to, tag, from, in_tag, comm, request), buffer, to, elements, type, buffer, from,
            in_tag)
#endif

/* ----------------------------------------------------------------------------------- messages that were probed for */

#if MPI_VERSION >= 3
WRAPPER(Mrecv)(void* buffer, COUNT elements, MPI_Datatype type, MPI_Message* message, MPI_Status* status) {
  const uint64_t begin = enter();
  const uintptr_t handle = begin != 0 ? BITS_OF(*message) : 0;
  MPI_Status own;
  MPI_Status* const seen = begin != 0 && status == MPI_STATUS_IGNORE ? &own : status;
  const int result = REAL(Mrecv)(buffer, elements, type, message, seen);
  const uint64_t end = begin != 0 ? returned() : 0;
  if (counts(begin, result) && lock_profile()) {
    const struct probed was = profiler_take_probed(handle);
    received(CALL_Mrecv, buffer, bytes_of((uint64_t)elements, type), was.from, MPI_ANY_TAG, was.communicator, seen,
             begin, end);
    unlock_profile();
  }
  leave();
  return result;
}

WRAPPER(Imrecv)(void* buffer, COUNT elements, MPI_Datatype type, MPI_Message* message, MPI_Request* request) {
  const uint64_t begin = enter();
  const uintptr_t handle = begin != 0 ? BITS_OF(*message) : 0;
  const int result = REAL(Imrecv)(buffer, elements, type, message, request);
  const uint64_t end = begin != 0 ? returned() : 0;
  if (counts(begin, result) && lock_profile()) {
    const struct probed was = profiler_take_probed(handle);
    begun(CALL_Imrecv, buffer, elements, type, was.from, was.tag, was.communicator, *request, begin, end);
    unlock_profile();
  }
  leave();
  return result;
}
#endif

/* --------------------------------------------------------------------------------------------- persistent requests */

#define SETS_UP_MESSAGE(Name, BUFFER, as)                                                                  \
  WRAPPER(Name)(BUFFER void* buffer, COUNT elements, MPI_Datatype type, int other, int tag, MPI_Comm comm, \
                MPI_Request* request) {                                                                    \
    const uint64_t begin = enter();                                                                        \
    const int result = REAL(Name)(buffer, elements, type, other, tag, comm, request);                      \
    const uint64_t end = begin != 0 ? returned() : 0;                                                      \
    if (counts(begin, result) && lock_profile()) {                                                         \
      const uint16_t communicator = index_of(comm);                                                        \
      const struct transfer transfer = {.start = as,                                                       \
                                        .bytes = bytes_of((uint64_t)elements, type),                       \
                                        .peer = peer_of(communicator, other),                              \
                                        .tag = tag,                                                        \
                                        .communicator = communicator,                                      \
                                        .buffer = buffer};                                                 \
      profiler_set_up(CALL_##Name, transfer, *request, begin, end);                                        \
      unlock_profile();                                                                                    \
    }                                                                                                      \
    leave();                                                                                               \
    return result;                                                                                         \
  }
SETS_UP_MESSAGE(Send_init, IN, CALL_Start_send)
SETS_UP_MESSAGE(Ssend_init, IN, CALL_Start_send)
SETS_UP_MESSAGE(Bsend_init, IN, CALL_Start_send)
SETS_UP_MESSAGE(Rsend_init, IN, CALL_Start_send)
SETS_UP_MESSAGE(Recv_init, NOTHING, CALL_Start_recv)
