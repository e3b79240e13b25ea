/* SPDX-License-Identifier: Apache-2.0
 *
 * shmem: puts, gets, atomics and collectives of an OpenSHMEM library, and messages made of puts. It is not built with
 * netpipe: `netpipe modules add shmem --oshcc PATH` compiles this file with the library's own compiler wrapper into
 * shmem@NAME, and the library's oshrun starts the ranks.
 *
 * The library reads its settings once, in shmem_init, so a process has one variant (shmem_settings.h). Message memory
 * is symmetric: it has the same address on every rank, so no address has to travel. OpenSHMEM has no messages; those of
 * patterns that send and receive are made of puts and flags (kit/put_messages.h), which the receiver polls.
 *
 * A collective call of the library cannot be interrupted, nor can shmem_uint64_wait_until: netpipe ends a rank that
 * hangs there with its process. The library reports no errors: where it fails it ends the process.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <link.h>

#include "shmem_collectives.h"
#include "shmem_endpoint.h"
#include "shmem_one_sided.h"
#include "shmem_settings.h"

#define PAGE 4096
#define SMALL_BYTES (2 * LOOK_BYTES)

/* ---------------------------------------------------------------------------------------------- begin and end */

/* The library's plugins look for it among the global names, but a module is loaded with its names hidden. */
static void show_library_to_its_plugins(void) {
  Dl_info info;
  const union {
    void (*call)(void);
    void* data;
  } init = {.call = shmem_init};
  if (dladdr(init.data, &info) != 0 && info.dli_fname != NULL)
    dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

/* Open MPI 4 unloads the plugin mca_spml_ucx in shmem_finalize and calls into it afterwards, which crashes. */
static int keep_plugin(struct dl_phdr_info* info, size_t size, void* unused) {
  (void)size, (void)unused;
  if (strstr(info->dlpi_name, "/mca_spml_") != NULL) dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  return 0;
}

/* Open MPI registers all writable memory below the symbol _end as symmetric, to find the variables of the program; it
 * means the program's _end, and finds its own library's where the program exports none. Then the heap, stacks of
 * threads and whatever else lies below go with it, in another number on each rank, and shmem_init crashes now and then.
 * This module stands before the library where the loader looks for names, and says that nothing lies below. */
__asm__(".globl _end\n.set _end, 4096\n");

static void free_ends(struct pm_ends* m) { free(m->peers); }

static void shmem_close(np_endpoint* e) {
  if (*e->context->abort != 0) e->broken = 1; /* a rank may be missing */
  if (e->initialised && !e->broken) shmem_finalize();
  free_ends(&e->messages);
  free_ends(&e->control);
  free(e);
}

static np_status initialise(np_endpoint* e) {
  static int started; /* the library has no question for it before it runs */
  if (started) {
    return fail(e->context, NP_FAILED,
                "OpenSHMEM already runs in this process; it can be started once, for one variant");
  }
  started = 1;
  show_library_to_its_plugins();
  shmem_init();
  e->initialised = 1;
  dl_iterate_phdr(keep_plugin, NULL);
  e->rank = shmem_my_pe();
  e->nranks = shmem_n_pes();
  return NP_OK;
}

static np_status out_of_heap(np_endpoint* e, size_t bytes) {
  return fail(e->context, NP_NO_MEMORY,
              "the symmetric heap has no room for %zu bytes: give heap=SIZE, or a smaller end of "
              "the schedule",
              bytes);
}

/* Collective. */
static np_status make_ends(np_endpoint* e, struct pm_ends* m, uint32_t slots, uint32_t cell) {
  m->rank = e->rank;
  m->nranks = e->nranks;
  m->slots = slots;
  m->cell = cell;
  m->yields = e->context->oversubscribed != 0;
  m->peers = calloc((size_t)e->nranks, sizeof *m->peers);
  if (m->peers == NULL) return fail(e->context, NP_NO_MEMORY, "no memory for %d peers", e->nranks);
  m->block = shmem_align(PAGE, pm_block_bytes(m));
  if (m->block == NULL) return out_of_heap(e, pm_block_bytes(m));
  memset(m->block, 0, pm_block_bytes(m));
  return NP_OK;
}

/* Collective. Memory that the timed calls need. */
static np_status make_memory(np_endpoint* e) {
  const np_context* const c = e->context;
  PM_TRY(make_ends(e, &e->control, 4, CONTROL_BYTES));
  e->control.eager = UINT64_MAX;
  e->control.patient = 1;
  PM_TRY(make_ends(e, &e->messages, CELLS, CELL_BYTES));
  e->messages.eager = (uint64_t)number_of(c, OPTION_EAGER);
  e->control.placed_bytes = e->messages.placed_bytes = PM_NEVER;
  const size_t places = (size_t)e->nranks * sizeof *e->places, syncs = SYNCS * SYNC_LONGS * sizeof *e->syncs;
  e->places = shmem_align(PAGE, places);
  e->syncs = shmem_align(PAGE, syncs);
  e->small = shmem_align(PAGE, SMALL_BYTES);
  if (e->places == NULL || e->syncs == NULL || e->small == NULL) return out_of_heap(e, places + syncs + SMALL_BYTES);
  for (size_t i = 0; i < SYNCS * SYNC_LONGS; ++i) e->syncs[i] = SHMEM_SYNC_VALUE;
  memset(e->small, 0, SMALL_BYTES);
  shmem_barrier_all();
  return NP_OK;
}

/* What the library has to be called for while a rank waits. Through shared memory nothing, but a message of somebody
 * else may need it. */
static void choose_progress(np_endpoint* e) {
  const uint64_t mask = e->transport_found == FOUND_SHM ? 255 : 0;
  e->control.progress_mask = mask;
  e->messages.progress_mask = mask;
}

/* Only here may a module with a launcher wait for the other ranks: shmem_init is collective. */
static np_status shmem_open(const np_context* context, np_endpoint** endpoint) {
  np_endpoint* const e = calloc(1, sizeof *e);
  if (e == NULL) return fail(context, NP_NO_MEMORY, "no memory for an endpoint");
  e->context = context;
  e->order = (int)number_of(context, OPTION_ORDER);
  e->flag = (int)number_of(context, OPTION_FLAG);
  e->until = number_of(context, OPTION_AWAIT) == AWAIT_UNTIL;
  e->nbi = number_of(context, OPTION_NBI) != 0;
  np_status status = find_settings(e);
  if (status == NP_OK) status = export_settings(e);
  if (status == NP_OK) status = initialise(e);
  if (status == NP_OK) status = make_memory(e);
  if (status == NP_OK) status = look_around(e);
  if (status == NP_OK) status = check_found(e);
  if (status != NP_OK) {
    e->broken = 1; /* the other ranks may have gone on, and shmem_finalize would wait for them */
    shmem_close(e);
    return status;
  }
  choose_progress(e);
  *endpoint = e;
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- bootstrap */

/* Whatever the options say of messages, these are kept in order. */
#define IN_ORDER(e, call)        \
  const int order = (e)->order;  \
  (e)->order = ORDER_FENCE;      \
  const np_status status = call; \
  (e)->order = order;            \
  return status

static np_status control_send(void* state, int peer, const void* data, size_t bytes) {
  np_endpoint* const e = state;
  IN_ORDER(e, pm_send(e, &e->control, peer, data, bytes));
}

static np_status control_recv(void* state, int peer, void* data, size_t bytes) {
  np_endpoint* const e = state;
  IN_ORDER(e, pm_recv(e, &e->control, peer, data, bytes));
}

static np_status shmem_bootstrap(np_endpoint* e, np_bootstrap* bootstrap) {
  bootstrap->state = e;
  bootstrap->rank = e->rank;
  bootstrap->nranks = e->nranks;
  bootstrap->send = control_send;
  bootstrap->recv = control_recv;
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- message memory */

/* Collective, like everything in the symmetric heap. */
static np_status shmem_alloc(np_endpoint* e, size_t bytes, void** memory) {
  for (struct piece* p = e->pieces; p < e->pieces + PIECES; ++p) {
    if (p->base != NULL) continue;
    char* const base = shmem_align(PAGE, bytes);
    if (base == NULL) return out_of_heap(e, bytes);
    *p = (struct piece){base, bytes};
    *memory = base;
    return NP_OK;
  }
  return fail(e->context, NP_UNSUPPORTED, "more than %d pieces of symmetric memory", PIECES);
}

static void shmem_release(np_endpoint* e, void* memory, size_t bytes) {
  (void)bytes;
  if (*e->context->abort != 0) e->broken = 1;
  for (struct piece* p = e->pieces; p < e->pieces + PIECES; ++p) {
    if (p->base == memory) p->base = NULL;
  }
  if (!e->broken) shmem_free(memory);
}

/* ---------------------------------------------------------------------------------------------- before a visit */

/* Collective. Forgets what an interrupted visit left behind, and tells all ranks where messages of this one land. */
static np_status shmem_prepare(np_endpoint* e, const np_visit* visit) {
  struct pm_ends* const m = &e->messages;
  shmem_barrier_all();
  pm_reset(m);
  m->here = visit->incoming;
  const int placed = number_of(e->context, OPTION_OP) == OP_PUT && (visit->uses & NP_USES_MESSAGES) != 0;
  m->placed_bytes = placed ? visit->bytes : PM_NEVER;
  const int known = placed && m->here.count > 0 && piece_of(e, m->here.base, 1) != NULL;
  const struct places mine = {known ? (uint64_t)(uintptr_t)m->here.base : 0, m->here.stride, m->here.count,
                              m->here.next};
  struct places* const own = &e->places[e->rank];
  *own = mine;
  for (int peer = 0; peer < e->nranks; ++peer) shmem_putmem(own, &mine, sizeof mine, peer);
  shmem_barrier_all();
  if (!placed) return NP_OK;
  for (int peer = 0; peer < e->nranks; ++peer) {
    const struct places* const far = &e->places[peer];
    if (far->base == 0) {
      return fail(e->context, NP_UNSUPPORTED,
                  "op=put: where the messages of rank %d will land is not known before they are sent, or is not in "
                  "symmetric memory: choose op=cells",
                  peer);
    }
    m->peers[peer].far_base = far->base;
    m->peers[peer].far_stride = far->stride;
    m->peers[peer].far_count = far->count;
    m->peers[peer].far_next = far->next;
  }
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- messages */

static np_status shmem_send(np_endpoint* e, int peer, const void* data, size_t bytes) {
  struct pm_ends* const m = &e->messages;
  return bytes == m->placed_bytes ? pm_send_placed(e, m, peer, data, bytes) : pm_send(e, m, peer, data, bytes);
}

static np_status shmem_recv(np_endpoint* e, int peer, void* data, size_t bytes) {
  struct pm_ends* const m = &e->messages;
  if (bytes != m->placed_bytes) return pm_recv(e, m, peer, data, bytes);
  if (!e->until) return pm_recv_placed(e, m, peer, data, bytes);
  const char* place = NULL;
  PM_TRY(pm_landing(e, m, peer, &place));
  shmem_uint64_wait_until(pm_here(m, (size_t)peer * PM_LINE), SHMEM_CMP_GE, ++m->peers[peer].received);
  pm_bring(data, place, bytes);
  return NP_OK;
}

static np_status shmem_isend(np_endpoint* e, int peer, const void* data, size_t stride, size_t bytes,
                             np_request* requests, size_t count) {
  return pm_isend(e, &e->messages, peer, data, stride, bytes, requests, count);
}

static np_status shmem_irecv(np_endpoint* e, int peer, void* data, size_t stride, size_t bytes, np_request* requests,
                             size_t count) {
  return pm_irecv(e, &e->messages, peer, data, stride, bytes, requests, count);
}

static np_status shmem_wait_for(np_endpoint* e, np_request* requests, size_t count) {
  return pm_wait(e, &e->messages, requests, count);
}
static np_status shmem_test_one(np_endpoint* e, np_request* request) { return pm_test(e, &e->messages, request); }

/* ---------------------------------------------------------------------------------------------- what it tells */

static np_status shmem_limits(np_endpoint* e, np_limits* limits) {
  limits->empty = 1;
  limits->any_memory = number_of(e->context, OPTION_OP) == OP_CELLS;
  return NP_OK;
}

static void shmem_describe(np_endpoint* e, np_emit emit, void* to) {
  char name[SHMEM_MAX_NAME_LEN] = "", text[SHMEM_MAX_NAME_LEN + 32];
  int major = 0, minor = 0;
  shmem_info_get_name(name);
  shmem_info_get_version(&major, &minor);
  snprintf(text, sizeof text, "OpenSHMEM %d.%d of %s", major, minor, name);
  np_emit_text(emit, to, "library", text);
  describe_found(e, emit, to);
  np_emit_text(emit, to, "order", text_of(e->context, OPTION_ORDER));
  np_emit_bool(emit, to, "put_signal", HAVE_PUT_SIGNAL);
  np_emit_text(emit, to, "wait", np_waiting_word(e->context->oversubscribed ? NP_WAIT_YIELD : NP_WAIT_POLL));
}

static np_status shmem_barrier_of_all(np_endpoint* e) {
  (void)e;
  shmem_barrier_all();
  return NP_OK;
}

/* The library was loaded with this file, or this would not run. */
static np_status shmem_probe(char* message, size_t message_bytes) {
  (void)message, (void)message_bytes;
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- the table */

static const np_messages messages = {
    .size = sizeof(np_messages), .send = shmem_send, .recv = shmem_recv, .isend = shmem_isend, .irecv = shmem_irecv};
static const np_one_sided one_sided = {.size = sizeof(np_one_sided),
                                       .expose = shmem_expose_memory,
                                       .attach = shmem_attach_memory,
                                       .withdraw = shmem_withdraw_memory,
                                       .put = shmem_put_bytes,
                                       .get = shmem_get_bytes,
                                       .fence = shmem_fence_all,
                                       .flush = shmem_flush,
                                       .put_signal = shmem_put_and_signal,
                                       .await_signal = shmem_await_signal,
                                       .put_strided = shmem_put_strided,
                                       .get_strided = shmem_get_strided,
                                       .atomic = shmem_atomic,
                                       .put_each = shmem_put_each,
                                       .get_each = shmem_get_each};
static const np_collectives collectives = {
    .size = sizeof(np_collectives), .prepare = shmem_prepare_collective, .release = shmem_release_collective};
static const np_memory symmetric_memory = {
    .size = sizeof(np_memory), .kind = NP_MEMORY_LAYER, .host_access = 1, .alloc = shmem_alloc, .free = shmem_release};
static const np_memory* const memories[] = {&symmetric_memory, NULL};

/* The version of the library that was loaded: it may have been upgraded since this file was compiled, and
 * `netpipe modules` compares. OpenSHMEM tells only the version of its specification. Open MPI tells its own without
 * having been started, in the library that its OpenSHMEM stands on. */
#if defined(OSHMEM_SPEC_VERSION)
#include <mpi.h>
static const char* version(void) {
  static char text[64] = "OpenSHMEM of Open MPI";
  static const char begins[] = "Open MPI v"; /* 4.1.4, package: ... */
  char said[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  if (MPI_Get_library_version(said, &length) == MPI_SUCCESS && strncmp(said, begins, sizeof begins - 1) == 0) {
    const char* const number = said + sizeof begins - 1;
    snprintf(text, sizeof text, "OpenSHMEM of Open MPI %.*s", (int)strspn(number, "0123456789."), number);
  }
  return text;
}
#else
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
static const char* version(void) { return "OpenSHMEM " TEXT(SHMEM_MAJOR_VERSION) "." TEXT(SHMEM_MINOR_VERSION); }
#endif

static np_module module = {
    .magic = NP_MAGIC,
    .abi = NP_ABI,
    .size = sizeof(np_module),
    .name = "shmem",
    .summary = "puts, gets and messages of an OpenSHMEM library",
    .below = NULL,
    .adds = "OpenSHMEM",
    .options = options,
    .noptions = OPTIONS,
    .option_bytes = sizeof(np_option),
    .process_model = NP_LAUNCHED,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .crosses_hosts = 1,
    .messages = &messages,
    .one_sided = &one_sided,
    .collectives = &collectives,
    .memories = memories,
    .probe = shmem_probe,
    .open = shmem_open,
    .close = shmem_close,
    .bootstrap = shmem_bootstrap,
    .limits = shmem_limits,
    .wait = shmem_wait_for,
    .test = shmem_test_one,
    .barrier = shmem_barrier_of_all,
    .describe = shmem_describe,
    .prepare = shmem_prepare,
};

/* The only exported name besides _end. */
__attribute__((visibility("default"))) const np_module* netpipe_module(void) {
  module.version = version();
  return &module;
}
