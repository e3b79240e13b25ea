/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that look for messages. They are counted, and leave no event in the trace.
 */
#include "record.h"

static inline void probed(int call, int from, MPI_Comm comm, uint64_t begin, uint64_t end) {
  if (!lock_profile()) return;
  const uint16_t communicator = index_of(comm);
  count(call, communicator, peer_of(communicator, from), 0, begin, end);
  unlock_profile();
}

WRAPPER(Probe)(int from, int tag, MPI_Comm comm, MPI_Status* status) {
  const uint64_t begin = enter();
  const int result = PMPI_Probe(from, tag, comm, status);
  if (counts(begin, result)) probed(CALL_Probe, from, comm, begin, returned());
  leave();
  return result;
}

WRAPPER(Iprobe)(int from, int tag, MPI_Comm comm, int* found, MPI_Status* status) {
  const uint64_t begin = enter();
  const int result = PMPI_Iprobe(from, tag, comm, found, status);
  if (counts(begin, result)) probed(CALL_Iprobe, from, comm, begin, returned());
  leave();
  return result;
}

#if MPI_VERSION >= 3
enum { PROBED = 256 };

static struct probed table[PROBED]; /* messages that were matched and not received yet */
static int table_count;

/* Who receives the message does not name its communicator again. */
static void matched(int call, int from, int tag, MPI_Comm comm, const MPI_Message* message, uint64_t begin,
                    uint64_t end) {
  if (!lock_profile()) return;
  const uint16_t communicator = index_of(comm);
  count(call, communicator, peer_of(communicator, from), 0, begin, end);
  if (message != NULL && table_count < PROBED)
    table[table_count++] = (struct probed){BITS_OF(*message), from, tag, communicator};
  unlock_profile();
}

struct probed profiler_take_probed(uintptr_t handle) {
  for (int i = table_count - 1; i >= 0; --i) {
    if (table[i].handle != handle) continue;
    const struct probed found = table[i];
    table[i] = table[--table_count];
    return found;
  }
  return (struct probed){handle, MPI_ANY_SOURCE, MPI_ANY_TAG, (uint16_t)profiler_others()};
}

WRAPPER(Mprobe)(int from, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
  const uint64_t begin = enter();
  const int result = PMPI_Mprobe(from, tag, comm, message, status);
  if (counts(begin, result)) matched(CALL_Mprobe, from, tag, comm, message, begin, returned());
  leave();
  return result;
}

WRAPPER(Improbe)(int from, int tag, MPI_Comm comm, int* found, MPI_Message* message, MPI_Status* status) {
  const uint64_t begin = enter();
  const int result = PMPI_Improbe(from, tag, comm, found, message, status);
  if (counts(begin, result)) matched(CALL_Improbe, from, tag, comm, *found ? message : NULL, begin, returned());
  leave();
  return result;
}
#endif
