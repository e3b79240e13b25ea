/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer whose messages live in memory that the processor cannot reach, as on an accelerator: what alloc gives are
 * pages without any right, and their bytes lie elsewhere. Who follows a pointer into them dies.
 */
#include "pair.h"

enum { ALIGN, FLIPS };
static const np_option options[] = {
    {.name = "align",
     .type = NP_SIZE,
     .default_value = "64",
     .min = 1,
     .max = 4096,
     .unit = "bytes",
     .help = "messages begin at multiples of this"},
    {.name = "flips", .type = NP_BOOL, .default_value = "no", .unit = "", .help = "yes: every message arrives wrong"},
};

static struct {
  char *shown, *real; /* where alloc says that the bytes are, and where they are */
  size_t bytes;
} blocks[16];
enum { BLOCKS = sizeof blocks / sizeof *blocks };

static np_status device_alloc(np_endpoint* e, size_t bytes, void** place) {
  (void)e;
  for (int i = 0; i < BLOCKS; ++i) {
    if (blocks[i].shown != NULL) continue;
    void* const shown = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void* const real = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (shown == MAP_FAILED || real == MAP_FAILED) return NP_NO_MEMORY;
    blocks[i].shown = (char*)shown;
    blocks[i].real = (char*)real;
    blocks[i].bytes = bytes;
    *place = shown;
    return NP_OK;
  }
  return NP_NO_MEMORY;
}

static void device_free(np_endpoint* e, void* place, size_t bytes) {
  (void)e;
  for (int i = 0; i < BLOCKS; ++i) {
    if (blocks[i].shown != place) continue;
    munmap(blocks[i].shown, bytes);
    munmap(blocks[i].real, bytes);
    blocks[i].shown = NULL;
  }
}

/* The bytes behind an address, NULL where the device has none. */
static char* real(const void* place, size_t bytes) {
  const char* const at = (const char*)place;
  for (int i = 0; i < BLOCKS; ++i) {
    if (blocks[i].shown == NULL || at < blocks[i].shown || at + bytes > blocks[i].shown + blocks[i].bytes) continue;
    return blocks[i].real + (at - blocks[i].shown);
  }
  return NULL;
}

static np_status off_the_device(np_endpoint* e) {
  errno = EFAULT;
  return pair_fail(e, NP_FAILED, "this memory is not the device's");
}

static np_status device_copy_in(np_endpoint* e, void* place, const void* host, size_t bytes) {
  char* const to = real(place, bytes);
  if (to == NULL) return off_the_device(e);
  memcpy(to, host, bytes);
  return NP_OK;
}
static np_status device_copy_out(np_endpoint* e, void* host, const void* place, size_t bytes) {
  const char* const from = real(place, bytes);
  if (from == NULL) return off_the_device(e);
  memcpy(host, from, bytes);
  return NP_OK;
}
static np_status device_fill(np_endpoint* e, void* place, int byte, size_t bytes) {
  char* const to = real(place, bytes);
  if (to == NULL) return off_the_device(e);
  memset(to, byte, bytes);
  return NP_OK;
}
static np_status device_compare(np_endpoint* e, const void* place, const void* host, size_t bytes, size_t* equal) {
  const char* const seen = real(place, bytes);
  if (seen == NULL) return off_the_device(e);
  for (*equal = 0; *equal < bytes && seen[*equal] == ((const char*)host)[*equal];) ++*equal;
  return NP_OK;
}
static const np_memory memory = {.size = sizeof(np_memory),
                                 .kind = NP_MEMORY_DEVICE,
                                 .alloc = device_alloc,
                                 .free = device_free,
                                 .copy_in = device_copy_in,
                                 .copy_out = device_copy_out,
                                 .fill = device_fill,
                                 .compare = device_compare};

/* Every message begins where the limits say. */
static int aligned(const np_endpoint* e, const void* place) {
  return (uintptr_t)place % (uintptr_t)e->context->options[ALIGN].number == 0;
}

static np_status device_send(np_endpoint* e, int peer, const void* data, size_t bytes) {
  const char* const from = real(data, bytes);
  return from != NULL && aligned(e, data) ? pair_send(e, peer, from, bytes) : off_the_device(e);
}
static np_status device_recv(np_endpoint* e, int peer, void* data, size_t bytes) {
  char* const to = real(data, bytes);
  if (to == NULL || !aligned(e, data)) return off_the_device(e);
  const np_status status = pair_recv(e, peer, to, bytes);
  if (e->context->options[FLIPS].number) to[bytes - 1] ^= 1;
  return status;
}
static np_status device_limits(np_endpoint* e, np_limits* limits) {
  limits->alignment = (uint64_t)e->context->options[ALIGN].number;
  return NP_OK;
}

static const np_memory* const memories[] = {&memory, NULL};

const np_module* netpipe_module(void) {
  static np_module table;
  table = pair_module("device", "test: messages in memory that the processor cannot reach", device_send, device_recv);
  table.options = options;
  table.noptions = sizeof options / sizeof *options;
  table.option_bytes = sizeof(np_option);
  table.memories = memories;
  table.limits = device_limits;
  return &table;
}
