/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer that behaves as a model says, by the clock that all ranks of a host share, for patterns that measure the
 * parameters of a layer: what they find can be held against what was chosen. All times are options.
 *
 *     send, isend     last o_s(s) = send_overhead + s x overhead_per_kib / 1024
 *     departure       at the end of that, or when the messages before have left room: gap + s x gap_per_kib / 1024 each
 *     transfer        T(s) = latency + s x gap_per_kib / 1024 from departure to arrival
 *     recv, wait      end o_r(s) = recv_overhead + s x overhead_per_kib / 1024 after arrival, or after they began
 *
 * overlap: so many per cent of T(s) go by themselves; the rest only while the receiver is in recv, wait or test. Under
 * a computation of length c between irecv and wait a transfer then lasts max(c, overlap x T) + (1 - overlap) x T.
 *
 * helper: so long after the departure of a message somebody else carries the rest of its transfer on, in calls and
 * outside of them, as a thread that wakes up late does. A computation that lasts until it is done hides all of T, and a
 * shorter one no more than overlap x T.
 *
 * The bytes are really copied, on either side within its overhead; counters say how often that was too short for it, or
 * the sender found no room and had to wait, and the model was not kept.
 *
 * The ranks share a memfd of rank 0, opened through /proc, so nothing is left behind.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "netpipe/module.h"

__attribute__((visibility("default"))) const np_module* netpipe_module(void);

enum { LATENCY, SEND_OVERHEAD, RECV_OVERHEAD, OVERHEAD_PER_KIB, GAP, GAP_PER_KIB, OVERLAP, HELPER };

#define LONGEST 1000000000
#define TIME(NAME, DEFAULT, HELP) \
  {.name = NAME, .type = NP_INT, .default_value = DEFAULT, .max = LONGEST, .unit = "ns", .help = HELP}

static const np_option options[] = {
    TIME("latency", "20000", "from departure to arrival of an empty message"),
    TIME("send_overhead", "2000", "time in a send of an empty message"),
    TIME("recv_overhead", "3000", "time in a receive of an empty message that is there"),
    TIME("overhead_per_kib", "400", "what each KiB adds to either"),
    TIME("gap", "5000", "between departures of empty messages at least"),
    TIME("gap_per_kib", "1000", "what each KiB adds to that, and to the transfer"),
    {.name = "overlap",
     .type = NP_INT,
     .default_value = "100",
     .max = 100,
     .unit = "%",
     .help = "how much of a transfer goes on outside of the receiver's calls"},
    TIME("helper", "0", "from a departure until the rest of the transfer goes on by itself, too; 0: never"),
};

#define MESSAGES 256 /* under way from one rank to another at most */
#define IN_FLIGHT 20 /* of the largest that there is room for */

typedef struct message {
  uint64_t bytes, offset;
  int64_t departed_ns;
  int64_t inside_ns; /* the receiver's: of the rest of its transfer, what has gone by */
  int taken;
} message;

/* From one rank to another: a ring of messages and a ring of their bytes. */
typedef struct channel {
  _Alignas(128) _Atomic uint64_t sent; /* the sender's count */
  uint64_t put;                        /* bytes, with what was left free at the end of the ring */
  _Alignas(128) _Atomic uint64_t done; /* the receiver's count: of the oldest messages all were taken */
  _Atomic uint64_t got;                /* bytes up to them */
  _Alignas(128) message messages[MESSAGES];
  _Alignas(128) unsigned char data[];
} channel;

struct np_endpoint {
  const np_context* context;
  int fd;
  char* memory;
  size_t memory_bytes, channel_bytes, ring_bytes;
  int64_t reading_ns;  /* what one reading of the clock takes */
  int64_t nic_free_ns; /* when the next message may depart */
  uint64_t* posted;    /* by rank: receives so far */
  uint64_t late, full;
};

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t option(const np_endpoint* e, int which) { return e->context->options[which].number; }

static int64_t with_bytes(const np_endpoint* e, int fixed, int per_kib, size_t bytes) {
  return option(e, fixed) + (int64_t)bytes * option(e, per_kib) / 1024;
}

static channel* channel_of(const np_endpoint* e, int from, int to) {
  return (channel*)(e->memory + (size_t)(from * e->context->nranks + to) * e->channel_bytes);
}

static np_status fail(np_endpoint* e, np_status status, const char* what) {
  snprintf(e->context->message, e->context->message_bytes, "%s: %s", what, strerror(errno));
  return status;
}

/* One turn of a loop that waits. */
static np_status linger(const np_endpoint* e) {
  if (e->context->oversubscribed) sched_yield();
  return *e->context->abort != 0 ? NP_ABORTED : NP_OK;
}

/* A reading says what the time was in its middle. The one that ends a loop comes half a reading too late on average,
 * and another half passes until it has returned. */
static int64_t entered(const np_endpoint* e) { return now_ns() - e->reading_ns / 2; }

static np_status leave_at(np_endpoint* e, int64_t end_ns) {
  if (now_ns() > end_ns) ++e->late;
  while (now_ns() < end_ns - e->reading_ns) {
    if (linger(e) != NP_OK) return NP_ABORTED;
  }
  return NP_OK;
}

/* ------------------------------------------------------------------------------------------------- the two calls */

static np_status synthetic_send(np_endpoint* e, int peer, const void* data, size_t bytes) {
  const int64_t end_ns = entered(e) + with_bytes(e, SEND_OVERHEAD, OVERHEAD_PER_KIB, bytes);
  channel* const c = channel_of(e, e->context->rank, peer);
  const uint64_t sent = atomic_load_explicit(&c->sent, memory_order_relaxed);
  uint64_t put = c->put;
  const uint64_t left = e->ring_bytes - put % e->ring_bytes;
  if (left < bytes) put += left;
  for (int first = 1; sent - atomic_load_explicit(&c->done, memory_order_acquire) >= MESSAGES ||
                      put + bytes - atomic_load_explicit(&c->got, memory_order_acquire) > e->ring_bytes;
       first = 0) {
    if (first) ++e->full;
    if (linger(e) != NP_OK) return NP_ABORTED;
  }
  message* const m = &c->messages[sent % MESSAGES];
  memset(m, 0, sizeof *m);
  m->bytes = bytes;
  m->offset = put % e->ring_bytes;
  m->departed_ns = end_ns > e->nic_free_ns ? end_ns : e->nic_free_ns;
  e->nic_free_ns = m->departed_ns + with_bytes(e, GAP, GAP_PER_KIB, bytes);
  memcpy(c->data + m->offset, data, bytes);
  c->put = put + bytes;
  atomic_store_explicit(&c->sent, sent + 1, memory_order_release);
  return leave_at(e, end_ns);
}

/* When the rest of a transfer goes on without calls. */
static int64_t helped_ns(const np_endpoint* e, const message* m, int64_t begin_ns) {
  const int64_t from_ns = m->departed_ns + option(e, HELPER);
  if (option(e, HELPER) == 0) return INT64_MAX;
  return from_ns > begin_ns ? from_ns : begin_ns;
}

/* Time inside calls, from one reading to the next, is what the rest of every transfer needs. */
static void progress(np_endpoint* e, int64_t from_ns, int64_t to_ns) {
  if (option(e, OVERLAP) == 100) return;
  for (int peer = 0; peer < e->context->nranks; ++peer) {
    channel* const c = channel_of(e, peer, e->context->rank);
    const uint64_t sent = atomic_load_explicit(&c->sent, memory_order_acquire);
    for (uint64_t i = atomic_load_explicit(&c->done, memory_order_relaxed); i < sent; ++i) {
      message* const m = &c->messages[i % MESSAGES];
      const int64_t itself_ns = with_bytes(e, LATENCY, GAP_PER_KIB, m->bytes) * option(e, OVERLAP) / 100;
      const int64_t begin_ns = m->departed_ns + itself_ns;
      const int64_t first_ns = from_ns > begin_ns ? from_ns : begin_ns;
      const int64_t alone_ns = helped_ns(e, m, begin_ns);
      const int64_t last_ns = to_ns < alone_ns ? to_ns : alone_ns;
      if (last_ns > first_ns) m->inside_ns += last_ns - first_ns;
    }
  }
}

/* When a message had arrived; INT64_MAX: it has not. */
static int64_t arrival_ns(const np_endpoint* e, const message* m, int64_t at_ns) {
  const int64_t whole_ns = with_bytes(e, LATENCY, GAP_PER_KIB, m->bytes);
  const int64_t itself_ns = whole_ns * option(e, OVERLAP) / 100;
  const int64_t rest_ns = whole_ns - itself_ns;
  const int64_t alone_ns = helped_ns(e, m, m->departed_ns + itself_ns);
  if (m->inside_ns < rest_ns && at_ns >= alone_ns && at_ns - alone_ns >= rest_ns - m->inside_ns) {
    return alone_ns + rest_ns - m->inside_ns;
  }
  if (m->departed_ns + itself_ns > at_ns || m->inside_ns < rest_ns) return INT64_MAX;
  return rest_ns == 0 ? m->departed_ns + itself_ns : at_ns - (m->inside_ns - rest_ns);
}

enum { PEER, TICKET, ADDRESS, BYTES, RECEIVES };

static void post(np_endpoint* e, int peer, void* data, size_t bytes, np_request* request) {
  request->word[PEER] = (uint64_t)peer;
  request->word[TICKET] = e->posted[peer]++;
  request->word[ADDRESS] = (uint64_t)(uintptr_t)data;
  request->word[BYTES] = bytes;
  request->word[RECEIVES] = 1;
}

/* The message of this request, when it has arrived by now. */
static np_status take(np_endpoint* e, np_request* request, int64_t entered_ns, int64_t at_ns) {
  channel* const c = channel_of(e, (int)request->word[PEER], e->context->rank);
  const uint64_t ticket = request->word[TICKET];
  if (atomic_load_explicit(&c->sent, memory_order_acquire) <= ticket) return NP_PENDING;
  message* m = &c->messages[ticket % MESSAGES];
  const int64_t arrived_ns = arrival_ns(e, m, at_ns);
  if (arrived_ns > at_ns) return NP_PENDING;
  if (m->bytes != request->word[BYTES]) {
    snprintf(e->context->message, e->context->message_bytes, "a message of %" PRIu64 " bytes instead of %" PRIu64,
             m->bytes, request->word[BYTES]);
    return NP_FAILED;
  }
  const int64_t begin_ns = arrived_ns > entered_ns ? arrived_ns : entered_ns;
  const int64_t end_ns = begin_ns + with_bytes(e, RECV_OVERHEAD, OVERHEAD_PER_KIB, m->bytes);
  memcpy((void*)(uintptr_t)request->word[ADDRESS], c->data + m->offset, m->bytes);
  m->taken = 1;
  uint64_t done = atomic_load_explicit(&c->done, memory_order_relaxed);
  uint64_t got = atomic_load_explicit(&c->got, memory_order_relaxed);
  for (; done <= ticket && c->messages[done % MESSAGES].taken; ++done) {
    m = &c->messages[done % MESSAGES];
    got += (m->offset + e->ring_bytes - got % e->ring_bytes) % e->ring_bytes + m->bytes;
  }
  atomic_store_explicit(&c->got, got, memory_order_release);
  atomic_store_explicit(&c->done, done, memory_order_release);
  return leave_at(e, end_ns);
}

static np_status wait_for(np_endpoint* e, np_request* request) {
  if (!request->word[RECEIVES]) return NP_OK; /* what was sent has been copied */
  const int64_t entered_ns = entered(e);
  for (int64_t last_ns = entered_ns;;) {
    const int64_t at_ns = now_ns();
    progress(e, last_ns, at_ns);
    last_ns = at_ns;
    const np_status status = take(e, request, entered_ns, at_ns);
    if (status != NP_PENDING) return status;
    if (linger(e) != NP_OK) return NP_ABORTED;
  }
}

static np_status synthetic_test(np_endpoint* e, np_request* request) {
  if (!request->word[RECEIVES]) return NP_OK;
  const int64_t entered_ns = entered(e);
  const int64_t at_ns = now_ns();
  progress(e, entered_ns, at_ns);
  return take(e, request, entered_ns, at_ns);
}

static np_status synthetic_irecv(np_endpoint* e, int peer, void* data, size_t stride, size_t bytes,
                                 np_request* requests, size_t count) {
  for (size_t i = 0; i < count; ++i) post(e, peer, (char*)data + i * stride, bytes, &requests[i]);
  return NP_OK;
}

static np_status synthetic_wait(np_endpoint* e, np_request* requests, size_t count) {
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) status = wait_for(e, &requests[i]);
  return status;
}

static np_status synthetic_recv(np_endpoint* e, int peer, void* data, size_t bytes) {
  np_request request;
  post(e, peer, data, bytes, &request);
  return wait_for(e, &request);
}

static np_status synthetic_isend(np_endpoint* e, int peer, const void* data, size_t stride, size_t bytes,
                                 np_request* requests, size_t count) {
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) {
    requests[i].word[RECEIVES] = 0;
    status = synthetic_send(e, peer, (const char*)data + i * stride, bytes);
  }
  return status;
}

/* -------------------------------------------------------------------------------------------------- the endpoint */

static void synthetic_close(np_endpoint* e) {
  if (e->memory != NULL) munmap(e->memory, e->memory_bytes);
  if (e->fd >= 0) close(e->fd);
  free(e->posted);
  free(e);
}

static int64_t reading_ns(void) {
  enum { batches = 9, readings = 200 };
  int64_t best = INT64_MAX;
  for (int i = 0; i < batches; ++i) {
    const int64_t begin = now_ns();
    for (int k = 0; k < readings; ++k) (void)now_ns();
    const int64_t each = (now_ns() - begin) / readings;
    if (each < best) best = each;
  }
  return best;
}

static np_status synthetic_open(const np_context* context, np_endpoint** endpoint) {
  np_endpoint* const e = (np_endpoint*)calloc(1, sizeof *e);
  if (e == NULL) return NP_NO_MEMORY;
  e->context = context;
  e->fd = -1;
  e->posted = (uint64_t*)calloc((size_t)context->nranks, sizeof *e->posted);
  e->reading_ns = reading_ns();
  const size_t largest = context->max_bytes < 4096 ? 4096 : context->max_bytes;
  e->ring_bytes = (IN_FLIGHT * largest + 4095) / 4096 * 4096;
  e->channel_bytes = (sizeof(channel) + e->ring_bytes + 4095) / 4096 * 4096;
  e->memory_bytes = (size_t)context->nranks * (size_t)context->nranks * e->channel_bytes;
  if (context->rank == 0) e->fd = memfd_create("netpipe-synthetic", MFD_CLOEXEC);
  if (e->posted == NULL || (context->rank == 0 && ftruncate(e->fd, (off_t)e->memory_bytes) != 0)) {
    const np_status status = fail(e, NP_NO_MEMORY, "no memory for its messages");
    synthetic_close(e);
    return status;
  }
  *endpoint = e;
  return NP_OK;
}

static np_status synthetic_address(np_endpoint* e, void* data, size_t* bytes) {
  const size_t room = *bytes;
  const int length = e->context->rank == 0 ? snprintf(data, room, "/proc/%d/fd/%d", (int)getpid(), e->fd) : 0;
  *bytes = (size_t)length;
  return NP_OK;
}

static np_status synthetic_connect(np_endpoint* e, const void* const* addresses, const size_t* bytes) {
  if (e->context->rank != 0) {
    char path[64] = "";
    memcpy(path, addresses[0], bytes[0] < sizeof path ? bytes[0] : sizeof path - 1);
    e->fd = open(path, O_RDWR | O_CLOEXEC);
    if (e->fd < 0) return fail(e, NP_UNAVAILABLE, "the memory of rank 0 cannot be opened; its ranks need one host");
  }
  void* const memory = mmap(NULL, e->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, e->fd, 0);
  if (memory == MAP_FAILED) return fail(e, NP_NO_MEMORY, "no memory for its messages");
  e->memory = (char*)memory;
  return NP_OK;
}

static np_status synthetic_limits(np_endpoint* e, np_limits* limits) {
  limits->max_message_bytes = e->context->max_bytes;
  return NP_OK;
}

static void synthetic_describe(np_endpoint* e, np_emit emit, void* to) {
  np_emit_integer(emit, to, "clock_reading_ns", e->reading_ns, "ns");
  np_emit_text(emit, to, "wait", e->context->oversubscribed ? "yield" : "poll");
}

static const np_counter counters[] = {
    {"late", "1", "calls that took longer than the model says", NP_COUNTS_UP},
    {"full", "1", "sends that had to wait for room", NP_COUNTS_UP},
};

static void synthetic_counters(np_endpoint* e, int64_t* values) {
  values[0] = (int64_t)e->late;
  values[1] = (int64_t)e->full;
}

static const np_module table = {
    .magic = NP_MAGIC,
    .abi = NP_ABI,
    .size = sizeof(np_module),
    .name = "synthetic",
    .summary = "test: behaves as a model says",
    .version = "test",
    .options = options,
    .noptions = sizeof options / sizeof options[0],
    .option_bytes = sizeof(np_option),
    .counters = counters,
    .ncounters = sizeof counters / sizeof counters[0],
    .counter_bytes = sizeof(np_counter),
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .messages = &(const np_messages){.size = sizeof(np_messages),
                                     .send = synthetic_send,
                                     .recv = synthetic_recv,
                                     .isend = synthetic_isend,
                                     .irecv = synthetic_irecv},
    .open = synthetic_open,
    .close = synthetic_close,
    .address = synthetic_address,
    .connect = synthetic_connect,
    .limits = synthetic_limits,
    .wait = synthetic_wait,
    .test = synthetic_test,
    .describe = synthetic_describe,
    .read_counters = synthetic_counters,
};

const np_module* netpipe_module(void) { return &table; }
