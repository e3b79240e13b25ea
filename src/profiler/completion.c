/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that wait for transfers, or look for them. A wait first tests, so that it is known whether the transfer was
 * complete when the rank came to wait for it; of a wait for several, whether all were.
 */
#include <stdlib.h>

#include "record.h"

WEAK(PMPI_Test)
WEAK(PMPI_Testall)
WEAK(PMPI_Testany)
WEAK(PMPI_Testsome)

enum { AT_ONCE = 64 }; /* requests whose handles and statuses are kept on the stack */

/* What a call has to remember of its requests, because it resets them. */
struct waited {
  int many;
  uintptr_t* handles;   /* NULL: no memory */
  MPI_Status* statuses; /* those of the application, or ours where they are needed; NULL: nobody wants them */
  uintptr_t few_handles[AT_ONCE];
  MPI_Status few_statuses[AT_ONCE];
};

/* A trace names the senders of receives that named none, so it needs statuses. `ignored` is what stands for none. */
static inline void remember(struct waited* waited, int many, const MPI_Request* requests, MPI_Status* statuses,
                            MPI_Status* ignored) {
  waited->many = many;
  waited->handles = many <= AT_ONCE ? waited->few_handles : malloc((size_t)many * sizeof(uintptr_t));
  waited->statuses = statuses;
  if (statuses == ignored) {
    waited->statuses = NULL;
    if (profiler.tracing)
      waited->statuses = many <= AT_ONCE ? waited->few_statuses : malloc((size_t)many * sizeof(MPI_Status));
  }
  for (int i = 0; waited->handles != NULL && i < many; ++i) waited->handles[i] = request_bits(requests[i]);
}

static inline void release(struct waited* waited, const MPI_Status* given) {
  if (waited->many <= AT_ONCE) return;
  free(waited->handles);
  if (waited->statuses != given) free(waited->statuses);
}

/* One transfer that a call has completed; the call is counted by who asks. A receive that named no source learns it. */
static inline uint64_t finish(int call, struct transfer* transfer, const MPI_Status* status, int was_done,
                              uint64_t begin, uint64_t end) {
  const struct transfer was = completed(transfer, was_done);
  if (was.handle == 0) return 0;
  if (UNLIKELY(profiler.tracing)) {
    trace(call, was.communicator,
          was.peer == PEER_ANY && status != NULL ? peer_of(was.communicator, status->MPI_SOURCE) : was.peer,
          was.tag == MPI_ANY_TAG && status != NULL ? status->MPI_TAG : was.tag, was.bytes, begin, end, was.number);
  }
  return was.bytes;
}

/* After a call that completed all requests, or those with `some` indices in `which`. */
static void finish_all(int call, struct waited* waited, const int* which, int some, int was_done, uint64_t begin,
                       uint64_t end) {
  uint64_t bytes = 0;
  if (!lock_profile()) return;
  for (int i = 0; waited->handles != NULL && i < some; ++i) {
    bytes += finish(call, find_transfer(waited->handles[which != NULL ? which[i] : i]),
                    waited->statuses != NULL ? &waited->statuses[i] : NULL, was_done, begin, end);
  }
  count(call, 0, PEER_NONE, bytes, begin, end);
  unlock_profile();
}

/* After a call that failed: what it reset is not waited for any more. */
COLD static void drop_all(struct waited* waited, const MPI_Request* requests) {
  if (!lock_profile()) return;
  for (int i = 0; waited->handles != NULL && i < waited->many; ++i) {
    struct transfer* const transfer = find_transfer(waited->handles[i]);
    if (transfer != NULL && request_bits(requests[i]) != waited->handles[i]) drop_transfer(transfer);
  }
  unlock_profile();
}

/* ------------------------------------------------------------------------------------------------------- waiting */

WRAPPER(Wait)(MPI_Request* request, MPI_Status* status) {
  const uint64_t begin = enter();
  if (begin == 0) {
    const int result = PMPI_Wait(request, status);
    leave();
    return result;
  }
  const uintptr_t handle = request_bits(*request);
  MPI_Status own;
  MPI_Status* const seen = status == MPI_STATUS_IGNORE ? &own : status;
  int done = 0;
  int result = PMPI_Test(request, &done, seen);
  if (result == MPI_SUCCESS && !done) result = PMPI_Wait(request, seen);
  const uint64_t end = returned();
  if (lock_profile()) {
    struct transfer* const transfer = find_transfer(handle);
    if (LIKELY(result == MPI_SUCCESS)) {
      const int known = transfer != NULL && transfer->active;
      count(CALL_Wait, known ? transfer->communicator : 0, known ? transfer->peer : PEER_NONE,
            known ? transfer->bytes : 0, begin, end);
      finish(CALL_Wait, transfer, seen, done, begin, end);
    } else if (transfer != NULL && request_bits(*request) != handle) {
      drop_transfer(transfer);
    }
    unlock_profile();
  }
  leave();
  return result;
}

/* MPI_Testall of MPICH (5.0.2) fails where a partitioned message is not there yet, and so the program ends. Where there
 * are any, each is looked at, and the wait itself completes all. */
#if HAS_MPI_4 && !defined(OPEN_MPI)
WEAK(PMPI_Waitall)
WEAK(PMPI_Request_get_status)
COLD static int test_each(int many, MPI_Request* requests, int* done, MPI_Status* statuses) {
  int one = 1;
  for (int i = 0; one && i < many; ++i) {
    const int result = PMPI_Request_get_status(requests[i], &one, MPI_STATUS_IGNORE);
    if (result != MPI_SUCCESS) return result;
  }
  *done = one;
  return one ? PMPI_Waitall(many, requests, statuses) : MPI_SUCCESS;
}
#define TEST_ALL(many, requests, done, statuses)                              \
  (UNLIKELY(profiler.partitioned) ? test_each(many, requests, done, statuses) \
                                  : PMPI_Testall(many, requests, done, statuses))
#else
#define TEST_ALL PMPI_Testall
#endif

static inline int test_some(int many, MPI_Request* requests, int* some, int* indices, MPI_Status* statuses, int* done) {
  const int result = PMPI_Testsome(many, requests, some, indices, statuses);
  *done = *some != 0;
  return result;
}

/* A call over a `number` of requests, with `given` statuses. `tested` tests before it waits and sets `done`; `real` is
 * the call itself; both use `seen`, the statuses. After it `some` are complete, those of `which`; `was_done`: already
 * when the call began. */
#define OVER(Name, declared, number, request_list, given, ignored, tested, real, was_done, which, some) \
  WRAPPER(Name) declared {                                                                              \
    const uint64_t begin = enter();                                                                     \
    struct waited waited;                                                                               \
    if (begin != 0) remember(&waited, number, request_list, given, ignored);                            \
    MPI_Status* const seen = begin != 0 && waited.statuses != NULL ? waited.statuses : given;           \
    int done = 0, result = MPI_SUCCESS;                                                                 \
    if (begin != 0) result = tested;                                                                    \
    if (result == MPI_SUCCESS && !done) result = real;                                                  \
    if (begin != 0) {                                                                                   \
      const uint64_t end = returned();                                                                  \
      if (LIKELY(result == MPI_SUCCESS)) {                                                              \
        finish_all(CALL_##Name, &waited, which, some, was_done, begin, end);                            \
      } else {                                                                                          \
        drop_all(&waited, request_list);                                                                \
      }                                                                                                 \
      release(&waited, given);                                                                          \
    }                                                                                                   \
    leave();                                                                                            \
    return result;                                                                                      \
  }
#define NOT_TESTED MPI_SUCCESS

OVER(Waitall, (int many, MPI_Request* requests, MPI_Status* statuses), many, requests, statuses, MPI_STATUSES_IGNORE,
     TEST_ALL(many, requests, &done, seen), PMPI_Waitall(many, requests, seen), done, NULL, many)
OVER(Waitany, (int many, MPI_Request* requests, int* index, MPI_Status* status), many, requests, status,
     MPI_STATUS_IGNORE, PMPI_Testany(many, requests, index, &done, seen), PMPI_Waitany(many, requests, index, seen),
     done, index, *index != MPI_UNDEFINED)
OVER(Waitsome, (int many, MPI_Request* requests, int* some, int* indices, MPI_Status* statuses), many, requests,
     statuses, MPI_STATUSES_IGNORE, test_some(many, requests, some, indices, seen, &done),
     PMPI_Waitsome(many, requests, some, indices, seen), done, indices, *some == MPI_UNDEFINED ? 0 : *some)

/* ------------------------------------------------------------------------------------------------------ looking */

OVER(Test, (MPI_Request * request, int* flag, MPI_Status* status), 1, request, status, MPI_STATUS_IGNORE, NOT_TESTED,
     PMPI_Test(request, flag, seen), 1, NULL, *flag ? 1 : 0)
OVER(Testall, (int many, MPI_Request* requests, int* flag, MPI_Status* statuses), many, requests, statuses,
     MPI_STATUSES_IGNORE, NOT_TESTED, PMPI_Testall(many, requests, flag, seen), 1, NULL, *flag ? many : 0)
OVER(Testany, (int many, MPI_Request* requests, int* index, int* flag, MPI_Status* status), many, requests, status,
     MPI_STATUS_IGNORE, NOT_TESTED, PMPI_Testany(many, requests, index, flag, seen), 1, index,
     *flag && *index != MPI_UNDEFINED)
OVER(Testsome, (int many, MPI_Request* requests, int* some, int* indices, MPI_Status* statuses), many, requests,
     statuses, MPI_STATUSES_IGNORE, NOT_TESTED, PMPI_Testsome(many, requests, some, indices, seen), 1, indices,
     *some == MPI_UNDEFINED ? 0 : *some)
