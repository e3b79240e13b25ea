/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi: messages of any MPI library. It is not built with netpipe: `netpipe modules add mpi --mpicc PATH` compiles this
 * file with the library's own compiler wrapper into mpi@NAME. What differs between libraries is in their families
 * (library/mpi_family.h).
 *
 * MPI reads its settings once, in MPI_Init, so a process has one variant; they go into the environment just before
 * (library/mpi_settings.h). What the library made of them is observed from outside (mpi_found.h). The timed calls are
 * in mpi_messages.h, mpi_one_sided.h, mpi_reach.h and mpi_collectives.h.
 *
 * A blocking call of MPI cannot be interrupted, so *context->abort is checked only where nothing is timed; netpipe ends
 * a rank that hangs in MPI with its process.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>

#include "mpi_collectives.h"
#include "mpi_device.h"
#include "mpi_families.h" /* written by `netpipe modules add`: the families that this build serves */
#include "mpi_found.h"
#include "mpi_one_sided.h"
#include "mpi_reach.h"
#include "mpi_words.h"

static struct library* the_library(void);
static struct option_table* the_options(void);

/* ---------------------------------------------------------------------------------------------- begin and end */

/* Of a family whose MPI_Init and MPI_Finalize need something of the function that calls them. */
#ifndef BEFORE_INIT_AND_FINALIZE
#define BEFORE_INIT_AND_FINALIZE() (void)0
#endif
/* Keeps the call from being the last thing that a function does, or the registers would be restored before it. */
#define STAY_HERE() __asm__ volatile("" ::: "memory")

static __attribute__((noinline)) int begin_mpi(int level, int* given) {
  BEFORE_INIT_AND_FINALIZE();
  const int code = MPI_Init_thread(NULL, NULL, level, given);
  STAY_HERE();
  return code;
}
static __attribute__((noinline)) int end_mpi(void) {
  BEFORE_INIT_AND_FINALIZE();
  const int code = MPI_Finalize();
  STAY_HERE();
  return code;
}

/* ---------------------------------------------------------------------------------------------- open and close */

static void mpi_close(np_endpoint* e) {
  if (*e->context->abort != 0) e->broken = 1; /* a rank may be missing */
  if (e->initialised && !e->broken) {
    free_requests(e);
    free_shapes(e);
    close_one_sided(e);
    if (e->bsend_memory != NULL) detach_buffer(e);
    free_neighbours(e);
    end_mpi();
    np_cuda_close(&e->device);
  }
  /* After a failure the library may still write into what it was given; the process is about to end anyway. */
  if (!e->initialised || !e->broken) {
    for (int i = 0; i < PURPOSES; ++i) free(e->stores[i]);
    free(e->bsend_memory);
  }
  free(e);
}

/* Some libraries load plugins that expect to find the library among the global names, but a module is loaded with its
 * names hidden. */
static void show_library_to_its_plugins(const np_endpoint* e) {
  Dl_info info;
  const union {
    int (*call)(int*, char***);
    void* data;
  } init = {.call = MPI_Init};
  if ((e->library.quirks & PRIVATE_NAMES) != 0 || dladdr(init.data, &info) == 0 || info.dli_fname == NULL) return;
  dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

static np_status initialise(np_endpoint* e) {
  static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
  const int level = levels[number_of(&e->settings, "thread")];
  int already = 0;
  if (MPI_Initialized(&already) == MPI_SUCCESS && already) {
    return fail(e->context, NP_FAILED, "MPI already runs in this process; it can be started once, for one variant");
  }
  show_library_to_its_plugins(e);
  int code = begin_mpi(level, &e->thread_level);
  if (code != MPI_SUCCESS) return failed(e, code, "MPI_Init_thread");
  e->initialised = 1;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  /* The communicator that programs use: a small message costs up to 2 % more over a duplicate, and with Open MPI 5 1 %
   * more as soon as a duplicate exists. What is not timed has a tag of its own. */
  e->comm = MPI_COMM_WORLD;
  for (int i = 0; i < MOST_DIMENSIONS; ++i) e->grids[i] = MPI_COMM_NULL;
  code = MPI_Comm_rank(e->comm, &e->rank);
  if (code == MPI_SUCCESS) code = MPI_Comm_size(e->comm, &e->nranks);
  if (code != MPI_SUCCESS) return failed(e, code, "MPI_Comm_rank or MPI_Comm_size");
  if (e->thread_level < level) {
    return fail(e->context, NP_USAGE, "%s does not provide thread=%s", e->library.version,
                text_of(&e->settings, "thread"));
  }
  return NP_OK;
}

/* Memory that the timed calls need. */
static np_status prepare(np_endpoint* e) {
  e->keeps = e->op == OP_PERSISTENT || e->op == OP_PARTITIONED;
  e->waits_apart = e->keeps || e->waitall;
  for (int i = 0; e->keeps && i < PURPOSES; ++i) {
    e->stores[i] = new_store();
    if (e->stores[i] == NULL) return fail(e->context, NP_NO_MEMORY, "no memory for the persistent requests");
  }
  if (e->op != OP_BSEND) return NP_OK;
  /* Room for two of the largest messages, or many small ones, so that a stream does not stop after each. */
  const uint64_t largest = e->context->max_bytes + MPI_BSEND_OVERHEAD;
  e->bsend_bytes = 2 * largest > (4 << 20) ? 2 * largest : 4 << 20;
  if (!HAVE_COUNTS && e->bsend_bytes > INT_MAX) e->bsend_bytes = INT_MAX;
  if (e->bsend_bytes < largest) {
    return fail(e->context, NP_USAGE, "op=bsend: a buffer for messages of %llu bytes is larger than %s accepts",
                (unsigned long long)e->context->max_bytes, e->library.version);
  }
  e->bsend_memory = malloc(e->bsend_bytes);
  if (e->bsend_memory == NULL) {
    return fail(e->context, NP_NO_MEMORY, "op=bsend: no memory for a buffer of %llu bytes",
                (unsigned long long)e->bsend_bytes);
  }
  memset(e->bsend_memory, 1, e->bsend_bytes);
  return attach_buffer(e);
}

/* What a table of refusals cannot say. */
static np_status check_options(np_endpoint* e) {
  const struct settings* const s = &e->settings;
  if (e->type != TYPE_VECTOR || (e->stride % e->block == 0 && e->stride >= e->block)) return NP_OK;
  return fail(e->context, NP_USAGE, "stride=%s is not a multiple of block=%s", text_of(s, "stride"),
              text_of(s, "block"));
}

/* Only here may a module with a launcher wait for the other ranks: MPI_Init is collective. */
static np_status mpi_open(const np_context* context, np_endpoint** endpoint) {
  np_endpoint* const e = calloc(1, sizeof *e);
  if (e == NULL) return fail(context, NP_NO_MEMORY, "no memory for an endpoint");
  e->context = context;
  e->library = *the_library();
  e->settings.context = context;
  e->settings.library = &e->library;
  e->settings.table = the_options();
  const struct settings* const s = &e->settings;
  e->op = (int)number_of(s, "op");
  e->type = (int)number_of(s, "type");
  e->reuse = number_of(s, "reuse") != 0;
  e->waitall = number_of(s, "waitall") != 0;
  e->partitions = HAVE_PARTITIONED ? (int)number_of(s, "partitions") : 1;
  e->any_source = number_of(s, "any_source") != 0;
  e->one_sided = e->op == OP_PUT || e->op == OP_GET || e->op == OP_ACCUMULATE;
  e->sync = (int)number_of(s, "sync");
  e->window_kind = (int)number_of(s, "window");
  e->flush = (int)number_of(s, "flush");
  e->atomics = (int)number_of(s, "atomics");
  e->on_device = number_of(s, "memory") == MEMORY_CUDA;
  e->has_signals = e->flush != FLUSH_LOCAL && !e->on_device;
  if (e->window_kind == WINDOW_AUTO) e->window_kind = WINDOW_CREATE;
#if HAVE_MPI_3
  if (number_of(s, "window") == WINDOW_AUTO && e->one_sided && !e->on_device) e->window_kind = WINDOW_ALLOCATE;
  e->window_memory = e->window_kind == WINDOW_ALLOCATE || e->window_kind == WINDOW_SHARED;
#endif
  e->window_memory |= e->one_sided;
  e->yields =
      number_of(s, "yield") == YIELD_YES || (number_of(s, "yield") == YIELD_AUTO && context->oversubscribed != 0);
  e->peers[FOR_SEND] = e->peers[FOR_RECV] = -1;
  e->block = (uint64_t)number_of(s, "block");
  e->stride = (uint64_t)number_of(s, "stride");
  e->plain_bytes = e->type == TYPE_BYTES ? INT_MAX : 0;
  if (e->op == OP_SEND && e->type == TYPE_BYTES && !e->any_source) e->direct_bytes = (uint64_t)INT_MAX + 1;
  e->send = ways[e->op].send;
  e->recv = ways[e->op].recv;
  np_status status = check_options(e);
  if (status == NP_OK) status = find_settings(&e->settings);
  if (status == NP_OK) status = export_settings(s);
  if (status == NP_OK && e->on_device) status = find_driver(e);
  if (status == NP_OK) status = initialise(e);
  if (status == NP_OK && e->on_device) status = open_device(e);
  const int tools = status == NP_OK && begin_tools();
  if (status == NP_OK) allow_threads(e);
  if (status == NP_OK) status = check_settings(s);
  if (status == NP_OK) status = prepare(e);
  if (status == NP_OK) status = look_around(e);
  if (status == NP_OK) status = check_found(e);
  if (status == NP_OK && e->one_sided) {
    status = open_one_sided(e);
    if (status == NP_OK) status = check_found(e);
    if (status == NP_OK) status = check_device_windows(e, NP_USAGE);
  }
  if (status == NP_OK) e->found.through = look_beneath(e, e->found.transport, e->one_sided);
  end_tools(tools);
  if (status == NP_OK) status = check_buffers(e);
  if (status == NP_OK && e->one_sided && passive(e)) status = begin_epoch(e, &e->flags);
  if (status != NP_OK) {
    /* The other ranks may have gone on, and MPI_Finalize would wait for them. */
    e->broken = 1;
    mpi_close(e);
    return status;
  }
  *endpoint = e;
  return NP_OK;
}

/* For a program that makes its own calls: how this module makes its own is no setting of the library. */
static np_status mpi_environment(const np_context* context, np_emit emit, void* to) {
  static const char* const own[] = {"op",         "reuse",  "waitall",     "partitions", "sync",   "window",
                                    "any_source", "type",   "block",       "stride",     "thread", "flush",
                                    "atomics",    "memory", "cuda_device", NULL};
  struct settings s = {.context = context, .library = the_library(), .table = the_options()};
  for (const char* const* name = own; *name != NULL; ++name) {
    const int place = place_of_option(s.table, *name);
    if (place >= 0 && !is_default(&s, place)) {
      return fail(context, NP_USAGE, "%s=%s says how netpipe calls the library; a program makes its own calls", *name,
                  text_of(&s, *name));
    }
  }
  const np_status status = find_settings(&s);
  if (status != NP_OK) return status;
  for (int i = 0; i < s.count; ++i) np_emit_text(emit, to, s.all[i].name, s.all[i].value);
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- bootstrap */

/* Not timed, so it can check abort, and sleep. */
static np_status finish_control(np_endpoint* e, MPI_Request* request) {
  int done = 0;
  for (int64_t looks = 0;; ++looks) {
    const int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return failed(e, code, "MPI_Test");
    if (done) return NP_OK;
    if (*e->context->abort != 0) {
      e->broken = 1;
      return fail(e->context, NP_ABORTED, "gave up while a message for set-up was in flight");
    }
    if (looks > 1000) nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  }
}

static np_status control(np_endpoint* e, int direction, int peer, char* data, size_t bytes) {
  do {
    const int part = bytes > HUGE_BLOCK ? (int)HUGE_BLOCK : (int)bytes;
    MPI_Request request;
    const int code = direction == FOR_SEND ? MPI_Isend(data, part, MPI_BYTE, peer, TAG_CONTROL, e->comm, &request)
                                           : MPI_Irecv(data, part, MPI_BYTE, peer, TAG_CONTROL, e->comm, &request);
    if (code != MPI_SUCCESS) return failed(e, code, direction == FOR_SEND ? "MPI_Isend" : "MPI_Irecv");
    const np_status status = finish_control(e, &request);
    if (status != NP_OK) return status;
    data += part;
    bytes -= (size_t)part;
  } while (bytes > 0);
  return NP_OK;
}

static np_status control_send(void* state, int peer, const void* data, size_t bytes) {
  return control(state, FOR_SEND, peer, PLAIN(data), bytes);
}
static np_status control_recv(void* state, int peer, void* data, size_t bytes) {
  return control(state, FOR_RECV, peer, data, bytes);
}

static np_status mpi_bootstrap(np_endpoint* e, np_bootstrap* bootstrap) {
  bootstrap->state = e;
  bootstrap->rank = e->rank;
  bootstrap->nranks = e->nranks;
  bootstrap->send = control_send;
  bootstrap->recv = control_recv;
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- what it tells */

static np_status mpi_limits(np_endpoint* e, np_limits* limits) {
  limits->max_message_bytes = most_bytes(e);
  limits->empty = limits->any_memory = !e->one_sided;
  if (e->on_device) {
    if (limits->size < sizeof(np_limits)) {
      return fail(e->context, NP_UNSUPPORTED, "memory=cuda needs a netpipe that is not older than the module");
    }
    limits->outgoing_memory = limits->incoming_memory = DEVICE_MEMORY;
    limits->any_memory = 0;
  }
  if (e->op == OP_BSEND) limits->max_message_bytes = e->bsend_bytes - MPI_BSEND_OVERHEAD;
  if ((e->library.quirks & EAGER_BOUNDS_PSCW) != 0 && e->one_sided && e->sync == SYNC_PSCW && e->op != OP_GET) {
    limits->max_message_bytes = e->library.family->eager_bytes(&e->settings, e->found.transport);
  }
  return NP_OK;
}

static void mpi_describe(np_endpoint* e, np_emit emit, void* to) {
  static const struct {
    int level;
    const char* name;
  } levels[] = {{MPI_THREAD_SINGLE, "single"},
                {MPI_THREAD_FUNNELED, "funneled"},
                {MPI_THREAD_SERIALIZED, "serialized"},
                {MPI_THREAD_MULTIPLE, "multiple"}};
  np_emit_text(emit, to, "library", e->library.version);
  for (size_t i = 0; i < sizeof levels / sizeof *levels; ++i) {
    if (levels[i].level == e->thread_level) np_emit_text(emit, to, "thread_given", levels[i].name);
  }
  if (e->on_device) describe_device(e, emit, to);
  describe_found(e, emit, to);
  char* const all = calloc(1, sizeof e->settings.all);
  size_t used = 0;
  for (int i = 0; all != NULL && i < e->settings.count; ++i) {
    const struct setting* const one = &e->settings.all[i];
    used += (size_t)snprintf(all + used, sizeof e->settings.all - used, "%s%s=%s", used > 0 ? " " : "", one->name,
                             one->value);
  }
  if (used > 0) np_emit_text(emit, to, "environment", all);
  free(all);
  if (e->one_sided || e->window_memory || e->windows_found != FOUND_NOTHING) {
    np_emit_text(emit, to, "window", window_name(e));
  }
  if (e->one_sided) np_emit_text(emit, to, "sync", text_of(&e->settings, "sync"));
  if (e->one_sided || e->windows_found != FOUND_NOTHING) {
    np_emit_text(emit, to, "memory_model", !HAVE_MPI_3 ? "not told" : e->separate ? "separate" : "unified");
  }
  if (e->windows_found != FOUND_NOTHING) {
    np_emit_text(emit, to, e->on_device ? "window_transport_found_of_host_memory" : "window_transport_found",
                 found_words[e->windows_found]);
  }
  if (e->op == OP_BSEND) np_emit_integer(emit, to, "bsend_buffer_bytes", (int64_t)e->bsend_bytes, "bytes");
}

/* Two for each purpose of a request that is kept, in their order, and one for op=bsend. */
static const np_counter mpi_counters[] = {
    {"send_requests_made", "1", "persistent send requests made", NP_COUNTS_UP},
    {"send_requests_reused", "1", "persistent send requests started again", NP_COUNTS_UP},
    {"recv_requests_made", "1", "persistent receive requests made", NP_COUNTS_UP},
    {"recv_requests_reused", "1", "persistent receive requests started again", NP_COUNTS_UP},
    {"collective_requests_made", "1", "persistent collective requests made", NP_COUNTS_UP},
    {"collective_requests_reused", "1", "persistent collective requests started again", NP_COUNTS_UP},
    {"buffer_full", "1", "buffered sends that found the buffer full", NP_COUNTS_UP},
};

static void mpi_read_counters(np_endpoint* e, int64_t* values) {
  for (int i = 0; i < PURPOSES; ++i) {
    values[2 * i] = e->stores[i] != NULL ? (int64_t)e->stores[i]->made : INT64_MIN;
    values[2 * i + 1] = e->stores[i] != NULL ? (int64_t)e->stores[i]->reused : INT64_MIN;
  }
  values[2 * PURPOSES] = e->op == OP_BSEND ? (int64_t)e->drained : INT64_MIN;
}

/* The library was loaded with this file, or this would not run. */
static np_status mpi_probe(char* message, size_t message_bytes) {
  (void)message, (void)message_bytes;
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- the table */

/* What is fixed while the library is loaded: which one it is, and the table that follows from it. */
struct binding {
  struct library library;
  struct option_table options;
  np_module table;
};

static const np_messages messages = {.size = sizeof(np_messages),
                                     .to_itself = 1,
                                     .send = mpi_send,
                                     .recv = mpi_recv,
                                     .isend = mpi_isend,
                                     .irecv = mpi_irecv,
                                     .sendrecv = mpi_sendrecv,
#if HAVE_PARTITIONED
                                     .isend_parts = mpi_isend_parts,
                                     .part_ready = mpi_part_ready
#endif
};
static const np_one_sided transfers = {.size = sizeof(np_one_sided),
                                       .expose = mpi_expose,
                                       .attach = mpi_attach,
                                       .withdraw = mpi_withdraw,
                                       .put = mpi_put,
                                       .get = mpi_get,
                                       .fence = mpi_fence,
#if HAVE_MPI_3
                                       .put_strided = mpi_put_strided,
                                       .get_strided = mpi_get_strided,
                                       .flush = mpi_flush,
                                       .atomic = mpi_atomic,
                                       .accumulate = mpi_accumulate,
                                       .put_each = mpi_put_each,
                                       .get_each = mpi_get_each,
                                       .fetch_accumulate = mpi_fetch_accumulate,
                                       .accumulate_each = mpi_accumulate_each,
#endif
#if HAVE_PASSIVE_TARGET
                                       .iput = mpi_iput,
                                       .iget = mpi_iget,
                                       .put_signal = mpi_put_signal,
                                       .await_signal = mpi_await_signal
#endif
};
static const np_collectives collectives = {
    .size = sizeof(np_collectives), .prepare = mpi_prepare_collective, .release = mpi_release_collective};
static const np_memory window_memory = {
    .size = sizeof(np_memory), .kind = NP_MEMORY_LAYER, .host_access = 1, .alloc = mpi_alloc, .free = mpi_free};
static const np_memory* const memories[] = {[HOST_MEMORY] = &window_memory, [DEVICE_MEMORY] = &device_memory, NULL};

static struct binding* the_binding(void) {
  static struct binding binding;
  if (binding.table.magic != 0) return &binding;
  identify_library(&binding.library, families);
  build_options(&binding.options, &binding.library);
  binding.table = (np_module){
      .magic = NP_MAGIC,
      .abi = NP_ABI,
      .size = sizeof(np_module),
      .name = "mpi",
      .summary = "messages of an MPI library",
      .version = binding.library.version,
      .adds = "MPI",
      .options = binding.options.all,
      .noptions = (uint32_t)binding.options.count,
      .option_bytes = sizeof(np_option),
      .counters = mpi_counters,
      .ncounters = sizeof mpi_counters / sizeof *mpi_counters,
      .counter_bytes = sizeof(np_counter),
      .process_model = NP_LAUNCHED,
      .min_ranks = 2,
      .max_ranks = INT32_MAX,
      .crosses_hosts = 1,
      .max_threads = HAVE_THREADS && (binding.library.quirks & SIMULATES) == 0 ? MOST_THREADS : 1,
      .messages = &messages,
      .one_sided = &transfers,
      .collectives = &collectives,
      .memories = memories,
      .probe = mpi_probe,
      .open = mpi_open,
      .close = mpi_close,
      .bootstrap = mpi_bootstrap,
      .limits = mpi_limits,
      .wait = mpi_wait,
      .test = mpi_test,
      .barrier = mpi_barrier,
      .describe = mpi_describe,
      .read_counters = mpi_read_counters,
      .prepare = mpi_prepare,
      .environment = mpi_environment,
  };
  return &binding;
}
static struct library* the_library(void) { return &the_binding()->library; }
static struct option_table* the_options(void) { return &the_binding()->options; }

/* The only exported name. */
__attribute__((visibility("default"))) const np_module* netpipe_module(void) { return &the_binding()->table; }
