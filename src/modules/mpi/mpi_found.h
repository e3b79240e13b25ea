/* SPDX-License-Identifier: Apache-2.0
 *
 * What the library really does, observed from outside before anything is measured: every rank exchanges some messages
 * with its neighbours, and checks which of its sockets carried them (TCP_INFO) and how it spends a wait (schedstat). So
 * a setting that any library ignored is noticed.
 */
#ifndef NETPIPE_MPI_FOUND_H
#define NETPIPE_MPI_FOUND_H

#include <dirent.h>
#include <linux/magic.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "mpi_endpoint.h"
#include "netpipe/waiting.h"

#define FOUND_SOCKETS 1024 /* descriptors that are checked */
/* Fits every socket buffer: with too small a buffer some libraries hang, and the measurement is to find that, at its
 * size. */
#define FOUND_BYTES 4096
#define FOUND_MESSAGES 16
#define MAPPED_LEAST_BYTES \
  (256UL << 10) /* of a mapping that messages go through: what a library keeps besides is smaller */

struct socket_bytes {
  uint64_t all[FOUND_SOCKETS]; /* received through the descriptor so far; 0: no TCP connection */
};

static inline int tcp_facts(int fd, struct tcp_info* info) {
  socklen_t length = sizeof *info;
  int protocol = 0;
  memset(info, 0, sizeof *info);
  if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &(socklen_t){sizeof protocol}) != 0) return 0;
  return protocol == IPPROTO_TCP && getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &length) == 0;
}

static inline void read_sockets(struct socket_bytes* sockets) {
  for (int fd = 0; fd < FOUND_SOCKETS; ++fd) {
    struct tcp_info info;
    sockets->all[fd] = tcp_facts(fd, &info) ? info.tcpi_bytes_received : 0;
  }
}

/* Sockets that carried at least a message are the transport; a few bytes are only the library keeping in touch. */
static inline void compare_sockets(struct found* found, const struct socket_bytes* before,
                                   const struct socket_bytes* after) {
  uint64_t all = 0;
  for (int fd = 0; fd < FOUND_SOCKETS; ++fd) {
    if (after->all[fd] <= before->all[fd] || after->all[fd] - before->all[fd] < FOUND_BYTES) continue;
    all += after->all[fd] - before->all[fd];
    ++found->connections;
    getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &found->sndbuf, &(socklen_t){sizeof found->sndbuf});
    getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &found->rcvbuf, &(socklen_t){sizeof found->rcvbuf});
    getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &found->nodelay, &(socklen_t){sizeof found->nodelay});
    memset(found->congestion, 0, sizeof found->congestion);
    getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, found->congestion, &(socklen_t){sizeof found->congestion - 1});
  }
  if (all >= FOUND_BYTES * FOUND_MESSAGES / 2) found->transport = FOUND_TCP;
}

/* Whether what is written to this file, or to one that was in its folder, goes to a disk in the end. */
static inline int is_on_disk(const char* path) {
  struct statfs found;
  char folder[256];
  snprintf(folder, sizeof folder, "%s", path);
  char* const end = strrchr(folder, '/');
  if (end == NULL || end == folder) return 0;
  if (statfs(path, &found) != 0) { /* its name is gone */
    *end = '\0';
    if (statfs(folder, &found) != 0) return 0;
  }
  const long in_memory[] = {TMPFS_MAGIC, RAMFS_MAGIC, HUGETLBFS_MAGIC};
  for (size_t i = 0; i < sizeof in_memory / sizeof *in_memory; ++i) {
    if (found.f_type == in_memory[i]) return 0;
  }
  return 1;
}

/* The names of mappings shared with other processes: "/dev/shm/vader_segment...". One that messages fit into is looked
 * at more closely: is its file on a disk? */
static inline void read_maps(struct found* found) {
  FILE* const file = fopen("/proc/self/maps", "r");
  char line[1024], last[256] = "";
  if (file == NULL) return;
  while (fgets(line, sizeof line, file) != NULL) {
    char rights[8] = "", path[256] = "";
    char* at = line;
    const unsigned long begin = strtoul(at, &at, 16), end = *at == '-' ? strtoul(at + 1, &at, 16) : begin;
    if (sscanf(at, " %7s %*s %*s %*s %255s", rights, path) < 2) continue;
    if (rights[1] != 'w' || rights[3] != 's') continue;
    if (strcmp(path, last) == 0 || strncmp(path, "/dev/", 5) != 0 || strncmp(path, "/dev/shm/", 9) == 0) {
      if (strcmp(path, last) == 0) continue;
    } else {
      continue; /* a device */
    }
    snprintf(last, sizeof last, "%s", path);
    if (path[0] == '/' && end - begin >= MAPPED_LEAST_BYTES && is_on_disk(path)) {
      snprintf(found->on_disk, sizeof found->on_disk, "%s", path);
    }
    const char* name = strrchr(path, '/');
    name = name == NULL ? path : name + 1;
    const size_t used = strlen(found->maps), length = strlen(name);
    if (strstr(found->maps, name) == NULL && used + length + 2 < sizeof found->maps) {
      char* const end_of_maps = found->maps + used;
      if (used > 0) *end_of_maps = ' ';
      memcpy(end_of_maps + (used > 0), name, length + 1);
    }
  }
  fclose(file);
}

/* Nanoseconds that this thread ran, or was runnable while another had its processor. The file's running time is only as
 * fresh as the last tick, so that comes from the clock; its runnable time is exact. */
static inline int64_t awake_ns(void) {
  FILE* const file = fopen("/proc/thread-self/schedstat", "r");
  unsigned long long wanted = 0;
  if (file != NULL) {
    char text[96] = "", *at = text;
    if (fgets(text, sizeof text, file) != NULL) {
      (void)strtoull(at, &at, 10); /* that it ran */
      wanted = strtoull(at, NULL, 10);
    }
    fclose(file);
  }
  struct timespec t;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0) return -1;
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec + (int64_t)wanted;
}

static inline int64_t clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* One rank of each pair makes the other wait for 5 ms, then the other way round. */
static inline int watch_waiting(np_endpoint* e) {
  const int partner = e->rank ^ 1;
  int code = MPI_SUCCESS;
  e->found.awake = -1;
  if (partner >= e->nranks) return code;
  for (int turn = 0; turn < 2 && code == MPI_SUCCESS; ++turn) {
    char byte = 0;
    if ((e->rank & 1) == turn) { /* this one waits; told when the other begins to sleep */
      code = MPI_Recv(&byte, 1, MPI_BYTE, partner, TAG_CONTROL, e->comm, MPI_STATUS_IGNORE);
      if (code != MPI_SUCCESS) break;
      const int64_t awake = awake_ns(), begin = clock_ns();
      code = MPI_Recv(&byte, 1, MPI_BYTE, partner, TAG_CONTROL, e->comm, MPI_STATUS_IGNORE);
      const int64_t waited = clock_ns() - begin, ran = awake_ns() - awake;
      if (awake >= 0 && waited > 0) e->found.awake = (double)ran / (double)waited;
    } else {
      code = MPI_Send(&byte, 1, MPI_BYTE, partner, TAG_CONTROL, e->comm);
      nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
      if (code == MPI_SUCCESS) code = MPI_Send(&byte, 1, MPI_BYTE, partner, TAG_CONTROL, e->comm);
    }
  }
  return code;
}

static inline int exchange(np_endpoint* e, void* out, void* in) {
  const int right = (e->rank + 1) % e->nranks, left = (e->rank + e->nranks - 1) % e->nranks;
  return MPI_Sendrecv(out, FOUND_BYTES, MPI_BYTE, right, TAG_CONTROL, in, FOUND_BYTES, MPI_BYTE, left, TAG_CONTROL,
                      e->comm, MPI_STATUS_IGNORE);
}

/* Collective. The neighbours of a ring: rank 0 and rank 1, which most patterns use, are among them. */
static np_status look_around(np_endpoint* e) {
  char own[MPI_MAX_PROCESSOR_NAME + 1] = "", other[MPI_MAX_PROCESSOR_NAME + 1] = "";
  int length = 0;
  e->found.awake = -1;
  if (e->nranks < 2) return NP_OK;
  if ((e->library.quirks & SIMULATES) != 0) { /* the sockets and waits of this process are not those of its ranks */
    e->found.transport = FOUND_SIMULATION;
    return NP_OK;
  }
  const int right = (e->rank + 1) % e->nranks, left = (e->rank + e->nranks - 1) % e->nranks;
  struct memory {
    struct socket_bytes before, after;
    char out[FOUND_BYTES], in[FOUND_BYTES];
  }* const memory = calloc(1, sizeof *memory);
  if (memory == NULL) return fail(e->context, NP_NO_MEMORY, "no memory for %zu bytes", sizeof *memory);
  int code = MPI_Get_processor_name(own, &length);
  if (code == MPI_SUCCESS) {
    code = MPI_Sendrecv(own, sizeof own, MPI_BYTE, right, TAG_CONTROL, other, sizeof other, MPI_BYTE, left, TAG_CONTROL,
                        e->comm, MPI_STATUS_IGNORE);
  }
  if (code == MPI_SUCCESS) code = exchange(e, memory->out, memory->in); /* the first one may connect */
  read_sockets(&memory->before);
  /* Nobody goes on before all have looked. In a ring a rank that waits for its processor is sent as many messages as
   * there are ranks before it looks, and they would count as sent earlier. */
  if (code == MPI_SUCCESS) code = MPI_Barrier(e->comm);
  for (int i = 0; i < FOUND_MESSAGES && code == MPI_SUCCESS; ++i) code = exchange(e, memory->out, memory->in);
  read_sockets(&memory->after);
  compare_sockets(&e->found, &memory->before, &memory->after);
  free(memory);
  read_maps(&e->found);
  if (e->found.transport == FOUND_NOTHING) {
    const int same_host = strcmp(own, other) == 0;
    const struct family* const family = e->library.family;
    const int shared = family != NULL && family->carrier != NULL ? family->carrier(e->found.maps) : FOUND_SHM;
    e->found.transport = same_host || shared == FOUND_DAEMON ? shared : FOUND_NETWORK;
  }
  if (code == MPI_SUCCESS) code = watch_waiting(e);
  return outcome(e, code, "the first exchange");
}

/* The kind of its windows, as in the option. */
static inline const char* window_name(const np_endpoint* e) {
#if HAVE_MPI_3
  static const char* const names[] = {"auto", "allocate", "create", "dynamic", "shared"};
  return names[e->window_kind];
#else
  (void)e;
  return "create";
#endif
}

/* Fails if what was observed shows that the library ignored a setting. */
static np_status check_found(np_endpoint* e) {
  const struct settings* const s = &e->settings;
  const struct family* const family = e->library.family;
  const char* const asked =
      family != NULL && family->asked_for != NULL ? family->asked_for(s) : text_of(s, "transport");
  if (e->nranks < 2) return NP_OK;
  const size_t length = strlen(asked);
  const int wants_tcp = length >= 3 && strcmp(asked + length - 3, "tcp") == 0;
  const int wants_shm = (length >= 3 && strcmp(asked + length - 3, "shm") == 0) || strstr(asked, "sysv") != NULL;
  if (e->flags.begun && wants_tcp && e->found.transport != FOUND_TCP) {
    return fail(e->context, NP_USAGE,
                "%s was asked for %s, but no TCP connection of rank %d carried its transfers into a window=%s, though "
                "one carries messages: choose another window, as create, or ranks on two hosts",
                e->library.version, asked, e->rank, window_name(e));
  }
  if (wants_tcp && e->found.transport != FOUND_TCP) {
    return fail(e->context, NP_USAGE, "%s was asked for %s, but no TCP connection of rank %d carried its messages",
                e->library.version, asked, e->rank);
  }
  if (wants_shm && e->found.transport != FOUND_SHM) {
    return fail(e->context, NP_USAGE, "%s was asked for %s, but the messages of rank %d went %s", e->library.version,
                asked, e->rank, e->found.transport == FOUND_TCP ? "through TCP" : "to another host");
  }
  return NP_OK;
}

/* The kernel doubles the size that it is asked for, and silently keeps it within a smallest and a largest one. */
static np_status check_buffer(np_endpoint* e, const char* option, int has, const char* limit) {
  const int64_t asked = number_of(&e->settings, option);
  FILE* const file = asked > 0 ? fopen(limit, "r") : NULL;
  char text[32] = "", *end = text;
  if (file != NULL) {
    if (fgets(text, sizeof text, file) == NULL) text[0] = '\0';
    fclose(file);
  }
  long long most = strtoll(text, &end, 10);
  if (end == text) most = INT64_MAX;
  if (asked < 8192 || asked > most || has == 2 * asked || e->found.transport != FOUND_TCP) return NP_OK;
  return fail(e->context, NP_USAGE, "%s was asked for %s=%s, but its socket has %d bytes where the kernel gives %lld",
              e->library.version, option, text_of(&e->settings, option), has, 2 * (long long)asked);
}

static np_status check_buffers(np_endpoint* e) {
  const np_status status = check_buffer(e, "sndbuf", e->found.sndbuf, "/proc/sys/net/core/wmem_max");
  if (status != NP_OK) return status;
  return check_buffer(e, "rcvbuf", e->found.rcvbuf, "/proc/sys/net/core/rmem_max");
}

static const char* const found_words[] = {"nothing: there is only one rank", "shared memory",      "TCP", "the daemons",
                                          "the network, not by TCP",         "a simulated network"};

/* A processor that nobody else wants comes back at once, so yielding does not show from outside: the library was told
 * to, if its family has that option, and what it was told is checked where it can be (check_settings). */
static np_waiting waiting_of(const np_endpoint* e, double awake) {
  /* A rank that polls its counter never sleeps, whatever the library does. */
  if (e->sync >= SYNC_LOCK) return e->yields ? NP_WAIT_YIELD : NP_WAIT_POLL;
  if (awake <= 0.8) return awake < 0.2 ? NP_WAIT_BLOCK : NP_WAIT_HYBRID;
  const int told = place_of_option(e->settings.table, "yield") >= 0 && yielding(&e->settings) == 1;
  return told ? NP_WAIT_YIELD : NP_WAIT_POLL;
}

/* The library below that what `transport` carries goes through. */
static int look_beneath(const np_endpoint* e, int transport, int windows) {
  const struct family* const family = e->library.family;
  const int any = family != NULL && family->through != NULL && transport != FOUND_NOTHING;
  return any ? family->through(&e->library, transport, windows) : THROUGH_ITS_OWN;
}

/* The module that it stands on, and, where that is a library, which one and what that one stands on here. */
static void describe_below(np_endpoint* e, np_emit emit, void* to) {
  static const char* const carriers[] = {NULL, "shm", "tcp", "unix", NULL, NULL};
  static const char* const libraries[] = {NULL, "ucx", "libfabric"};
  const char* const carrier = carriers[e->found.transport];
  int through = e->found.through;
  char version[80] = "";
  /* A variant has one layer below, for its messages and for the windows of patterns that put or get. */
  if (e->windows_found != FOUND_NOTHING && look_beneath(e, e->windows_found, 1) != through) through = THROUGH_ITS_OWN;
  if (through == THROUGH_ITS_OWN) {
    if (carrier != NULL) np_emit_text(emit, to, "below", carrier);
    return;
  }
  np_emit_text(emit, to, "below", libraries[through]);
  if (carrier != NULL) np_emit_text(emit, to, "below_stands_on", carrier);
  tell_version_beneath(through, version, sizeof version);
  if (*version != '\0') np_emit_text(emit, to, "below_version", version);
}

static void describe_found(np_endpoint* e, np_emit emit, void* to) {
  const struct found* const found = &e->found;
  char text[320];
  /* What was observed were messages of the host: those of a device may take another way (CUDA IPC, GPUDirect). */
  np_emit_text(emit, to, e->on_device ? "transport_found_of_host_memory" : "transport_found",
               found_words[found->transport]);
  if (!e->on_device) describe_below(e, emit, to);
  if (found->transport == FOUND_TCP) {
    np_emit_integer(emit, to, "connections", found->connections, "");
    np_emit_integer(emit, to, "sndbuf_kernel_bytes", found->sndbuf, "bytes");
    np_emit_integer(emit, to, "rcvbuf_kernel_bytes", found->rcvbuf, "bytes");
    np_emit_bool(emit, to, "nodelay", found->nodelay);
    np_emit_text(emit, to, "congestion", found->congestion);
  }
  if (found->maps[0] != '\0') np_emit_text(emit, to, "shared_mappings", found->maps);
  if (found->on_disk[0] != '\0') np_emit_text(emit, to, "shared_mapping_on_disk", found->on_disk);
  if (found->awake >= 0) {
    const double awake = found->awake > 1 ? 1 : found->awake;
    snprintf(text, sizeof text, "%.0f %% of a wait of 5 ms", 100 * awake);
    np_emit_text(emit, to, "awake", text);
    np_emit_text(emit, to, "wait", np_waiting_word(waiting_of(e, awake)));
  }
}

#endif
