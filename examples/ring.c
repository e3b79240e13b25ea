/* SPDX-License-Identifier: Apache-2.0
 *
 * A complete module outside the tree, and the skeleton to start one from: messages between two processes of one host
 * through two rings of slots, one ring a direction, in a file that both map. docs/writing-a-module.md goes through it
 * step by step; include/netpipe/module.h is the contract. Build and use it:
 *
 *     cc -std=gnu11 -O2 -fPIC -shared -I ../include -o ring.so ring.c
 *     netpipe run ring --module ./ring.so
 *
 * The method is the single-producer single-consumer queue of Lamport (Proving the Correctness of Multiprocess Programs,
 * 1977): the sender alone writes `filled`, the receiver alone writes `emptied`, so that no lock and no
 * read-modify-write is needed. A message longer than a slot travels in pieces, and the receiver copies one out while
 * the next comes in.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "netpipe/module.h"

/* ---------------------------------------------------------------------------------------------- options */

/* One table; everything that users and tools see of the options is derived from it. The order is that of
 * context->options. */
enum { SLOTS, SLOT, WAIT };

static const np_option options[] = {
    {.name = "slots",
     .type = NP_INT,
     .default_value = "32",
     .min = 2,
     .max = 65536,
     .unit = "",
     .help = "slots of each ring",
     .tunable = 1},
    {.name = "slot",
     .type = NP_SIZE,
     .default_value = "16k",
     .min = 64,
     .max = 16777216,
     .unit = "bytes",
     .help = "room of one slot; longer messages travel in pieces of this size",
     .tunable = 1},
    {.name = "wait",
     .type = NP_CHOICE,
     .default_value = "poll",
     .choices = "poll|yield",
     .unit = "",
     .help = "what a process does while it waits: read the counter again, or give the processor away in between",
     .tunable = 1},
};

/* ---------------------------------------------------------------------------------------------- memory */

/* Two cache lines: processors fetch them in pairs, and a counter that shared one with the other side's counter would be
 * taken away from its writer at every read. */
#define LINES 128

/* Of one ring, in bytes. The table bounds each option; what only the product of two shows, open() refuses. */
#define LARGEST (UINT64_C(1) << 30)

struct ring {
  _Alignas(LINES) _Atomic uint64_t filled;  /* slots that the sender has filled since the start */
  _Alignas(LINES) _Atomic uint64_t emptied; /* slots that the receiver has emptied since the start */
  _Alignas(LINES) unsigned char slots[];
};

/* What stands at the beginning of the file. */
struct header {
  char job[256];            /* context->job: this file belongs to this measurement */
  uint64_t slots, slot;     /* both sides must see the same layout */
  _Atomic uint32_t present; /* rank 1 has mapped it */
};

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a counter that two processes share must be lock-free");

/* An endpoint holds what one process knows of one variant. Nothing is global: several may be open at once. */
struct np_endpoint {
  const np_context* context;
  int file;
  struct header* header;
  size_t mapped;
  uint64_t slots, slot;
  int yields;
  struct ring *out, *in;
  uint64_t filled, emptied; /* own counters: of out and of in */
  uint64_t seen_emptied,
      seen_filled;      /* the other side's, when last read; reading less often keeps its cache line there */
  uint64_t full, empty; /* how often a wait was needed, for counters() */
};

static size_t round_up(size_t bytes) { return (bytes + LINES - 1) / LINES * LINES; }
static size_t ring_bytes(const np_endpoint* e) { return round_up(sizeof(struct ring) + (size_t)(e->slots * e->slot)); }
static size_t file_bytes(const np_endpoint* e) { return round_up(sizeof(struct header)) + 2 * ring_bytes(e); }

/* ---------------------------------------------------------------------------------------------- errors */

/* A module never prints: one sentence goes to where the core can show it, with what happened and what to do. */
static np_status fail(const np_context* context, np_status status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(context->message, context->message_bytes, format, arguments);
  va_end(arguments);
  return status;
}

/* ---------------------------------------------------------------------------------------------- here or not */

/* Asked before anything is opened, also by `netpipe list` and `netpipe doctor`. */
static np_status ring_probe(char* message, size_t message_bytes) {
  const int file = memfd_create("netpipe-probe", MFD_CLOEXEC);
  if (file < 0) {
    snprintf(message, message_bytes, "memfd_create fails (%s); Linux 3.17 or newer with shared memory is needed",
             strerror(errno));
    return NP_UNAVAILABLE;
  }
  close(file);
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- open and close */

/* MAP_POPULATE: every page is there before the clock starts. NULL, and a sentence, where there is no room. */
static struct header* map(np_endpoint* e) {
  e->mapped = file_bytes(e);
  void* const memory = mmap(NULL, e->mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, e->file, 0);
  if (memory == MAP_FAILED) {
    fail(e->context, NP_NO_MEMORY, "cannot map the %zu bytes of the rings (%s); choose fewer or smaller slots",
         e->mapped, strerror(errno));
    return NULL;
  }
  e->header = memory;
  unsigned char* const rings = (unsigned char*)memory + round_up(sizeof(struct header));
  struct ring* const from_0 = (struct ring*)rings;
  struct ring* const from_1 = (struct ring*)(rings + ring_bytes(e));
  e->out = e->context->rank == 0 ? from_0 : from_1;
  e->in = e->context->rank == 0 ? from_1 : from_0;
  return memory;
}

/* Rank 0 owns the file. It has no name that could be left behind: it ends with the last process that holds it. */
static np_status create(np_endpoint* e) {
  e->file = memfd_create("netpipe-ring", MFD_CLOEXEC);
  if (e->file < 0) return fail(e->context, NP_FAILED, "cannot make the shared file: %s", strerror(errno));
  if (ftruncate(e->file, (off_t)file_bytes(e)) != 0) {
    return fail(e->context, NP_NO_MEMORY, "no room for %zu bytes of shared memory (%s); choose fewer or smaller slots",
                file_bytes(e), strerror(errno));
  }
  struct header* const header = map(e);
  if (header == NULL) return NP_NO_MEMORY;
  snprintf(header->job, sizeof header->job, "%s", e->context->job);
  header->slots = e->slots;
  header->slot = e->slot;
  return NP_OK;
}

static void ring_close(np_endpoint* e) {
  if (e->header != NULL) munmap(e->header, e->mapped);
  if (e->file >= 0) close(e->file);
  free(e);
}

/* Local: it must not wait for the other rank, which may not have begun. *endpoint is written on success only. */
static np_status ring_open(const np_context* context, np_endpoint** endpoint) {
  np_endpoint* const e = calloc(1, sizeof *e);
  if (e == NULL) return fail(context, NP_NO_MEMORY, "no memory for an endpoint");
  e->context = context;
  e->file = -1;
  e->slots = (uint64_t)context->options[SLOTS].number;
  e->slot = (uint64_t)context->options[SLOT].number;
  /* Where ranks share a processor a loop that only reads would keep the other side from ever answering. */
  e->yields = context->options[WAIT].number == 1 || context->oversubscribed != 0;
  np_status status = NP_OK;
  if (e->slots > LARGEST / e->slot) {
    status = fail(context, NP_USAGE, "slots=%llu times slot=%llu is more than the %llu bytes that a ring may have",
                  (unsigned long long)e->slots, (unsigned long long)e->slot, (unsigned long long)LARGEST);
  } else if (context->rank == 0) {
    status = create(e);
  }
  if (status != NP_OK) {
    ring_close(e);
    return status;
  }
  *endpoint = e;
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- connect */

/* Rank 0 says where its file is; rank 1 has nothing to say. The core carries the addresses: no module needs a port. */
static np_status ring_address(np_endpoint* e, void* data, size_t* bytes) {
  if (e->context->rank != 0) {
    *bytes = 0;
    return NP_OK;
  }
  const int length = snprintf(data, *bytes, "/proc/%ld/fd/%d", (long)getpid(), e->file);
  if (length < 0 || (size_t)length >= *bytes) {
    return fail(e->context, NP_FAILED, "the core gave room for %zu bytes of address, too few for the path", *bytes);
  }
  *bytes = (size_t)length + 1;
  return NP_OK;
}

/* What comes from the other side is data to check, however it came. */
static np_status join(np_endpoint* e, const char* path, size_t bytes) {
  if (bytes < 2 || path[bytes - 1] != '\0') return fail(e->context, NP_FAILED, "rank 0 sent no path of its rings");
  e->file = open(path, O_RDWR | O_CLOEXEC);
  if (e->file < 0) {
    return fail(
        e->context, NP_FAILED,
        "cannot open the rings of rank 0 at %s (%s); both ranks must run on one host, as one user, in one process "
        "namespace",
        path, strerror(errno));
  }
  struct stat status;
  if (fstat(e->file, &status) != 0 || (uint64_t)status.st_size != file_bytes(e)) {
    return fail(e->context, NP_FAILED, "the rings of rank 0 have another size than these options ask for");
  }
  struct header* const header = map(e);
  if (header == NULL) return NP_NO_MEMORY;
  if (strncmp(header->job, e->context->job, sizeof header->job - 1) != 0 || header->slots != e->slots ||
      header->slot != e->slot) {
    return fail(e->context, NP_FAILED, "the rings at %s belong to another measurement", path);
  }
  atomic_store_explicit(&header->present, 1, memory_order_release);
  return NP_OK;
}

/* Collective, and bounded twice: by abort, and by the time that the core allows. */
static np_status ring_connect(np_endpoint* e, const void* const* addresses, const size_t* bytes) {
  if (e->context->rank == 1) return join(e, addresses[0], bytes[0]);
  const struct timespec nap = {.tv_nsec = 100000};
  for (int64_t waited_ns = 0; atomic_load_explicit(&e->header->present, memory_order_acquire) == 0;
       waited_ns += nap.tv_nsec) {
    if (*e->context->abort != 0) return fail(e->context, NP_ABORTED, "gave up while rank 1 had not joined");
    if (waited_ns > e->context->timeout_ns) {
      return fail(e->context, NP_PEER_LOST, "rank 1 did not join the rings within %.1f s",
                  (double)e->context->timeout_ns / 1e9);
    }
    nanosleep(&nap, NULL);
  }
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- messages */

/* These run inside the timed region: no allocation, no system call but the yield that the user asked for, and every
 * loop looks at abort. A peer that died is the core's to notice: it raises abort. */

static inline void pause_briefly(const np_endpoint* e) {
  if (e->yields) {
    sched_yield();
    return;
  }
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* A message of no bytes takes a slot as well: it too must arrive. */
static inline uint64_t pieces(const np_endpoint* e, size_t bytes) {
  return bytes == 0 ? 1 : (bytes + e->slot - 1) / e->slot;
}

static np_status ring_send(np_endpoint* e, int peer, const void* data, size_t bytes) {
  (void)peer; /* there is only one other */
  const unsigned char* from = data;
  for (uint64_t left = pieces(e, bytes); left > 0; --left) {
    if (e->filled - e->seen_emptied == e->slots) {
      /* acquire: the receiver has read the slot before it may be written again */
      e->seen_emptied = atomic_load_explicit(&e->out->emptied, memory_order_acquire);
      e->full += e->filled - e->seen_emptied == e->slots;
      while (e->filled - e->seen_emptied == e->slots) {
        if (*e->context->abort != 0) return fail(e->context, NP_ABORTED, "gave up while the ring was full");
        pause_briefly(e);
        e->seen_emptied = atomic_load_explicit(&e->out->emptied, memory_order_acquire);
      }
    }
    const size_t piece = bytes < e->slot ? bytes : (size_t)e->slot;
    memcpy(e->out->slots + (e->filled % e->slots) * e->slot, from, piece);
    from += piece;
    bytes -= piece;
    /* release: the bytes are there before the counter says so */
    atomic_store_explicit(&e->out->filled, ++e->filled, memory_order_release);
  }
  return NP_OK;
}

/* The core names the exact size, so the pieces can be counted and no length has to travel. */
static np_status ring_recv(np_endpoint* e, int peer, void* data, size_t bytes) {
  (void)peer;
  unsigned char* to = data;
  for (uint64_t left = pieces(e, bytes); left > 0; --left) {
    if (e->emptied == e->seen_filled) {
      e->seen_filled = atomic_load_explicit(&e->in->filled, memory_order_acquire);
      e->empty += e->emptied == e->seen_filled;
      while (e->emptied == e->seen_filled) {
        if (*e->context->abort != 0) return fail(e->context, NP_ABORTED, "gave up while the ring was empty");
        pause_briefly(e);
        e->seen_filled = atomic_load_explicit(&e->in->filled, memory_order_acquire);
      }
    }
    const size_t piece = bytes < e->slot ? bytes : (size_t)e->slot;
    memcpy(to, e->in->slots + (e->emptied % e->slots) * e->slot, piece);
    to += piece;
    bytes -= piece;
    atomic_store_explicit(&e->in->emptied, ++e->emptied, memory_order_release);
  }
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- what it tells */

/* The settings as they really are: here the wait, which an oversubscribed machine overrules. */
static void ring_describe(np_endpoint* e, np_emit emit, void* to) {
  np_emit_text(emit, to, "wait", e->yields ? "yield" : "poll");
  np_emit_integer(emit, to, "shared_bytes", (int64_t)e->mapped, "bytes");
}

/* What the layer counts. netpipe reads it around each visit of a size and keeps the difference. */
static const np_counter counters[] = {
    {"waits_for_room", "1", "messages that found the ring full", NP_COUNTS_UP},
    {"waits_for_message", "1", "receives that found the ring empty", NP_COUNTS_UP},
};

static void ring_read_counters(np_endpoint* e, int64_t* values) {
  values[0] = (int64_t)e->full;
  values[1] = (int64_t)e->empty;
}

/* ---------------------------------------------------------------------------------------------- the table */

/* An operation that is not here is one that this layer does not have; the patterns that need it are skipped. */
static const np_module table = {
    .magic = NP_MAGIC,
    .abi = NP_ABI,
    .size = sizeof(np_module),
    .name = "ring",
    .summary = "example: a lock-free ring of slots in shared memory",
    .version = "1.0",
    .below = "memcpy",
    .adds = "a second process and a ring between the two",
    .options = options,
    .noptions = sizeof options / sizeof *options,
    .option_bytes = sizeof(np_option),
    .counters = counters,
    .ncounters = sizeof counters / sizeof *counters,
    .counter_bytes = sizeof(np_counter),
    .min_ranks = 2,
    .max_ranks = 2,
    .messages = &(const np_messages){.size = sizeof(np_messages), .send = ring_send, .recv = ring_recv},
    .probe = ring_probe,
    .open = ring_open,
    .close = ring_close,
    .address = ring_address,
    .connect = ring_connect,
    .describe = ring_describe,
    .read_counters = ring_read_counters,
};

/* The one name that is exported, also where the compiler is told to hide all others. */
__attribute__((visibility("default"))) const np_module* netpipe_module(void) { return &table; }
