/* SPDX-License-Identifier: Apache-2.0
 *
 * What anybody would write to time several threads that use an MPI at once, between two ranks, in the way of
 * osu_latency_mt and osu_mbw_mr. Thread t of rank 0 exchanges messages with thread t of rank 1, by a tag of its own.
 * "pingpong": one message there and back; the time is half a round trip. "window": COUNT sends in flight, then one
 * byte back; the time is that of one message. A sample lasts from the first start of a thread to the end of the
 * slowest, as in netpipe, and threads beside the first may run on any processor.
 *
 *     mpirun -n 2 threads FILE SECONDS BYTES pingpong|window THREADS [COUNT]
 */
#define _GNU_SOURCE
#define SAMPLES_THREAD_LEVEL MPI_THREAD_MULTIPLE
#define SAMPLES_IN_A_LINE 8 /* where threads take turns on a processor, a sample lasts milliseconds */
#include <pthread.h>
#include <stdatomic.h>

#include "samples.h"

enum { kMaxThreads = 64, kMaxCount = 256, kFirstTag = 10 };

static int threads, count = 1, windows;
static size_t stride;
static cpu_set_t everywhere;
static atomic_int arrived, turn;
static int rounds, samples_each, over; /* by thread 0, while the others wait */

struct thread {
  int number;
  char *out, *in;
  int64_t begun, done;
  pthread_t id;
  MPI_Request requests[kMaxCount];
};
static struct thread all[kMaxThreads];

static void meet(void) {
  const int now = atomic_load(&turn);
  if (atomic_fetch_add(&arrived, 1) + 1 == threads) {
    atomic_store(&arrived, 0);
    atomic_fetch_add(&turn, 1);
    return;
  }
  for (int looks = 0; atomic_load(&turn) == now; looks++) {
    if (looks > 2000) sched_yield();
  }
}

static void pingpong(struct thread* t, int times) {
  const int tag = kFirstTag + t->number;
  for (int i = 0; i < times; i++) {
    if (rank == 0) MPI_Send(t->out, bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
    MPI_Recv(t->in, bytes, MPI_BYTE, 1 - rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(t->out, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD);
  }
}

static void window(struct thread* t, int times) {
  const int tag = kFirstTag + t->number;
  char answer = 0;
  for (int k = 0; k < times; k++) {
    for (int i = 0; i < count; i++) {
      char* const place = t->in + (size_t)i * stride;
      if (rank == 0) MPI_Isend(t->out, bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &t->requests[i]);
      if (rank == 1) MPI_Irecv(place, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &t->requests[i]);
    }
    for (int i = 0; i < count; i++) MPI_Wait(&t->requests[i], MPI_STATUS_IGNORE);
    if (rank == 0) MPI_Recv(&answer, 1, MPI_BYTE, 1, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(&answer, 1, MPI_BYTE, 0, tag, MPI_COMM_WORLD);
  }
}

/* The threads of rank 0 begin each sample together; those of rank 1 answer. One round before, until all are there. */
static void take_batch(struct thread* t) {
  void (*const work)(struct thread*, int) = windows ? window : pingpong;
  meet();
  work(t, 1);
  if (rank == 1) work(t, samples_each * rounds);
  for (int i = 0; rank == 0 && i < samples_each; i++) {
    meet();
    t->begun = now_ns();
    work(t, rounds);
    t->done = now_ns();
    meet();
    if (t->number != 0) continue; /* all wait for thread 0 before they begin again */
    int64_t first = all[0].begun, last = all[0].done;
    for (int k = 1; k < threads; k++) {
      if (all[k].begun < first) first = all[k].begun;
      if (all[k].done > last) last = all[k].done;
    }
    batch[i] = (double)(last - first) / rounds / (windows ? count : 2);
  }
  meet();
}

static void* live(void* of) {
  sched_setaffinity(0, sizeof everywhere, &everywhere);
  for (;;) {
    meet(); /* for the word of thread 0 */
    if (over) return NULL;
    take_batch(of);
  }
}

static void batch_of(int samples_now, int rounds_now) {
  samples_each = samples_now, rounds = rounds_now;
  meet();
  take_batch(&all[0]);
}

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  windows = argv[4][0] == 'w', threads = atoi(argv[5]);
  if (windows && argc == 7) count = atoi(argv[6]);
  if (threads < 1 || threads > kMaxThreads || count < 1 || count > kMaxCount) return 2;
  sched_getaffinity(0, sizeof everywhere, &everywhere);
  begin(argv);
  stride = ((size_t)bytes + 127) / 64 * 64;
  for (int i = 0; i < threads; i++) {
    all[i].number = i;
    all[i].out = pages(stride), all[i].in = pages(stride * (size_t)count);
    if (i > 0 && pthread_create(&all[i].id, NULL, live, &all[i]) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  }
  batch_of(1, 20);
  batch_of(1, 20);
  int many = (int)(kSampleNs / (batch[0] * (windows ? count : 2))) + 1; /* of rank 0 */
  MPI_Bcast(&many, 1, MPI_INT, 0, MPI_COMM_WORLD);
  do {
    batch_of(kBatch, many);
  } while (another());
  over = 1;
  meet();
  for (int i = 0; i < threads; i++) {
    if (i > 0) pthread_join(all[i].id, NULL);
    free(all[i].out), free(all[i].in);
  }
  return end();
}
