/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a part begins and ends, and its files. The folder for the parts is in NETPIPE_PROFILE; without it nothing is
 * counted. NETPIPE_PROFILE_EVENTS is the most events of a trace.
 */
#define _GNU_SOURCE /* RTLD_DEFAULT, a recursive mutex */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "record.h"

WEAK(PMPI_Comm_get_parent)
WEAK(PMPI_Comm_rank)
WEAK(PMPI_Comm_size)
WEAK(PMPI_Get_library_version)
WEAK(PMPI_Get_processor_name)

/* The lock is recursive: an error handler of the program, called while something is looked up, may call MPI_Abort. */
struct state profiler = {.phase = 1, .lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP};
__thread struct thread_state profiler_thread __attribute__((tls_model("initial-exec")));

enum { WINDOW_EVENTS = 1 << 12 }; /* 192 KiB: fewer cost more to write, more push the program out of the cache */

static int trace_file = -1;
static struct event* window;

static const struct call_name names[CALL_COUNT] = {
#define CALL_NAME(name, does) {#name, does},
    CALLS(CALL_NAME)
#undef CALL_NAME
};

/* Says once why there is no profile of this rank, or less than was asked for. The file is read by netpipe; the
 * application's output stays its own. */
COLD static void complain(const char* folder, int rank, const char* what, const char* why) {
  char path[4096], line[4608];
  snprintf(path, sizeof path, "%s/%d.problem", folder, rank);
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return;
  const int length = snprintf(line, sizeof line, "%s: %s\n", what, why);
  if (write(file, line, (size_t)length) < 0) unlink(path); /* the disk is full: what is missing says it */
  close(file);
}

/* Whether a file may grow to so many bytes. The kernel would end the program by SIGXFSZ. */
COLD static int may_grow(size_t bytes) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

/* Room on the disk, so that no later write into the mapped file fails. Returns 0 or an error number. */
COLD static int allocate(int file, size_t bytes) {
  int failed;
  if (!may_grow(bytes)) return EFBIG;
  do failed = posix_fallocate(file, 0, (off_t)bytes);
  while (failed == EINTR);
  return failed;
}

COLD static void forked(void) { profiler.part = NULL; } /* in the child, which is no rank */

/* Into a text that is zero, as much as has room. */
static void copy_text(char* to, size_t room, const char* text) { memcpy(to, text, strnlen(text, room - 1)); }

/* The handles that MPI's headers name. Those of Open MPI and LAM are addresses of data of the library. Returns
 * MPI_COMM_SELF. */
COLD static MPI_Comm find_handles(void) {
#if defined(OPEN_MPI)
  profiler.world = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world");
  profiler.no_communicator = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_null");
  profiler.no_request = dlsym(RTLD_DEFAULT, "ompi_request_null");
  return dlsym(RTLD_DEFAULT, "ompi_mpi_comm_self");
#elif defined(LAM_MPI)
  profiler.world = dlsym(RTLD_DEFAULT, "lam_mpi_comm_world");
  profiler.no_communicator = MPI_COMM_NULL;
  profiler.no_request = MPI_REQUEST_NULL;
  return dlsym(RTLD_DEFAULT, "lam_mpi_comm_self");
#else
  profiler.world = MPI_COMM_WORLD;
  profiler.no_communicator = MPI_COMM_NULL;
  profiler.no_request = MPI_REQUEST_NULL;
  return MPI_COMM_SELF;
#endif
}

static void close_trace(void);

COLD void profiler_open(int thread_level) {
  const char* const folder = getenv("NETPIPE_PROFILE");
  const char* const limit = getenv("NETPIPE_PROFILE_EVENTS");
  int rank = 0, ranks = 1, length = 0;
  if (folder == NULL || profiler.part != NULL) return;
  const MPI_Comm self = find_handles();
#if MPI_VERSION >= 2
  /* Ranks that another program has spawned count from 0 again, so they would be taken for ranks of that one. */
  MPI_Comm parent = profiler.no_communicator;
  if (PMPI_Comm_get_parent(&parent) == MPI_SUCCESS && parent != profiler.no_communicator) return;
#endif
  PMPI_Comm_rank(profiler.world, &rank);
  PMPI_Comm_size(profiler.world, &ranks);
  const size_t header = (sizeof(struct part) + 63) / 64 * 64, calls = header + sizeof names,
               communicators = (calls + 63) / 64 * 64,
               members = communicators + COMMUNICATORS * sizeof(struct communicator),
               entries = (members + MEMBERS * sizeof(int32_t) + 63) / 64 * 64,
               events = entries + ENTRIES * sizeof(struct entry), all = events + WINDOW_EVENTS * sizeof(struct event);
  char path[4096];
  snprintf(path, sizeof path, "%s/%d.part", folder, rank);
  /* A second program of the same job does not write over the first. */
  const int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0 && errno == EEXIST)
    return complain(folder, rank, "this job ran a second MPI program", "only the first one is profiled");
  if (file < 0) return complain(folder, rank, path, strerror(errno));
  const int failed = allocate(file, all);
  errno = failed;
  char* const memory = failed ? MAP_FAILED : mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int why = errno;
  close(file);
  if (memory == MAP_FAILED) {
    unlink(path);
    return complain(folder, rank, path, strerror(why));
  }
  struct part* const part = (struct part*)memory;
  profiler.counter = has_counter();
  profiler.locked = thread_level == MPI_THREAD_MULTIPLE;
  profiler.entries = (struct entry*)(memory + entries);
  profiler.communicators = (struct communicator*)(memory + communicators);
  profiler.members = (int32_t*)(memory + members);
  window = (struct event*)(memory + events);
  memcpy(memory + header, names, sizeof names);
  *part = (struct part){
      .layout = PART_LAYOUT,
      .header_bytes = (uint32_t)header,
      .entry_bytes = sizeof(struct entry),
      .entry_capacity = ENTRIES,
      .entry_offset = (uint32_t)entries,
      .communicator_bytes = sizeof(struct communicator),
      .communicator_capacity = COMMUNICATORS,
      .communicator_offset = (uint32_t)communicators,
      .member_capacity = MEMBERS,
      .member_offset = (uint32_t)members,
      .call_bytes = sizeof(struct call_name),
      .call_count = CALL_COUNT,
      .call_offset = (uint32_t)header,
      .event_bytes = sizeof(struct event),
      .rank = rank,
      .ranks = ranks,
      .thread_level = thread_level,
      .state = PART_STARTED,
      .event_limit = limit != NULL ? strtoull(limit, NULL, 10) : 0,
      .pid = (uint64_t)getpid(),
      .window_offset = (uint32_t)events,
      .window_events = WINDOW_EVENTS,
  };
  char host[MPI_MAX_PROCESSOR_NAME + 1] = "";
  if (gethostname(host, sizeof host - 1) != 0) PMPI_Get_processor_name(host, &length);
  copy_text(part->host, sizeof part->host, host);
#if MPI_VERSION >= 3
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  if (PMPI_Get_library_version(version, &length) == MPI_SUCCESS) {
    version[strcspn(version, "\n")] = '\0';
    copy_text(part->library, sizeof part->library, version);
  }
#endif
  const ssize_t program = readlink("/proc/self/exe", part->program, sizeof part->program - 1);
  if (program < 0) part->program[0] = '?';
  if (part->event_limit > 0) {
    snprintf(path, sizeof path, "%s/%d.trace", folder, rank);
    trace_file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    profiler.tracing = 1;
    profiler.next_event = profiler.last_event = window;
  }
  profiler_prepare_transfers();
  pthread_atfork(NULL, NULL, forked);
  part->first = part->last = moment_now(profiler.counter);
  part->began = profiler.resumed = part->first.ticks;
  profiler_thread.last_left = part->began;
  profiler.part = part;
  profiler_add_communicator(profiler.world, "MPI_COMM_WORLD", NO_PARENT);
  profiler_add_communicator(self, "MPI_COMM_SELF", NO_PARENT);
  part->magic = PART_MAGIC; /* from now on it is a part */
}

COLD void profiler_close(int state, int exit_code) {
  if (profiler.part == NULL || !lock_profile()) return;
  struct part* const part = profiler.part;
  profiler_moment();
  close_trace();
  part->ended = part->last.ticks;
  profiler_computed(part->ended);
  part->exit_code = exit_code;
  part->state = state;
  profiler.part = NULL;
  unlock_profile();
}

COLD void profiler_moment(void) { profiler.part->last = moment_now(profiler.counter); }

COLD void profiler_computed(uint64_t until) {
  const uint64_t left = profiler_thread.last_left, from = left > profiler.resumed ? left : profiler.resumed;
  if (profiler.phase != 0 && left != 0 && until > from) profiler.part->compute_ticks += until - from;
  profiler_thread.last_left = until;
}

/* ------------------------------------------------------------------------------------------------------ the trace */

/* Writes the window to the trace. Returns 0, or an error number; then its events are in the window alone. */
COLD static int write_window(void) {
  struct part* const part = profiler.part;
  const size_t bytes = (size_t)((char*)profiler.next_event - (char*)window);
  const off_t at = (off_t)(part->events * sizeof(struct event) - bytes);
  size_t done = 0;
  if (!may_grow((size_t)at + bytes)) return EFBIG;
  while (done < bytes) {
    const ssize_t wrote = pwrite(trace_file, (const char*)window + done, bytes - done, at + (off_t)done);
    if (wrote > 0) done += (size_t)wrote;
    if (wrote == 0 || (wrote < 0 && errno != EINTR)) {
      const int failed = wrote == 0 ? ENOSPC : errno;
      if (ftruncate(trace_file, at) != 0) part->events = (uint64_t)at / sizeof(struct event); /* with torn ones */
      return failed;
    }
  }
  return 0;
}

/* Ends the trace. What it lacks is counted from now on. */
COLD static void end_trace(int failed) {
  if (failed != 0) complain(getenv("NETPIPE_PROFILE"), profiler.part->rank, "the trace ends early", strerror(failed));
  if (trace_file >= 0) close(trace_file);
  trace_file = -1;
  profiler.next_event = profiler.last_event = NULL;
}

COLD int profiler_window(void) {
  struct part* const part = profiler.part;
  if (trace_file >= 0) {
    const uint64_t left = part->event_limit - part->events;
    const int failed = write_window();
    if (failed == 0 && left > 0) {
      profiler.next_event = window;
      profiler.last_event = window + (left < WINDOW_EVENTS ? left : WINDOW_EVENTS);
      return 0;
    }
    end_trace(failed);
  }
  part->events_lost++;
  return 1;
}

COLD static void close_trace(void) {
  if (trace_file >= 0) end_trace(write_window());
}

/* A program that ends without MPI_Finalize. */
__attribute__((destructor)) static void exited(void) {
  if (profiler.part == NULL || !lock_profile()) return;
  profiler_moment();
  close_trace();
  unlock_profile();
}
