/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in for NVIDIA's driver, libcuda.so.1, written for these tests: no line of it comes from there. It has those
 * calls that netpipe uses, and devices whose memory is what the processor cannot reach: a program that follows a
 * pointer into it dies. Work that is handed to a stream is done when the stream is asked for the last time before it
 * is empty, so what does not wait finds the old bytes. It says nothing about the speed of anything.
 *
 * The environment chooses what it is like:
 *   FAKE_CUDA_DEVICES=N      how many devices (2)
 *   FAKE_CUDA_LOOKS=N        how often cuStreamQuery says that a stream is not ready (3)
 *   FAKE_CUDA_FAIL=CALL:N    the call of this name returns error N
 *   FAKE_CUDA_FAIL=CALL:N:K  the K-th does, counted from 1, and all after it
 *   FAKE_CUDA_NO_PEERS=1     no device reaches the memory of another
 *   FAKE_CUDA_FLIPS=1        a copy by a stream gets its last byte wrong
 *   FAKE_CUDA_STUCK=1        a stream never becomes empty by being looked at
 */
#define _GNU_SOURCE
#include "fake_cuda.h"

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT FAKE_EXPORT
enum { MOST_DEVICES = 8, BLOCKS = 256, QUEUE = 4096 };

struct CUctx_st {
  int device, retained, peers[MOST_DEVICES];
};
struct copy {
  CUdeviceptr to, from;
  size_t bytes;
};
struct CUstream_st {
  CUcontext context;
  struct copy queue[QUEUE];
  int queued, looks;
  _Atomic int work; /* of libraries above the driver, under way */
};
struct CUevent_st {
  CUstream recorded;
  unsigned flags;
};

static struct {
  pid_t started; /* the process that called cuInit; 0: none */
  struct CUctx_st contexts[MOST_DEVICES];
} driver;
static _Thread_local CUcontext current;

/* Memory of devices, and memory of the host that the driver knows. */
static struct {
  char *shown, *real;
  size_t bytes;
  int device;     /* -1: of the host */
  int registered; /* of the host: pinned by cuMemHostRegister, not allocated here */
} blocks[BLOCKS];

static int number_of(const char* name, int otherwise) {
  const char* const text = getenv(name);
  return text != NULL ? atoi(text) : otherwise;
}
static int devices(void) { return number_of("FAKE_CUDA_DEVICES", 2); }

/* The error that the test wants of this call. */
static CUresult wanted(const char* call) {
  static char counted[64];
  static int times;
  const char* const text = getenv("FAKE_CUDA_FAIL");
  char name[64];
  int error = 0, from = 1;
  if (text == NULL || sscanf(text, "%63[^:]:%d:%d", name, &error, &from) < 2 || strcmp(name, call) != 0) return 0;
  if (strcmp(counted, call) != 0) times = 0;
  snprintf(counted, sizeof counted, "%s", call);
  return ++times >= from ? (CUresult)error : CUDA_SUCCESS;
}
/* As the real one: what a process started, its children cannot use. */
#define BEGIN()                                                        \
  do {                                                                 \
    if (driver.started != getpid()) return CUDA_ERROR_NOT_INITIALIZED; \
    const CUresult error_wanted = wanted(__func__);                    \
    if (error_wanted != CUDA_SUCCESS) return error_wanted;             \
  } while (0)
#define NEEDS_CONTEXT() \
  if (current == NULL || !current->retained) return CUDA_ERROR_INVALID_CONTEXT

static int block_of(uint64_t address, size_t bytes) {
  for (int i = 0; i < BLOCKS; ++i) {
    const uint64_t base = (uint64_t)(uintptr_t)blocks[i].shown;
    if (base != 0 && address >= base && address + bytes <= base + blocks[i].bytes) return i;
  }
  return -1;
}

EXPORT char* fake_cuda_real(const void* memory, size_t bytes) {
  const int i = block_of((uint64_t)(uintptr_t)memory, bytes);
  return i < 0 || blocks[i].device < 0 ? NULL : blocks[i].real + ((const char*)memory - blocks[i].shown);
}

EXPORT int fake_cuda_device(void) { return current != NULL ? current->device : -1; }
EXPORT void fake_cuda_work(CUstream stream, int change) { stream->work += change; }

/* Where the bytes are, for a copy under this context. An address that no device has is the host's. */
static CUresult reach(CUcontext context, CUdeviceptr address, size_t bytes, char** at) {
  const int i = block_of(address, bytes);
  if (i < 0) {
    for (int k = 0; k < BLOCKS; ++k) { /* partly within a block: beyond its end */
      const uint64_t base = (uint64_t)(uintptr_t)blocks[k].shown;
      if (base != 0 && address >= base && address < base + blocks[k].bytes) return CUDA_ERROR_INVALID_VALUE;
    }
    *at = (char*)(uintptr_t)address;
    return CUDA_SUCCESS;
  }
  if (blocks[i].device >= 0 && blocks[i].device != context->device && !context->peers[blocks[i].device])
    return CUDA_ERROR_INVALID_VALUE;
  *at = blocks[i].real + (address - (uint64_t)(uintptr_t)blocks[i].shown);
  return CUDA_SUCCESS;
}

/* --------------------------------------------------------------------------------------------- driver and devices */

EXPORT CUresult cuInit(unsigned int flags) {
  const CUresult error = wanted(__func__);
  if (error != CUDA_SUCCESS) return error;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (driver.started != 0 && driver.started != getpid()) return CUDA_ERROR_NOT_INITIALIZED; /* forked after cuInit */
  if (devices() == 0) return CUDA_ERROR_NO_DEVICE;
  driver.started = getpid();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDriverGetVersion(int* version) {
  *version = 12040;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGetErrorName(CUresult error, const char** text) {
  switch ((int)error) {
    case CUDA_ERROR_INVALID_VALUE: *text = "CUDA_ERROR_INVALID_VALUE"; break;
    case CUDA_ERROR_OUT_OF_MEMORY: *text = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case CUDA_ERROR_NOT_INITIALIZED: *text = "CUDA_ERROR_NOT_INITIALIZED"; break;
    case CUDA_ERROR_NO_DEVICE: *text = "CUDA_ERROR_NO_DEVICE"; break;
    case CUDA_ERROR_ILLEGAL_ADDRESS: *text = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: *text = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"; break;
    default: *text = NULL; return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGetErrorString(CUresult error, const char** text) {
  switch ((int)error) {
    case CUDA_ERROR_INVALID_VALUE: *text = "invalid argument"; break;
    case CUDA_ERROR_OUT_OF_MEMORY: *text = "out of memory"; break;
    case CUDA_ERROR_NOT_INITIALIZED: *text = "initialization error"; break;
    case CUDA_ERROR_NO_DEVICE: *text = "no CUDA-capable device is detected"; break;
    case CUDA_ERROR_ILLEGAL_ADDRESS: *text = "an illegal memory access was encountered"; break;
    default: *text = NULL; return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetCount(int* count) {
  BEGIN();
  *count = devices();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  BEGIN();
  if (ordinal < 0 || ordinal >= devices()) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetName(char* name, int bytes, CUdevice device) {
  BEGIN();
  snprintf(name, (size_t)bytes, "stand-in %d", device);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  (void)device;
  BEGIN();
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: *value = 3; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetPCIBusId(char* name, int bytes, CUdevice device) {
  BEGIN();
  snprintf(name, (size_t)bytes, "FFFF:%02X:00.0", 0x3b + device);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  BEGIN();
  *can = device != peer && !number_of("FAKE_CUDA_NO_PEERS", 0);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to) {
  BEGIN();
  if (from == to) return CUDA_ERROR_INVALID_DEVICE;
  *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ? 1 : 0;
  return CUDA_SUCCESS;
}

/* --------------------------------------------------------------------------------------------- contexts */

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  BEGIN();
  driver.contexts[device].device = device;
  ++driver.contexts[device].retained;
  *context = &driver.contexts[device];
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  BEGIN();
  if (driver.contexts[device].retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --driver.contexts[device].retained;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  BEGIN();
  current = context;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxSynchronize(void) {
  BEGIN();
  NEEDS_CONTEXT();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  BEGIN();
  NEEDS_CONTEXT();
  if (flags != 0 || peer == current) return CUDA_ERROR_INVALID_VALUE;
  if (current->peers[peer->device]) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  current->peers[peer->device] = 1;
  return CUDA_SUCCESS;
}

/* --------------------------------------------------------------------------------------------- memory */

static CUresult keep(char* shown, char* real, size_t bytes, int device, int registered) {
  for (int i = 0; i < BLOCKS; ++i) {
    if (blocks[i].shown != NULL) continue;
    blocks[i].shown = shown;
    blocks[i].real = real;
    blocks[i].bytes = bytes;
    blocks[i].device = device;
    blocks[i].registered = registered;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}
EXPORT CUresult cuMemAlloc(CUdeviceptr* memory, size_t bytes) {
  BEGIN();
  NEEDS_CONTEXT();
  /* It begins at a multiple of 256 as the real one promises, and of nothing larger. */
  void* const shown = mmap(NULL, bytes + 256, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* const real = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (shown == MAP_FAILED || real == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = (CUdeviceptr)(uintptr_t)shown + 256;
  return keep((char*)shown + 256, real, bytes, current->device, 0);
}
EXPORT CUresult cuMemFree(CUdeviceptr memory) {
  BEGIN();
  NEEDS_CONTEXT();
  const int i = block_of(memory, 1);
  if (i < 0 || blocks[i].device < 0 || (uint64_t)(uintptr_t)blocks[i].shown != memory) return CUDA_ERROR_INVALID_VALUE;
  munmap(blocks[i].shown - 256, blocks[i].bytes + 256);
  munmap(blocks[i].real, blocks[i].bytes);
  blocks[i].shown = NULL;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr within) {
  BEGIN();
  const int i = block_of(within, 1);
  if (i < 0) return CUDA_ERROR_NOT_FOUND;
  *base = (CUdeviceptr)(uintptr_t)blocks[i].shown;
  *bytes = blocks[i].bytes;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostAlloc(void** memory, size_t bytes, unsigned int flags) {
  BEGIN();
  NEEDS_CONTEXT();
  if ((flags & CU_MEMHOSTALLOC_PORTABLE) == 0) return CUDA_ERROR_INVALID_VALUE;
  void* const pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = pages;
  return keep(pages, pages, bytes, -1, 0);
}
EXPORT CUresult cuMemFreeHost(void* memory) {
  BEGIN();
  const int i = block_of((uint64_t)(uintptr_t)memory, 1);
  if (i < 0 || blocks[i].device >= 0 || blocks[i].registered) return CUDA_ERROR_INVALID_VALUE;
  munmap(memory, blocks[i].bytes);
  blocks[i].shown = NULL;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostRegister(void* memory, size_t bytes, unsigned int flags) {
  (void)flags;
  BEGIN();
  NEEDS_CONTEXT();
  if (block_of((uint64_t)(uintptr_t)memory, 1) >= 0) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  return keep(memory, memory, bytes, -1, 1);
}
EXPORT CUresult cuMemHostUnregister(void* memory) {
  BEGIN();
  const int i = block_of((uint64_t)(uintptr_t)memory, 1);
  if (i < 0 || !blocks[i].registered) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  blocks[i].shown = NULL;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemsetD8(CUdeviceptr memory, unsigned char value, size_t bytes) {
  BEGIN();
  NEEDS_CONTEXT();
  char* at = NULL;
  const CUresult error = reach(current, memory, bytes, &at);
  if (error == CUDA_SUCCESS) memset(at, value, bytes);
  return error;
}

/* --------------------------------------------------------------------------------------------- copies, streams */

static CUresult move(CUcontext context, const struct copy* copy) {
  char *to = NULL, *from = NULL;
  CUresult error = reach(context, copy->to, copy->bytes, &to);
  if (error == CUDA_SUCCESS) error = reach(context, copy->from, copy->bytes, &from);
  if (error == CUDA_SUCCESS) memmove(to, from, copy->bytes);
  return error;
}
EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  BEGIN();
  NEEDS_CONTEXT();
  return move(current, &(struct copy){to, from, bytes});
}

/* All that was handed to it, now. */
static CUresult finish(CUstream stream) {
  for (int i = 0; i < stream->queued; ++i) {
    CUresult error = move(stream->context, &stream->queue[i]);
    char* last = NULL;
    if (error == CUDA_SUCCESS && stream->queue[i].bytes > 0 && number_of("FAKE_CUDA_FLIPS", 0) != 0) {
      error = reach(stream->context, stream->queue[i].to + stream->queue[i].bytes - 1, 1, &last);
      if (error == CUDA_SUCCESS) *last ^= 1;
    }
    if (error != CUDA_SUCCESS) return error;
  }
  stream->queued = 0;
  stream->looks = 0;
  return CUDA_SUCCESS;
}
static CUresult enqueue(CUstream stream, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  if (stream->context != current) return CUDA_ERROR_INVALID_CONTEXT;
  if (stream->queued == QUEUE) {
    const CUresult error = finish(stream);
    if (error != CUDA_SUCCESS) return error;
  }
  stream->queue[stream->queued++] = (struct copy){to, from, bytes};
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  BEGIN();
  NEEDS_CONTEXT();
  return enqueue(stream, to, from, bytes);
}
EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes,
                                  CUstream stream) {
  BEGIN();
  NEEDS_CONTEXT();
  const int target = block_of(to, bytes), source = block_of(from, bytes);
  if (target < 0 || source < 0 || blocks[target].device != there->device || blocks[source].device != here->device)
    return CUDA_ERROR_INVALID_VALUE;
  return enqueue(stream, to, from, bytes);
}
EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  (void)flags;
  BEGIN();
  NEEDS_CONTEXT();
  *stream = calloc(1, sizeof **stream);
  if (*stream == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  (*stream)->context = current;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamDestroy(CUstream stream) {
  BEGIN();
  free(stream);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamQuery(CUstream stream) {
  BEGIN();
  if (stream->work != 0) return CUDA_ERROR_NOT_READY;
  if (stream->queued == 0) return CUDA_SUCCESS;
  if (number_of("FAKE_CUDA_STUCK", 0) != 0) return CUDA_ERROR_NOT_READY;
  if (stream->looks++ < number_of("FAKE_CUDA_LOOKS", 3)) return CUDA_ERROR_NOT_READY;
  return finish(stream);
}
EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  BEGIN();
  return finish(stream);
}
EXPORT CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  BEGIN();
  NEEDS_CONTEXT();
  *event = calloc(1, sizeof **event);
  if (*event == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  (*event)->flags = flags;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventDestroy(CUevent event) {
  BEGIN();
  free(event);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  BEGIN();
  event->recorded = stream;
  return CUDA_SUCCESS;
}
/* netpipe sleeps for it, and says so. */
EXPORT CUresult cuEventSynchronize(CUevent event) {
  BEGIN();
  if ((event->flags & CU_EVENT_BLOCKING_SYNC) == 0) return CUDA_ERROR_INVALID_VALUE;
  return event->recorded == NULL ? CUDA_SUCCESS : finish(event->recorded);
}
