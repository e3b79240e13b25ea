/* SPDX-License-Identifier: Apache-2.0
 *
 * What one rank writes: a part, FOLDER/RANK.part, and a trace beside it, FOLDER/RANK.trace. The part is a mapped file,
 * so what was counted until then survives whatever ends the process. python/netpipe/profiles/part.py reads them; the
 * part tells it the sizes and offsets of everything, and the names of all calls.
 *
 * The last events are in a window of the part, which is written to the trace when it is full and when the program ends.
 * A process that is killed leaves them there: the trace has the first events, as many as its size says, and the window
 * those that are missing from `events`.
 *
 * All numbers are in the byte order of the host. Times are ticks of the clock of ticks.h: the pairs of ticks and
 * nanoseconds in the header convert them.
 */
#ifndef NETPIPE_PROFILER_PART_H
#define NETPIPE_PROFILER_PART_H

#include <stdint.h>

#define PART_MAGIC UINT64_C(0x31666f7270706e21) /* "!npprof1" */
#define PART_LAYOUT 2u

enum { PART_STARTED = 1, PART_ENDED = 2, PART_ABORTED = 3 }; /* header.state: MPI_Init, MPI_Finalize, MPI_Abort */
enum { PEER_ANY = -1, PEER_NONE = -2, PEER_MANY = -3 };      /* of entries and events, where it is no rank */
enum { PHASE_MANY = 0 };                                     /* of entries of several phases; nothing is counted in 0 */

/* A moment by both clocks. */
struct moment {
  uint64_t ticks, monotonic_ns, realtime_ns;
};

/* One kind of call: what a key has in common. A slot of an open table; calls == 0: free. */
struct entry {
  uint64_t bytes; /* of each: what one call sends, or the posted size of one receive */
  int32_t peer;   /* rank in MPI_COMM_WORLD, or PEER_... */
  uint16_t call, communicator;
  int32_t phase; /* the last MPI_Pcontrol */
  /* How much was put together because the table became full. 1: bytes is the next power of two; 2: of many peers, too;
   * 3: of many communicators and phases, too; 4: of all sizes, bytes is 0. */
  uint32_t coarse;
  uint64_t calls, ticks, most_ticks;
  uint64_t found_done; /* of those that START: transfers that were complete when they were first waited for */
  uint64_t waited;     /* of those that START: transfers that were waited for */
};

/* A communicator, or several with the same members that were there one after the other. `members_hash` is of the
 * members and of the communicator of which it was made, `ordinal` counts those that have the same; both are the same on
 * all members, and name a communicator across ranks. One named "others" with no members stands for all for which there
 * was no room. */
struct communicator {
  uint64_t members_hash;
  uint32_t ordinal, size; /* of an intercommunicator: the members of the other side */
  int32_t rank;           /* this rank's in it */
  uint32_t first, listed; /* its members are members[first .. first + listed), ranks in MPI_COMM_WORLD */
  char name[20];
};

struct call_name {
  char name[28];
  uint32_t does;
};

/* How often a buffer was used again. An access is one buffer of one call; it is a reuse if a buffer that was used
 * before began at the same address. */
struct reuse {
  uint64_t accesses, again, bytes, bytes_again;
};

struct part {
  uint64_t magic;
  uint32_t layout, header_bytes;
  uint32_t entry_bytes, entry_capacity, entry_offset;
  uint32_t communicator_bytes, communicator_capacity, communicator_offset;
  uint32_t member_capacity, member_offset;
  uint32_t call_bytes, call_count, call_offset;
  uint32_t event_bytes;
  int32_t rank, ranks, thread_level, state, exit_code; /* exit_code: of MPI_Abort */
  uint32_t entries, communicators, members;            /* used */
  uint64_t calls, mpi_ticks, compute_ticks;            /* outermost calls; compute: between calls of one thread */
  uint64_t coarse_calls, untracked_buffers;            /* what the tables had no room for */
  uint64_t untracked_transfers;                        /* the same */
  uint64_t events, events_lost, event_limit;           /* of the trace */
  struct moment first, last;                           /* first: at MPI_Init; last: of a late call, at least the end */
  uint64_t began, ended;                               /* ticks: after MPI_Init, before MPI_Finalize (0: never) */
  struct reuse reuse;
  uint64_t pid;
  char host[64], library[128], program[256];
  uint32_t window_offset, window_events; /* the place of the window, and how many events it can hold */
};

/* A call of the trace. A call that completes several transfers is several events with the same times. */
struct event {
  uint64_t begin, end; /* ticks */
  uint64_t bytes;
  uint64_t request; /* number of the transfer that was started or completed; 0: none */
  int32_t peer, tag;
  uint16_t call, communicator;
  int32_t phase;
};

#endif
