/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a module whose ranks a launcher starts, and tries every one-sided operation that its table has between the
 * ranks of each pair, byte by byte: what patterns alone would leave untried, or would try only in their own way. The
 * library's launcher starts it: oshrun -n 2 launched_module MODULE.so [OPTION=VALUE]... [times=N]. It prints what it
 * tried.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netpipe/module.h"

#define BYTES (1 << 16)
#define CHECK(condition)                                                                            \
  do {                                                                                              \
    if (!(condition)) {                                                                             \
      fprintf(stderr, "rank %d, line %d: not %s (%s)\n", boot.rank, __LINE__, #condition, message); \
      exit(1);                                                                                      \
    }                                                                                               \
  } while (0)

static int given_up;
static char message[1024];
static np_bootstrap boot;
static const np_module* module;
static np_endpoint* endpoint;
static np_region far_in, own_in;
static char *out, *in;
static int peer, origin;
static uint64_t times = 3000; /* signals: several turns of any ring */

static void tried(const char* what) {
  if (boot.rank == 0) printf("%s\n", what);
  fflush(stdout);
}

static void meet(void) { CHECK(module->barrier(endpoint) == NP_OK); }

static void fill(char* memory, int seed) {
  for (int i = 0; i < BYTES; ++i) memory[i] = (char)(i * 7 + i / 251 + seed);
}

static void open_module(const char* path, int argc, char** argv) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  const np_module* (*entry)(void);
  *(void**)(&entry) = dlsym(library, NP_ENTRY);
  module = entry();
  np_value* const values = calloc(module->noptions, sizeof *values);
  for (uint32_t i = 0; i < module->noptions; ++i) {
    const np_option* const option = &module->options[i];
    values[i].text = option->default_value;
    for (int a = 0; a < argc; ++a) {
      const size_t length = strlen(option->name);
      if (strncmp(argv[a], option->name, length) == 0 && argv[a][length] == '=') values[i].text = argv[a] + length + 1;
    }
    values[i].number = strcmp(values[i].text, "8k") == 0    ? 8192
                       : strcmp(values[i].text, "yes") == 0 ? 1
                                                            : atoll(values[i].text);
    int number = 0;
    for (const char* at = option->choices; at != NULL && *at != '\0'; ++number) {
      const size_t word = strcspn(at, "|");
      if (word == strlen(values[i].text) && strncmp(at, values[i].text, word) == 0) values[i].number = number;
      at += word + (at[word] == '|');
    }
  }
  static np_context context;
  context = (np_context){.size = sizeof context,
                         .rank = -1,
                         .options = values,
                         .max_bytes = BYTES,
                         .abort = &given_up,
                         .message = message,
                         .message_bytes = sizeof message,
                         .local_address = "127.0.0.1",
                         .job = "job",
                         .timeout_ns = INT64_C(10000000000),
                         .oversubscribed = 1};
  CHECK(module->open(&context, &endpoint) == NP_OK);
  CHECK(module->bootstrap(endpoint, &boot) == NP_OK);
  context.rank = boot.rank;
  context.nranks = boot.nranks;
}

/* As netpipe does it: every rank exposes its memory, and attaches that of the rank that mirrors it. */
static void reach_peer(void) {
  const np_memory* const memory = module->memories[0];
  CHECK(memory->alloc(endpoint, BYTES, (void**)&in) == NP_OK);
  CHECK(memory->alloc(endpoint, BYTES, (void**)&out) == NP_OK);
  memset(in, 0, BYTES);
  fill(out, boot.rank);
  peer = boot.nranks - 1 - boot.rank;
  origin = boot.rank < peer;
  CHECK(module->one_sided->expose(endpoint, in, BYTES, &own_in) == NP_OK);
  far_in = own_in;
  if (origin) {
    CHECK(boot.send(boot.state, peer, &own_in, sizeof own_in) == NP_OK);
    CHECK(boot.recv(boot.state, peer, &far_in, sizeof far_in) == NP_OK);
  } else {
    CHECK(boot.recv(boot.state, peer, &far_in, sizeof far_in) == NP_OK);
    CHECK(boot.send(boot.state, peer, &own_in, sizeof own_in) == NP_OK);
  }
  memset(far_in.word, 0, sizeof far_in.word);
  CHECK(module->one_sided->attach(endpoint, peer, &far_in) == NP_OK);
  const np_visit visit = {.size = sizeof visit,
                          .reach = NP_REACH_PUT,
                          .bytes = 8,
                          .outgoing = {out, 8, 1, 0},
                          .incoming = {in, 8, 1, 0},
                          .uses = NP_USES_ONE_SIDED};
  CHECK(module->prepare(endpoint, &visit) == NP_OK);
}

static void try_put_and_get(void) {
  const np_one_sided* const o = module->one_sided;
  if (origin) {
    CHECK(o->put(endpoint, peer, out + 3, &far_in, 5, 4099) == NP_OK);
    CHECK(o->flush(endpoint, peer) == NP_OK);
  }
  meet();
  char expected[BYTES];
  fill(expected, origin ? boot.rank : peer);
  if (!origin) {
    CHECK(memcmp(in + 5, expected + 3, 4099) == 0);
    CHECK(in[4] == 0 && in[5 + 4099] == 0);
    memcpy(in, out, 1000);
  }
  meet();
  if (origin) {
    char* const there = out + 8192; /* in memory that the layer knows */
    fill(expected, peer);
    CHECK(o->get(endpoint, peer, there, &far_in, 7, 501) == NP_OK);
    CHECK(o->flush(endpoint, peer) == NP_OK);
    CHECK(memcmp(there, expected + 7, 501) == 0);
    fill(out, boot.rank);
  }
  meet();
  tried("put get");
}

/* Three that are started in one call, each from and to a place of its own. */
static void try_requests(void) {
  const np_one_sided* const o = module->one_sided;
  enum { COUNT = 3, PIECE = 1031, NEAR = 2048, FAR = 3072 };
  np_request requests[COUNT];
  memset(in, 0, BYTES);
  meet();
  if (origin) {
    CHECK(o->iput(endpoint, peer, out + 3, NEAR, &far_in, 5, FAR, PIECE, requests, COUNT) == NP_OK);
    CHECK(module->wait(endpoint, requests, COUNT) == NP_OK);
    memset(out, 0, BYTES); /* the sources may be used again */
    CHECK(o->flush(endpoint, peer) == NP_OK);
    fill(out, boot.rank);
  }
  meet();
  if (!origin) {
    char wanted[BYTES], expected[BYTES] = {0};
    fill(wanted, peer);
    for (int i = 0; i < COUNT; ++i) memcpy(expected + 5 + i * FAR, wanted + 3 + i * NEAR, PIECE);
    CHECK(memcmp(in, expected, BYTES) == 0);
    memcpy(in, out, BYTES);
  }
  meet();
  if (origin) {
    char wanted[BYTES];
    fill(wanted, peer);
    memset(out, 0, BYTES);
    CHECK(o->iget(endpoint, peer, out + 3, NEAR, &far_in, 5, FAR, PIECE, requests, COUNT) == NP_OK);
    CHECK(module->wait(endpoint, requests, COUNT) == NP_OK);
    for (int i = 0; i < COUNT; ++i) CHECK(memcmp(out + 3 + i * NEAR, wanted + 5 + i * FAR, PIECE) == 0);
    fill(out, boot.rank);
  }
  meet();
  tried("iput iget");
}

static void try_strided(uint64_t block, uint64_t near_stride, uint64_t far_stride) {
  const np_one_sided* const o = module->one_sided;
  const np_strided shape = {block, 20, near_stride, far_stride};
  memset(in, 0, BYTES);
  meet();
  if (origin) {
    CHECK(o->put_strided(endpoint, peer, out, &far_in, 16, &shape) == NP_OK);
    CHECK(o->flush(endpoint, peer) == NP_OK);
  }
  meet();
  if (!origin) {
    char wanted[BYTES], expected[BYTES] = {0};
    fill(wanted, peer);
    for (uint64_t i = 0; i < shape.blocks; ++i) memcpy(expected + 16 + i * far_stride, wanted + i * near_stride, block);
    CHECK(memcmp(in, expected, BYTES) == 0);
    memcpy(in, out, BYTES);
  }
  meet();
  if (origin) {
    char wanted[BYTES];
    fill(wanted, peer);
    CHECK(o->get_strided(endpoint, peer, out, &far_in, 16, &shape) == NP_OK);
    CHECK(o->flush(endpoint, peer) == NP_OK);
    for (uint64_t i = 0; i < shape.blocks; ++i) {
      CHECK(memcmp(out + i * near_stride, wanted + 16 + i * far_stride, block) == 0);
    }
    fill(out, boot.rank);
  }
  meet();
}

static void try_signals(void) {
  const np_one_sided* const o = module->one_sided;
  memset(in, 0, BYTES);
  meet();
  for (uint64_t i = 0; i < times; ++i) { /* in both directions */
    uint64_t value = 0;
    if (origin) {
      memcpy(out, &i, sizeof i);
      CHECK(o->put_signal(endpoint, peer, out, &far_in, 64, sizeof i, i * 3) == NP_OK);
      CHECK(o->await_signal(endpoint, peer, &value) == NP_OK);
      CHECK(value == i * 5);
    } else {
      CHECK(o->await_signal(endpoint, peer, &value) == NP_OK);
      CHECK(value == i * 3);
      CHECK(memcmp(in + 64, &i, sizeof i) == 0);
      CHECK(o->put_signal(endpoint, peer, out, &far_in, 64, sizeof i, i * 5) == NP_OK);
    }
  }
  if (origin) { /* and one direction alone: values wait for their receiver, none is lost */
    for (uint64_t i = 0; i < times; ++i) CHECK(o->put_signal(endpoint, peer, out, &far_in, 64, 8, i) == NP_OK);
  } else {
    for (uint64_t i = 0; i < times; ++i) {
      uint64_t value = 0;
      CHECK(o->await_signal(endpoint, peer, &value) == NP_OK);
      CHECK(value == i);
    }
  }
  fill(out, boot.rank);
  meet();
  tried("put_signal await_signal");
}

static uint64_t word_there(void) {
  uint64_t value = 0;
  memcpy(&value, in + 128, sizeof value);
  return value;
}

/* All ranks operate on one word of the last rank; what they fetch is checked by what the word becomes. */
static void try_atomics(void) {
  const np_one_sided* const o = module->one_sided;
  const np_atomic_call add = o->atomic(endpoint, NP_ATOMIC_ADD), fetch_add = o->atomic(endpoint, NP_ATOMIC_FETCH_ADD);
  const np_atomic_call swap = o->atomic(endpoint, NP_ATOMIC_SWAP), fetch = o->atomic(endpoint, NP_ATOMIC_FETCH);
  const np_atomic_call compare_swap = o->atomic(endpoint, NP_ATOMIC_COMPARE_SWAP),
                       set = o->atomic(endpoint, NP_ATOMIC_SET);
  uint64_t seen = 77;
  memset(in, 0, BYTES);
  meet();
  if (origin) {
    if (fetch_add != NULL) {
      for (uint64_t i = 0; i < 100; ++i) {
        CHECK(fetch_add(endpoint, peer, &far_in, 128, 2, 0, &seen) == NP_OK);
        CHECK(seen == 2 * i);
      }
      tried("fetch_add");
    }
    if (swap != NULL) {
      CHECK(swap(endpoint, peer, &far_in, 128, UINT64_C(0x123456789abcdef), 0, &seen) == NP_OK);
      CHECK(seen == (fetch_add != NULL ? 200 : 0));
      CHECK(swap(endpoint, peer, &far_in, 128, 5, 0, &seen) == NP_OK);
      CHECK(seen == UINT64_C(0x123456789abcdef));
      tried("swap");
    }
    if (set != NULL) {
      CHECK(set(endpoint, peer, &far_in, 128, 5, 0, &seen) == NP_OK);
      CHECK(o->flush(endpoint, peer) == NP_OK);
      tried("set");
    }
    if (compare_swap != NULL) {
      CHECK(compare_swap(endpoint, peer, &far_in, 128, 9, 6, &seen) == NP_OK);
      CHECK(seen == 5);
      CHECK(compare_swap(endpoint, peer, &far_in, 128, 9, 5, &seen) == NP_OK);
      CHECK(seen == 5);
      tried("compare_swap");
    }
    if (add != NULL) {
      CHECK(add(endpoint, peer, &far_in, 128, 1, 0, &seen) == NP_OK);
      CHECK(o->flush(endpoint, peer) == NP_OK);
      tried("add");
    }
    if (fetch != NULL) {
      CHECK(fetch(endpoint, peer, &far_in, 128, 0, 0, &seen) == NP_OK);
      CHECK(seen == 10);
      tried("fetch");
    }
  }
  meet();
  if (!origin) CHECK(word_there() == (compare_swap != NULL ? 10 : swap != NULL ? 5 : 200));
  meet();
}

static void try_accumulate(void) {
  const np_one_sided* const o = module->one_sided;
  double* const mine = (double*)(void*)out;
  for (int i = 0; i < 1000; ++i) {
    mine[i] = i + 0.5;
    ((double*)(void*)in)[i] = 100 * i;
  }
  meet();
  if (origin) {
    for (int i = 0; i < 3; ++i) CHECK(o->accumulate(endpoint, peer, mine, &far_in, 8, 900) == NP_OK);
    CHECK(o->flush(endpoint, peer) == NP_OK);
  }
  meet();
  if (!origin) {
    for (int i = 0; i < 1000; ++i) {
      const double added = i >= 1 && i <= 900 ? 3 * (i - 1 + 0.5) : 0;
      CHECK(((double*)(void*)in)[i] == 100 * i + added);
    }
  }
  fill(out, boot.rank);
  meet();
  tried("accumulate");
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  for (int i = 2; i < argc; ++i) {
    if (strncmp(argv[i], "times=", 6) == 0) times = (uint64_t)atoll(argv[i] + 6);
  }
  open_module(argv[1], argc - 2, argv + 2);
  reach_peer();
  const np_one_sided* const o = module->one_sided;
  try_put_and_get();
  if (o->iput != NULL) try_requests();
  if (o->put_strided != NULL) {
    try_strided(8, 64, 24);
    try_strided(4, 12, 4);
    try_strided(17, 40, 33);
    tried("put_strided get_strided");
  }
  if (o->put_signal != NULL) try_signals();
  if (o->atomic != NULL) try_atomics();
  if (o->accumulate != NULL) try_accumulate();
  for (np_region* region = &far_in;; region = &own_in) {
    module->one_sided->withdraw(endpoint, region);
    if (region == &own_in) break;
  }
  module->memories[0]->free(endpoint, in, BYTES);
  module->memories[0]->free(endpoint, out, BYTES);
  module->close(endpoint);
  tried("close");
  return 0;
}
