/* SPDX-License-Identifier: Apache-2.0
 *
 * Message memory on a CUDA device, as np_memory has it: allocated, filled, copied and compared for an endpoint whose
 * layer moves it. Plain C, for modules in either language. Nothing here is timed.
 *
 * With unified addressing the driver tells from an address whose memory it is, so one call copies either way.
 */
#ifndef NETPIPE_KIT_CUDA_MEMORY_H
#define NETPIPE_KIT_CUDA_MEMORY_H

#include <stdint.h>
#include <stdlib.h>

#include "kit/gpu/cuda_driver.h"

enum { NP_CUDA_PAGE = 4096, NP_CUDA_PIECE = 1 << 20 };

/* One device, used by one endpoint. */
struct np_cuda_device {
  const struct np_cuda* cuda;
  const np_context* to; /* whose message takes the sentences */
  int number;
  CUdevice device;
  CUcontext context; /* NULL: not open */
};

static inline np_status np_cuda_trouble(const struct np_cuda_device* d, CUresult error, const char* where) {
  char text[200];
  snprintf(text, sizeof text, "%s on CUDA device %d", where, d->number);
  return np_cuda_fail(d->cuda, error, text, d->to->message, d->to->message_bytes);
}

#define NP_CUDA_TRY(device_of, call, where)                                                     \
  do {                                                                                          \
    const CUresult error_of_call = (device_of)->cuda->call;                                     \
    if (error_of_call != CUDA_SUCCESS) return np_cuda_trouble(device_of, error_of_call, where); \
  } while (0)

/* cuda was loaded and outlives the device. */
static inline np_status np_cuda_open(struct np_cuda_device* d, const struct np_cuda* cuda, const np_context* to,
                                     int number) {
  int devices = 0;
  memset(d, 0, sizeof *d);
  d->cuda = cuda;
  d->to = to;
  d->number = number;
  const np_status status = np_cuda_start(cuda, &devices, to->message, to->message_bytes);
  if (status != NP_OK) return status;
  if (number >= devices) {
    snprintf(to->message, to->message_bytes, "there is no CUDA device %d: this host has %d, counted from 0", number,
             devices);
    return NP_UNAVAILABLE;
  }
  NP_CUDA_TRY(d, cuDeviceGet(&d->device, number), "cuDeviceGet");
  /* The one that the runtime uses, so that libraries on top of it share it. */
  CUcontext context = NULL; /* NOLINT(modernize-use-nullptr): C */
  NP_CUDA_TRY(d, cuDevicePrimaryCtxRetain(&context, d->device), "cuDevicePrimaryCtxRetain");
  d->context = context;
  NP_CUDA_TRY(d, cuCtxSetCurrent(context), "cuCtxSetCurrent");
  return NP_OK;
}

/* Which of the ranks of its host this one is, from 0. A netpipe that does not say so has all ranks on one. */
static inline int np_cuda_place(const np_context* context) {
  return context->size >= sizeof *context ? (int)context->host_rank : context->rank;
}

/* The same, of the device that an option asks for. wanted -1: the ranks of a host have its devices in turn, and place
 * is which of them this one is, counted from 0. */
static inline np_status np_cuda_open_for(struct np_cuda_device* d, const struct np_cuda* cuda, const np_context* to,
                                         int wanted, int place) {
  int devices = 0;
  const np_status status = np_cuda_start(cuda, &devices, to->message, to->message_bytes);
  return status == NP_OK ? np_cuda_open(d, cuda, to, wanted >= 0 ? wanted : place % devices) : status;
}

static inline void np_cuda_close(struct np_cuda_device* d) {
  if (d->context) d->cuda->cuDevicePrimaryCtxRelease_v2(d->device);
  d->context = NULL; /* NOLINT(modernize-use-nullptr): C */
}

/* What the driver calls on this thread are about: before the timed calls of an endpoint, as others may have theirs. */
static inline np_status np_cuda_use(const struct np_cuda_device* d) {
  NP_CUDA_TRY(d, cuCtxSetCurrent(d->context), "cuCtxSetCurrent");
  return NP_OK;
}

/* The facts by which a record names it. */
static inline void np_cuda_describe(const struct np_cuda_device* d, np_emit emit, void* to) {
  char name[256] = "";
  np_emit_integer(emit, to, "device", d->number, "");
  if (d->cuda->cuDeviceGetName(name, (int)sizeof name, d->device) == CUDA_SUCCESS) {
    np_emit_text(emit, to, "device_name", name);
  }
}

static inline CUdeviceptr np_cuda_address(const void* memory) { return (CUdeviceptr)(uintptr_t)memory; }

/* The driver promises 256 bytes, netpipe wants a page: the first whole one of some more memory. */
static inline np_status np_cuda_alloc(const struct np_cuda_device* d, size_t bytes, void** memory) {
  const np_status status = np_cuda_use(d);
  if (status != NP_OK) return status;
  CUdeviceptr base = 0;
  char where[80];
  snprintf(where, sizeof where, "allocating %zu bytes (cuMemAlloc)", bytes + NP_CUDA_PAGE);
  NP_CUDA_TRY(d, cuMemAlloc_v2(&base, bytes + NP_CUDA_PAGE), where);
  *memory = (void*)(uintptr_t)((base + NP_CUDA_PAGE - 1) / NP_CUDA_PAGE * NP_CUDA_PAGE);
  return NP_OK;
}

static inline void np_cuda_free(const struct np_cuda_device* d, void* memory) {
  CUdeviceptr base = 0;
  size_t bytes = 0;
  if (np_cuda_use(d) != NP_OK) return;
  if (d->cuda->cuMemGetAddressRange_v2(&base, &bytes, np_cuda_address(memory)) == CUDA_SUCCESS) {
    d->cuda->cuMemFree_v2(base);
  }
}

/* Streams of ours do not wait for what the default stream has left to do, so each of these ends with it. */
static inline np_status np_cuda_copy(const struct np_cuda_device* d, void* to, const void* from, size_t bytes) {
  const np_status status = np_cuda_use(d);
  if (status != NP_OK || bytes == 0) return status;
  NP_CUDA_TRY(d, cuMemcpy(np_cuda_address(to), np_cuda_address(from), bytes), "cuMemcpy");
  NP_CUDA_TRY(d, cuCtxSynchronize(), "cuCtxSynchronize");
  return NP_OK;
}

static inline np_status np_cuda_fill(const struct np_cuda_device* d, void* memory, int byte, size_t bytes) {
  const np_status status = np_cuda_use(d);
  if (status != NP_OK || bytes == 0) return status;
  NP_CUDA_TRY(d, cuMemsetD8_v2(np_cuda_address(memory), (unsigned char)byte, bytes), "cuMemsetD8");
  NP_CUDA_TRY(d, cuCtxSynchronize(), "cuCtxSynchronize");
  return NP_OK;
}

static inline np_status np_cuda_compare(const struct np_cuda_device* d, const void* memory, const void* host,
                                        size_t bytes, size_t* equal) {
  const size_t most = bytes < (size_t)NP_CUDA_PIECE ? bytes : (size_t)NP_CUDA_PIECE;
  char* const copy = (char*)malloc(most + 1);
  if (!copy) {
    snprintf(d->to->message, d->to->message_bytes, "no memory to compare %zu bytes of CUDA device %d", bytes,
             d->number);
    return NP_NO_MEMORY;
  }
  size_t same = 0;
  np_status status = NP_OK;
  for (int differs = 0; same < bytes && !differs && status == NP_OK;) {
    const size_t piece = bytes - same < most ? bytes - same : most;
    status = np_cuda_copy(d, copy, (const char*)memory + same, piece);
    if (status != NP_OK) break;
    size_t i = 0;
    while (i < piece && copy[i] == ((const char*)host)[same + i]) ++i;
    differs = i < piece;
    same += i;
  }
  free(copy);
  if (status == NP_OK) *equal = same;
  return status;
}

#endif
