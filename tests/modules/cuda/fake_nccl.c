/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in for NCCL, libnccl.so.2, written for these tests over the stand-in for NVIDIA's driver: no line of it comes
 * from there. Ranks are processes of one machine, which meet in /dev/shm; network namespaces share it, so they may be
 * on two hosts, told apart by their names as the real one does. A thread of each communicator carries out what was
 * handed to the stream, group after group, as a device would: the transfers of a group move side by side, groups do
 * not.
 *
 * The environment chooses what it is like:
 *   FAKE_NCCL_FAIL=CALL:N    the call of this name returns error N
 *   FAKE_NCCL_FLIPS=1        what is received gets its last byte wrong
 *   FAKE_NCCL_STUCK=1        nothing that is handed to a stream ever ends
 *   FAKE_NCCL_ASYNC=N        ncclCommGetAsyncError tells of error N
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <nccl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "fake_cuda.h"

enum { RANKS = 8, PIECE = 1 << 16, OPERATIONS = 4096, HOST = 64 };

/* From one rank to another: one piece at a time. */
struct box {
  _Atomic uint64_t filled, emptied;
  char bytes[PIECE];
};
struct shared {
  _Atomic int joined, left;
  _Atomic int device[RANKS]; /* and 1 */
  char host[RANKS][HOST];
  struct box boxes[RANKS][RANKS];
};
/* One send or receive. to: rank; at: in memory that the processor reaches. */
struct transfer {
  int sends, peer;
  char* at;
  size_t bytes, moved;
};
struct group {
  struct transfer* transfers;
  int count;
  cudaStream_t stream;
  /* Of a reduction: the terms of all ranks, by rank, and where the sum goes. */
  char* terms;
  char* target;
  size_t elements, element;
  ncclDataType_t type;
  ncclRedOp_t op;
};
struct ncclComm {
  struct shared* shared;
  int rank, nranks;
  pthread_t thread;
  pthread_mutex_t lock;
  struct group queue[OPERATIONS];
  uint64_t added;
  _Atomic uint64_t done;
  _Atomic int ending;
};

static char said[160]; /* of the process, as the real one keeps it */
static _Thread_local int depth;
static _Thread_local struct group building;
static _Thread_local ncclComm_t built_for;

static int number_of(const char* name) {
  const char* const text = getenv(name);
  return text != NULL ? atoi(text) : 0;
}
static ncclResult_t wanted(const char* call) {
  const char* const text = getenv("FAKE_NCCL_FAIL");
  char name[64];
  int error = 0;
  if (text == NULL || sscanf(text, "%63[^:]:%d", name, &error) != 2 || strcmp(name, call) != 0) return ncclSuccess;
  snprintf(said, sizeof said, "the test wants it");
  return (ncclResult_t)error;
}
#define BEGIN()                                           \
  do {                                                    \
    const ncclResult_t error_wanted = wanted(__func__);   \
    if (error_wanted != ncclSuccess) return error_wanted; \
  } while (0)

/* --------------------------------------------------------------------------------------------- what moves */

/* Whether it moved anything. */
static int advance(ncclComm_t comm, struct transfer* t) {
  struct box* const box =
      t->sends ? &comm->shared->boxes[comm->rank][t->peer] : &comm->shared->boxes[t->peer][comm->rank];
  if ((box->filled == box->emptied) != t->sends) return 0;
  const size_t left = t->bytes - t->moved, piece = left < PIECE ? left : PIECE;
  if (t->sends) {
    memcpy(box->bytes, t->at + t->moved, piece);
    ++box->filled;
  } else {
    memcpy(t->at + t->moved, box->bytes, piece);
    ++box->emptied;
  }
  t->moved += piece;
  if (t->moved == t->bytes && !t->sends && t->bytes > 0 && number_of("FAKE_NCCL_FLIPS") != 0) t->at[t->bytes - 1] ^= 1;
  return 1;
}

static double combine(ncclRedOp_t op, double a, double b) {
  switch (op) {
    case ncclMin: return a < b ? a : b;
    case ncclMax: return a > b ? a : b;
    case ncclProd: return a * b;
    default: return a + b;
  }
}
#define REDUCE(Type)                                                                          \
  for (size_t i = 0; i < g->elements; ++i) {                                                  \
    Type sum = ((const Type*)(const void*)g->terms)[i];                                       \
    for (int rank = 1; rank < comm->nranks; ++rank) {                                         \
      const Type term = ((const Type*)(const void*)g->terms)[(size_t)rank * g->elements + i]; \
      sum = g->op == ncclSum    ? (Type)(sum + term)                                          \
            : g->op == ncclProd ? (Type)(sum * term)                                          \
                                : (Type)combine(g->op, (double)sum, (double)term);            \
    }                                                                                         \
    ((Type*)(void*)g->target)[i] = sum;                                                       \
  }
static void reduce_terms(ncclComm_t comm, const struct group* g) {
  if (g->target == NULL) return;
  switch (g->type) {
    case ncclInt32: REDUCE(int32_t) break;
    case ncclInt64: REDUCE(int64_t) break;
    case ncclFloat32: REDUCE(float) break;
    case ncclFloat64: REDUCE(double) break;
    default: REDUCE(uint8_t) break;
  }
}

/* Transfers with one peer in one direction keep their order. */
static void carry_out(ncclComm_t comm, struct group* g) {
  for (int left = g->count; left > 0 && !comm->ending;) {
    int begun[2][RANKS] = {{0}};
    int moved = 0;
    left = 0;
    for (int i = 0; i < g->count; ++i) {
      struct transfer* const t = &g->transfers[i];
      if (t->moved == t->bytes) continue;
      ++left;
      if (begun[t->sends][t->peer]++) continue;
      if (number_of("FAKE_NCCL_STUCK") == 0) moved += advance(comm, t);
    }
    if (!moved) sched_yield();
  }
  if (!comm->ending) reduce_terms(comm, g);
}

static void* run(void* of) {
  ncclComm_t const comm = of;
  while (!comm->ending) {
    pthread_mutex_lock(&comm->lock);
    const int any = comm->done < comm->added;
    pthread_mutex_unlock(&comm->lock);
    if (!any) {
      nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL); /* there are few processors and many such threads */
      continue;
    }
    struct group* const g = &comm->queue[comm->done % OPERATIONS];
    carry_out(comm, g);
    free(g->transfers);
    free(g->terms);
    if (!comm->ending) fake_cuda_work(g->stream, -1);
    ++comm->done;
  }
  return NULL;
}

static ncclResult_t enqueue(ncclComm_t comm, struct group* g) {
  fake_cuda_work(g->stream, 1);
  while (comm->added - comm->done >= OPERATIONS) sched_yield();
  pthread_mutex_lock(&comm->lock);
  comm->queue[comm->added % OPERATIONS] = *g;
  ++comm->added;
  pthread_mutex_unlock(&comm->lock);
  memset(g, 0, sizeof *g);
  return ncclSuccess;
}

/* Adds to the group that is being built. at: of the processor. */
static ncclResult_t add(struct group* g, int sends, int peer, char* at, size_t bytes) {
  struct transfer* const more = realloc(g->transfers, (size_t)(g->count + 1) * sizeof *more);
  if (more == NULL) return ncclSystemError;
  g->transfers = more;
  g->transfers[g->count++] = (struct transfer){sends, peer, at, bytes, 0};
  return ncclSuccess;
}

static char* reached(const void* memory, size_t bytes) {
  char* const at = fake_cuda_real(memory, bytes);
  if (at == NULL) snprintf(said, sizeof said, "this memory is not a device's");
  return at;
}

static size_t size_of(ncclDataType_t type) {
  return type == ncclInt32 || type == ncclFloat32 ? 4 : type == ncclInt64 || type == ncclFloat64 ? 8 : 1;
}

static ncclResult_t single(int sends, const void* memory, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                           cudaStream_t stream) {
  const size_t bytes = count * size_of(type);
  char* const at = reached(memory, bytes);
  if (at == NULL || peer < 0 || peer >= comm->nranks) return ncclInvalidArgument;
  building.stream = stream;
  built_for = comm;
  const ncclResult_t result = add(&building, sends, peer, at, bytes);
  return result != ncclSuccess || depth > 0 ? result : enqueue(comm, &building);
}

/* --------------------------------------------------------------------------------------------- the calls */

ncclResult_t ncclGetVersion(int* version) {
  *version = 22005;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclInvalidUsage  ? "invalid usage"
         : result == ncclRemoteError ? "remote process exited"
                                     : "an error";
}
const char* ncclGetLastError(ncclComm_t comm) {
  (void)comm;
  return said;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  uint64_t number[2];
  BEGIN();
  if (getrandom(number, sizeof number, 0) != sizeof number) return ncclSystemError;
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "/netpipe-fake-nccl-%016lx%016lx", number[0], number[1]);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* made, int nranks, ncclUniqueId id, int rank) {
  BEGIN();
  if (nranks > RANKS || fake_cuda_device() < 0) return ncclInvalidUsage;
  const int file = shm_open(id.internal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof(struct shared)) != 0) return ncclSystemError;
  struct shared* const shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (shared == MAP_FAILED) return ncclSystemError;
  gethostname(shared->host[rank], HOST - 1);
  shared->device[rank] = fake_cuda_device() + 1;
  ++shared->joined;
  while (shared->joined < nranks) sched_yield();
  shm_unlink(id.internal); /* the first one finds it */
  for (int other = 0; other < nranks; ++other) {
    if (other == rank || shared->device[other] != shared->device[rank]) continue;
    if (strcmp(shared->host[other], shared->host[rank]) != 0) continue;
    snprintf(said, sizeof said, "Duplicate GPU detected : rank %d and rank %d both on CUDA device %d", rank, other,
             fake_cuda_device());
    return ncclInvalidUsage;
  }
  ncclComm_t const comm = calloc(1, sizeof *comm);
  if (comm == NULL) return ncclSystemError;
  comm->shared = shared;
  comm->rank = rank;
  comm->nranks = nranks;
  pthread_mutex_init(&comm->lock, NULL);
  if (pthread_create(&comm->thread, NULL, run, comm) != 0) return ncclSystemError;
  *made = comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->ending = 1;
  pthread_join(comm->thread, NULL);
  munmap(comm->shared, sizeof *comm->shared);
  free(comm);
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  while (comm->done < comm->added) sched_yield();
  return ncclCommAbort(comm);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  (void)comm;
  *error = (ncclResult_t)number_of("FAKE_NCCL_ASYNC");
  return ncclSuccess;
}
ncclResult_t ncclGroupStart(void) {
  BEGIN();
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd(void) {
  BEGIN();
  if (--depth > 0 || building.count == 0) return ncclSuccess;
  return enqueue(built_for, &building);
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  BEGIN();
  return single(1, from, count, type, peer, comm, stream);
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  BEGIN();
  return single(0, to, count, type, peer, comm, stream);
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  BEGIN();
  struct group g = {.stream = stream};
  const size_t bytes = count * size_of(type);
  char* const target = reached(to, bytes);
  const char* const source = comm->rank == root ? reached(from, bytes) : target;
  if (target == NULL || source == NULL) return ncclInvalidArgument;
  for (int peer = 0; comm->rank == root && peer < comm->nranks; ++peer) {
    if (peer != root) add(&g, 1, peer, (char*)source, bytes);
  }
  if (comm->rank != root) add(&g, 0, root, target, bytes);
  if (comm->rank == root && target != source) memmove(target, source, bytes);
  return enqueue(comm, &g);
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  BEGIN();
  struct group g = {.stream = stream};
  const size_t bytes = count * size_of(type);
  char* const source = reached(from, bytes);
  char* const target = reached(to, bytes * (size_t)comm->nranks);
  if (target == NULL || source == NULL) return ncclInvalidArgument;
  for (int peer = 0; peer < comm->nranks; ++peer) {
    add(&g, 1, peer, source, bytes);
    add(&g, 0, peer, target + (size_t)peer * bytes, bytes);
  }
  return enqueue(comm, &g);
}

/* Every rank of the first list gets the terms of all: those at offset peer * apart of their source. */
static ncclResult_t reduction(const void* from, size_t apart, void* to, size_t count, ncclDataType_t type,
                              ncclRedOp_t op, int only, ncclComm_t comm, cudaStream_t stream) {
  const size_t bytes = count * size_of(type);
  struct group g = {.stream = stream, .elements = count, .type = type, .op = op};
  char* const source = reached(from, apart > 0 ? apart * (size_t)comm->nranks : bytes);
  if (source == NULL) return ncclInvalidArgument;
  for (int peer = 0; peer < comm->nranks; ++peer) {
    if (only < 0 || peer == only) add(&g, 1, peer, source + (size_t)peer * apart, bytes);
  }
  if (only < 0 || comm->rank == only) {
    g.target = reached(to, bytes);
    g.terms = malloc(bytes * (size_t)comm->nranks + 1);
    if (g.target == NULL || g.terms == NULL) return ncclInvalidArgument;
    for (int peer = 0; peer < comm->nranks; ++peer) add(&g, 0, peer, g.terms + (size_t)peer * bytes, bytes);
  }
  return enqueue(comm, &g);
}
ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  BEGIN();
  return reduction(from, 0, to, count, type, op, root, comm, stream);
}
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  BEGIN();
  return reduction(from, 0, to, count, type, op, -1, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  BEGIN();
  return reduction(from, count * size_of(type), to, count, type, op, -1, comm, stream);
}
