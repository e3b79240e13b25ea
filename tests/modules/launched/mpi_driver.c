/* SPDX-License-Identifier: Apache-2.0
 *
 * Drives one module of an MPI without the rest of netpipe, as a process of that MPI's launcher:
 *
 *     mpirun -n 2 mpi_driver FILE.so OPTION=VALUE,... describe | verify MAX_BYTES | flight | collectives | windows
 *     mpirun -n 2 mpi_driver FILE.so OPTION=VALUE,... big BYTES
 *     mpirun -n 2 mpi_driver FILE.so OPTION=VALUE,... compare BYTES...       (built by mpicc with -DWITH_BARE)
 *
 * Without options: "-".
 *
 * compare sets the module's send and recv beside MPI_Send and MPI_Recv written by hand, in the same processes and in
 * batches that alternate. Exits with 0, or with the module's status and its sentence on stderr.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "netpipe/module.h"
#ifdef WITH_BARE
#include <mpi.h>
#endif

#define MOST_OPTIONS 64
static volatile int aborted = 0;
static char sentence[1024];
static np_value values[MOST_OPTIONS];
static np_context context;
static const np_module* module;
static np_endpoint* endpoint;
static np_bootstrap ranks;

static void check(np_status status, const char* what) {
  if (status == NP_OK) return;
  fprintf(stderr, "rank %d: %s: status %d: %s\n", ranks.rank, what, (int)status, sentence);
  _exit((int)status);
}

static void wrong(const char* what, uint64_t bytes, uint64_t at) {
  fprintf(stderr, "rank %d: %s: %" PRIu64 " bytes: byte %" PRIu64 " is wrong\n", ranks.rank, what, bytes, at);
  _exit(1);
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int64_t parse_number(const char* text) {
  char* end = NULL;
  const int64_t number = strtoll(text, &end, 10);
  if (*end == 'k') return number << 10;
  if (*end == 'M') return number << 20;
  if (*end == 'G') return number << 30;
  return number;
}

static int set_value(uint32_t i, const char* text) {
  const np_option* const option = &module->options[i];
  values[i].text = text;
  if (option->type == NP_INT || option->type == NP_SIZE) values[i].number = parse_number(text);
  if (option->type == NP_BOOL) values[i].number = strcmp(text, "yes") == 0;
  if (option->type != NP_CHOICE) return 1;
  const size_t length = strlen(text);
  int64_t place = 0;
  for (const char* at = option->choices;; ++place) {
    const size_t word = strcspn(at, "|");
    if (word == length && strncmp(at, text, length) == 0) break;
    if (at[word] == '\0') return 0;
    at += word + 1;
  }
  values[i].number = place;
  return 1;
}

static void set_options(char* text) {
  for (uint32_t i = 0; i < module->noptions; ++i) set_value(i, module->options[i].default_value);
  for (char* one = strcmp(text, "-") == 0 ? NULL : strtok(text, ","); one != NULL; one = strtok(NULL, ",")) {
    char* const value = strchr(one, '=');
    uint32_t i = 0;
    if (value != NULL) *value = '\0';
    while (i < module->noptions && strcmp(module->options[i].name, one) != 0) ++i;
    if (value == NULL || i == module->noptions || !set_value(i, value + 1)) {
      fprintf(stderr, "no option %s of %s, or not this value\n", one, module->version);
      _exit(NP_USAGE);
    }
  }
}

static void show(void* to, const np_fact* fact) {
  (void)to;
  char number[64] = "";
  if (fact->kind == NP_FACT_INTEGER) snprintf(number, sizeof number, "%" PRId64, fact->integer);
  if (fact->kind == NP_FACT_REAL) snprintf(number, sizeof number, "%g", fact->real);
  if (fact->kind == NP_FACT_BOOL) snprintf(number, sizeof number, "%s", fact->integer != 0 ? "yes" : "no");
  /* In one write: launchers put the ranks' output together as it comes, and some libraries take stdout's buffer away.
   */
  char line[8192];
  const int length = snprintf(line, sizeof line, "rank %d %s: %s\n", ranks.rank, fact->name,
                              fact->kind == NP_FACT_TEXT ? fact->text : number);
  fflush(stdout);
  if (write(STDOUT_FILENO, line, length < (int)sizeof line ? (size_t)length : sizeof line) < 0) exit(NP_FAILED);
}

static void show_counters(void) {
  int64_t counted[16];
  module->read_counters(endpoint, counted);
  for (uint32_t i = 0; i < module->ncounters; ++i) {
    if (counted[i] == INT64_MIN) continue;
    printf("rank %d %s: %" PRId64 "\n", ranks.rank, module->counters[i].name, counted[i]);
  }
}

/* Every byte depends on its place, its message and its sender. */
static unsigned char byte_of(uint64_t at, uint64_t message, int sender) {
  return (unsigned char)((at * 131 + (at >> 8) * 17 + (at >> 16) * 7 + message * 29 + (uint64_t)sender * 101 + 3) &
                         255);
}
static void fill(unsigned char* data, uint64_t bytes, uint64_t message, int sender) {
  for (uint64_t i = 0; i < bytes; ++i) data[i] = byte_of(i, message, sender);
}
static void examine(const unsigned char* data, uint64_t bytes, uint64_t message, int sender, const char* what) {
  for (uint64_t i = 0; i < bytes; ++i) {
    if (data[i] != byte_of(i, message, sender)) wrong(what, bytes, i);
  }
  for (int i = 0; i < 64; ++i) {
    if (data[bytes + (unsigned)i] != 0x5a) wrong(what, bytes, bytes + (unsigned)i);
  }
}

static unsigned char* memory_of(uint64_t bytes) {
  unsigned char* const data = malloc(bytes + 64);
  if (data == NULL) {
    fprintf(stderr, "no memory\n");
    _exit(NP_NO_MEMORY);
  }
  memset(data, 0x5a, bytes + 64);
  return data;
}

/* Ranks in pairs; each size several times, from the same buffer and from others. */
static void verify(uint64_t most) {
  const int peer = ranks.rank ^ 1;
  unsigned char* const out = memory_of(most + 4096);
  unsigned char* const in = memory_of(most + 4096);
  uint64_t message = 0, sizes = 0;
  if (peer >= ranks.nranks) return;
  for (uint64_t base = 0; base <= most; base = base == 0 ? 1 : 2 * base) {
    for (int64_t add = -3; add <= 3; add += 3) {
      const uint64_t bytes = base + (uint64_t)add;
      if ((int64_t)bytes < 0 || bytes > most || (base < 4 && add < 0)) continue;
      ++sizes;
      const np_visit visit = {
          .size = sizeof visit, .bytes = bytes, .outgoing = {(char*)out, 64, 1, 0}, .incoming = {(char*)in, 64, 1, 0}};
      check(module->prepare(endpoint, &visit), "prepare");
      for (int turn = 0; turn < 4; ++turn, ++message) {
        const uint64_t offset = turn == 2 ? 64 : turn == 3 ? 1 : 0;
        fill(out + offset, bytes, message, ranks.rank);
        memset(in + offset, 0x5a, bytes + 64);
        if ((ranks.rank & 1) == 0) {
          check(module->messages->send(endpoint, peer, out + offset, bytes), "send");
          check(module->messages->recv(endpoint, peer, in + offset, bytes), "recv");
        } else {
          check(module->messages->recv(endpoint, peer, in + offset, bytes), "recv");
          check(module->messages->send(endpoint, peer, out + offset, bytes), "send");
        }
        examine(in + offset, bytes, message, peer, "pingpong");
      }
    }
  }
  /* A stream in one direction, without an answer in between. */
  for (int i = 0; i < 200; ++i) {
    const uint64_t bytes = most < 10000 ? most : 10000;
    if ((ranks.rank & 1) == 0) {
      fill(out, bytes, 1000 + (uint64_t)i, ranks.rank);
      check(module->messages->send(endpoint, peer, out, bytes), "send");
    } else {
      memset(in, 0x5a, bytes + 64);
      check(module->messages->recv(endpoint, peer, in, bytes), "recv");
      examine(in, bytes, 1000 + (uint64_t)i, peer, "stream");
    }
  }
  if (ranks.rank == 0) printf("verified %" PRIu64 " messages of %" PRIu64 " sizes\n", message + 200, sizes);
  free(out);
  free(in);
}

/* Both ways at once, several messages at a time, then the same with test. */
static void flight(void) {
  enum { MESSAGES = 16 };
  const int peer = ranks.rank ^ 1;
  const uint64_t sizes[] = {0, 1, 1000, 100000, 1000000};
  np_request requests[2 * MESSAGES];
  if (peer >= ranks.nranks) return;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    unsigned char *out[MESSAGES], *in[MESSAGES];
    for (int i = 0; i < MESSAGES; ++i) {
      out[i] = memory_of(sizes[s]);
      in[i] = memory_of(sizes[s]);
    }
    for (int round = 0; round < 4; ++round) {
      for (int i = 0; i < MESSAGES; ++i) {
        fill(out[i], sizes[s], (uint64_t)(round * MESSAGES + i), ranks.rank);
        memset(in[i], 0x5a, sizes[s] + 64);
        check(module->messages->irecv(endpoint, peer, in[i], 0, sizes[s], &requests[i], 1), "irecv");
      }
      for (int i = 0; i < MESSAGES; ++i)
        check(module->messages->isend(endpoint, peer, out[i], 0, sizes[s], &requests[MESSAGES + i], 1), "isend");
      for (int i = 0; i < 2 * MESSAGES; ++i) {
        np_status status = NP_PENDING;
        while (round % 2 == 1 && (status = module->test(endpoint, &requests[i])) == NP_PENDING) continue;
        if (round % 2 == 0) status = module->wait(endpoint, &requests[i], 1);
        check(status, "wait");
      }
      for (int i = 0; i < MESSAGES; ++i) examine(in[i], sizes[s], (uint64_t)(round * MESSAGES + i), peer, "in flight");
    }
    for (int i = 0; i < MESSAGES; ++i) {
      free(out[i]);
      free(in[i]);
    }
  }
  if (ranks.rank == 0) printf("verified %d messages in flight\n", 5 * 4 * MESSAGES * 2);
}

static int sums(int what) {
  return what == NP_REDUCE || what == NP_ALLREDUCE || what == NP_REDUCE_SCATTER || what == NP_REDUCE_SCATTER_BLOCK ||
         what == NP_SCAN || what == NP_EXSCAN;
}

/* Doubles that depend on the sender and the place, so that every result can be computed. */
static void collectives(void) {
  const int n = ranks.nranks, me = ranks.rank, root = n - 1;
  const uint64_t sizes[] = {8, 800, 80000};
  uint64_t done = 0;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    const size_t doubles = sizes[s] / 8, all = doubles * (size_t)n;
    double* const source = malloc(all * 8);
    double* const target = malloc(all * 8);
    for (int what = NP_BCAST; what <= NP_NEIGHBOR_ALLTOALLW; ++what) {
      np_prepared prepared;
      const np_datatype datatype = sums(what) ? NP_DOUBLE : NP_BYTE;
      const np_collective_plan plan = {.size = sizeof plan,
                                       .what = (uint32_t)what,
                                       .datatype = datatype,
                                       .root = root,
                                       .requests = 1,
                                       .count = datatype == NP_DOUBLE ? doubles : sizes[s]};
      const np_status prepares = module->collectives->prepare(endpoint, &plan, &prepared);
      if (prepares == NP_UNSUPPORTED) continue;
      check(prepares, "prepare");
      for (int way = 0; way < 4; ++way) { /* twice blocking, twice with a request */
        for (size_t i = 0; i < all; ++i) {
          source[i] = (double)(me * 1000003) + (double)i;
          target[i] = -1;
        }
        np_request request;
        np_status status = prepared.call(endpoint, prepared.state, source, target, way < 2 ? NULL : &request);
        if (status == NP_UNSUPPORTED && way >= 2) continue;
        check(status, "collective");
        if (way >= 2) check(module->wait(endpoint, &request, 1), "wait");
        ++done;
        static const int plain[] = {[NP_GATHERV] = NP_GATHER,
                                    [NP_SCATTERV] = NP_SCATTER,
                                    [NP_ALLGATHERV] = NP_ALLGATHER,
                                    [NP_ALLTOALLV] = NP_ALLTOALL,
                                    [NP_ALLTOALLW] = NP_ALLTOALL,
                                    [NP_REDUCE_SCATTER] = NP_REDUCE_SCATTER_BLOCK,
                                    [NP_NEIGHBOR_ALLGATHERV] = NP_NEIGHBOR_ALLGATHER,
                                    [NP_NEIGHBOR_ALLTOALLV] = NP_NEIGHBOR_ALLTOALL,
                                    [NP_NEIGHBOR_ALLTOALLW] = NP_NEIGHBOR_ALLTOALL};
        const int kind = what < (int)(sizeof plain / sizeof *plain) && plain[what] != 0 ? plain[what] : what;
        const int neighbors[] = {(me + n - 1) % n, (me + 1) % n};
        if (what == NP_EXSCAN && me == 0) continue; /* MPI leaves it open */
        for (size_t i = 0; i < all; ++i) {
          const size_t from = i / doubles, at = i % doubles;
          const double sum = 1000003.0 * n * (n - 1) / 2;
          double expected = -1;
          if (kind == NP_BCAST && i < doubles && me != root) expected = root * 1000003.0 + (double)i;
          if (kind == NP_REDUCE && i < doubles && me == root) expected = sum + (double)n * (double)i;
          if (kind == NP_ALLREDUCE && i < doubles) expected = sum + (double)n * (double)i;
          if (kind == NP_GATHER && me == root) expected = (double)from * 1000003.0 + (double)at;
          if (kind == NP_ALLGATHER) expected = (double)from * 1000003.0 + (double)at;
          if (kind == NP_SCATTER && i < doubles) expected = root * 1000003.0 + (double)((size_t)me * doubles + i);
          if (kind == NP_REDUCE_SCATTER_BLOCK && i < doubles)
            expected = sum + (double)n * (double)((size_t)me * doubles + i);
          if (kind == NP_ALLTOALL) expected = (double)from * 1000003.0 + (double)((size_t)me * doubles + at);
          if (kind == NP_SCAN && i < doubles) expected = 1000003.0 * me * (me + 1) / 2 + (double)(me + 1) * (double)i;
          if (kind == NP_EXSCAN && i < doubles) expected = 1000003.0 * me * (me - 1) / 2 + (double)me * (double)i;
          if (kind == NP_NEIGHBOR_ALLGATHER && from < 2) expected = neighbors[from] * 1000003.0 + (double)at;
          /* With two ranks both neighbours are one, and which of its blocks comes first MPI has left open. */
          if (kind == NP_NEIGHBOR_ALLTOALL && from < 2) {
            expected = neighbors[from] * 1000003.0 + (double)((1 - from) * doubles + at);
            const double other = neighbors[from] * 1000003.0 + (double)(from * doubles + at);
            if (n == 2 && target[i] == other) continue;
          }
          if (target[i] != expected) {
            fprintf(stderr, "rank %d: collective %d way %d: double %zu is %g and not %g\n", me, what, way, i, target[i],
                    expected);
            _exit(1);
          }
        }
      }
      module->collectives->release(endpoint, &prepared);
    }
    free(source);
    free(target);
  }
  check(module->barrier(endpoint), "barrier");
  if (me == 0) printf("verified %" PRIu64 " collective operations\n", done);
}

/* One message each way in one buffer, looked at in a few places only. */
static void big(uint64_t bytes) {
  unsigned char* const data = malloc(bytes);
  const uint64_t step = 65521 * 16;
  if (data == NULL) _exit(NP_NO_MEMORY);
  for (int turn = 0; turn < 2; ++turn) {
    if (ranks.rank == turn) {
      for (uint64_t i = 0; i < bytes; i += step) data[i] = byte_of(i, 7, turn);
      data[bytes - 1] = 0x77;
      check(module->messages->send(endpoint, 1 - turn, data, bytes), "send");
    } else if (ranks.rank < 2) {
      memset(data, 0, bytes);
      check(module->messages->recv(endpoint, turn, data, bytes), "recv");
      for (uint64_t i = 0; i + 1 < bytes; i += step)
        if (data[i] != byte_of(i, 7, turn)) wrong("big", bytes, i);
      if (data[bytes - 1] != 0x77) wrong("big", bytes, bytes - 1);
    }
  }
  if (ranks.rank == 0) printf("verified 2 messages of %" PRIu64 " bytes\n", bytes);
  free(data);
}

#ifdef WITH_BARE
static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}
static double median(double* all, int count) {
  qsort(all, (size_t)count, sizeof *all, by_value);
  return count % 2 ? all[count / 2] : (all[count / 2 - 1] + all[count / 2]) / 2;
}

static void bare_batch(char* data, int bytes, int64_t rounds) {
  if (ranks.rank == 0) {
    for (int64_t i = 0; i < rounds; ++i) {
      MPI_Send(data, bytes, MPI_BYTE, 1, 9, MPI_COMM_WORLD);
      MPI_Recv(data, bytes, MPI_BYTE, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  } else {
    for (int64_t i = 0; i < rounds; ++i) {
      MPI_Recv(data, bytes, MPI_BYTE, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(data, bytes, MPI_BYTE, 0, 9, MPI_COMM_WORLD);
    }
  }
}
static void module_batch(char* data, size_t bytes, int64_t rounds) {
  np_status (*const send)(np_endpoint*, int, const void*, size_t) = module->messages->send;
  np_status (*const recv)(np_endpoint*, int, void*, size_t) = module->messages->recv;
  np_status status = NP_OK;
  if (ranks.rank == 0) {
    for (int64_t i = 0; i < rounds && status == NP_OK; ++i) {
      if ((status = send(endpoint, 1, data, bytes)) != NP_OK) break;
      status = recv(endpoint, 1, data, bytes);
    }
  } else {
    for (int64_t i = 0; i < rounds && status == NP_OK; ++i) {
      if ((status = recv(endpoint, 0, data, bytes)) != NP_OK) break;
      status = send(endpoint, 0, data, bytes);
    }
  }
  check(status, "pingpong");
}

static void compare(uint64_t bytes, double seconds) {
  enum { BATCHES = 201 };
  static double of_bare[BATCHES], of_module[BATCHES], ratios[BATCHES];
  char* const data = aligned_alloc(4096, (bytes + 8191) / 4096 * 4096);
  memset(data, 1, bytes + 1);
  if (ranks.rank > 1) return;
  int64_t rounds = 10, begin = now_ns();
  bare_batch(data, (int)bytes, rounds);
  const double one = (double)(now_ns() - begin) / (double)rounds;
  rounds = (int64_t)(seconds * 1e9 / (2 * BATCHES) / one) + 1;
  MPI_Bcast(&rounds, sizeof rounds, MPI_BYTE, 0, MPI_COMM_WORLD);
  for (int i = 0; i < BATCHES; ++i) {
    for (int turn = 0; turn < 2; ++turn) {
      const int is_module = (turn ^ i) & 1; /* each goes first as often as the other */
      begin = now_ns();
      if (is_module) module_batch(data, bytes, rounds);
      if (!is_module) bare_batch(data, (int)bytes, rounds);
      (is_module ? of_module : of_bare)[i] = (double)(now_ns() - begin) / (double)rounds / 2;
    }
    ratios[i] = of_module[i] / of_bare[i];
  }
  if (ranks.rank == 0) {
    const double ratio = median(ratios, BATCHES), bare = median(of_bare, BATCHES);
    printf("%9" PRIu64 " bytes: bare %10.1f ns, module %10.1f ns, ratio of medians %.4f, median of ratios %.4f\n",
           bytes, bare, median(of_module, BATCHES), median(of_module, BATCHES) / bare, ratio);
  }
  free(data);
}
#endif

/* Memory that is opened and closed again and again, more often than there is room for windows at a time. */
static void windows(void) {
  enum { BYTES = 1 << 16, TIMES = 12 };
  void* memory = NULL;
  if (posix_memalign(&memory, 4096, BYTES) != 0) exit(NP_NO_MEMORY);
  for (int i = 0; i < TIMES; ++i) {
    np_region region;
    check(module->one_sided->expose(endpoint, memory, BYTES, &region), "expose");
    module->one_sided->withdraw(endpoint, &region);
  }
  free(memory);
  if (ranks.rank == 0) printf("opened memory %d times\n", TIMES);
}

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "mpi_driver FILE.so OPTIONS describe|verify|flight|collectives|windows|big|compare|table ...\n");
    return NP_USAGE;
  }
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return NP_UNAVAILABLE;
  }
  union {
    void* data;
    const np_module* (*call)(void);
  } const entry = {.data = dlsym(library, NP_ENTRY)};
  module = entry.call();
  if (strcmp(argv[3], "table") == 0) {
    printf("%s\n", module->version);
    for (uint32_t i = 0; i < module->noptions; ++i)
      printf("  %s=%s %s\n", module->options[i].name, module->options[i].default_value,
             module->options[i].choices == NULL ? "" : module->options[i].choices);
    return 0;
  }
  set_options(argv[2]);
  ranks.rank = -1;
  context = (np_context){.size = sizeof context,
                         .rank = -1,
                         .options = values,
                         .max_bytes = 64 << 20,
                         .abort = &aborted,
                         .message = sentence,
                         .message_bytes = sizeof sentence,
                         .local_address = "127.0.0.1",
                         .job = "driver",
                         .timeout_ns = INT64_C(10000000000),
                         .oversubscribed = getenv("OVERSUBSCRIBED") != NULL,
                         .threads = 1,
                         .rails = 1};
  const int64_t begin = now_ns();
  check(module->open(&context, &endpoint), "open");
  const double open_ms = (double)(now_ns() - begin) / 1e6;
  ranks.size = sizeof ranks;
  check(module->bootstrap(endpoint, &ranks), "bootstrap");
  if (ranks.nranks > 1) { /* the bootstrap itself: around the ring */
    int token = 41;
    const int right = (ranks.rank + 1) % ranks.nranks, left = (ranks.rank + ranks.nranks - 1) % ranks.nranks;
    if (ranks.rank == 0) check(ranks.send(ranks.state, right, &token, sizeof token), "bootstrap send");
    check(ranks.recv(ranks.state, left, &token, sizeof token), "bootstrap recv");
    if (ranks.rank != 0) check(ranks.send(ranks.state, right, &token, sizeof token), "bootstrap send");
    if (token != 41) wrong("bootstrap", sizeof token, 0);
  }
  if (ranks.rank == 0) printf("%s, %d ranks, opened in %.0f ms\n", module->version, ranks.nranks, open_ms);
  if (strcmp(argv[3], "describe") == 0) module->describe(endpoint, show, NULL);
  if (strcmp(argv[3], "verify") == 0) verify((uint64_t)parse_number(argv[4]));
  if (strcmp(argv[3], "flight") == 0) flight();
  if (strcmp(argv[3], "collectives") == 0) collectives();
  if (strcmp(argv[3], "windows") == 0) windows();
  if (strcmp(argv[3], "big") == 0) big((uint64_t)parse_number(argv[4]));
#ifdef WITH_BARE
  const char* const seconds = getenv("SECONDS_A_SIZE");
  for (int i = 4; strcmp(argv[3], "compare") == 0 && i < argc; ++i)
    compare((uint64_t)parse_number(argv[i]), seconds == NULL ? 1.0 : atof(seconds));
#endif
  if (getenv("SHOW_COUNTERS") != NULL) show_counters();
  module->close(endpoint);
  return 0;
}
