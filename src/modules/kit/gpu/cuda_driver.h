/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of NVIDIA's driver that layers use, found when a layer is opened: one build works on machines with and
 * without a GPU. It is the driver's own library, libcuda.so.1, and not the runtime on top of it (libcudart): the driver
 * is on every machine with a GPU, is the same library for toolkits of all versions, and its symbols carry the version
 * of their signature (cuMemAlloc_v2). cudaMemcpyAsync ends in cuMemcpyAsync, and a cudaStream_t is a CUstream.
 *
 * The types are those of cuda.h where it is there, else what they are by the driver's ABI. src/modules/cuda is built
 * where it is there only, and checks each signature against it. Plain C, for modules in either language.
 */
#ifndef NETPIPE_KIT_CUDA_DRIVER_H
#define NETPIPE_KIT_CUDA_DRIVER_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "netpipe/module.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#else
/* NOLINTBEGIN(modernize-use-using): C */
typedef int CUresult; /* enumerations are passed as int */
typedef int CUdevice_attribute;
typedef int CUdevice_P2PAttribute;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st* CUcontext;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
/* NOLINTEND(modernize-use-using) */
enum { CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_NO_DEVICE = 100, CUDA_ERROR_NOT_READY = 600 };
#endif

#define NP_CUDA_LIBRARY "libcuda.so.1"

/* The names are the driver's, and the parameter lists are written as in C, so neither can be put into parentheses. */
/* NOLINTBEGIN(readability-identifier-naming,bugprone-macro-parentheses,modernize-redundant-void-arg) */

/* X(symbol, parameters) */
#define NP_CUDA_CALLS(X)                                                                                \
  X(cuInit, (unsigned int flags))                                                                       \
  X(cuDriverGetVersion, (int* version))                                                                 \
  X(cuGetErrorName, (CUresult error, const char** text))                                                \
  X(cuGetErrorString, (CUresult error, const char** text))                                              \
  X(cuDeviceGetCount, (int* count))                                                                     \
  X(cuDeviceGet, (CUdevice * device, int ordinal))                                                      \
  X(cuDeviceGetName, (char* name, int bytes, CUdevice device))                                          \
  X(cuDeviceGetAttribute, (int* value, CUdevice_attribute attribute, CUdevice device))                  \
  X(cuDeviceGetPCIBusId, (char* name, int bytes, CUdevice device))                                      \
  X(cuDeviceCanAccessPeer, (int* can, CUdevice device, CUdevice peer))                                  \
  X(cuDeviceGetP2PAttribute, (int* value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to)) \
  X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                                   \
  X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                                    \
  X(cuCtxSetCurrent, (CUcontext context))                                                               \
  X(cuCtxSynchronize, (void))                                                                           \
  X(cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags))                                        \
  X(cuMemAlloc_v2, (CUdeviceptr * memory, size_t bytes))                                                \
  X(cuMemFree_v2, (CUdeviceptr memory))                                                                 \
  X(cuMemGetAddressRange_v2, (CUdeviceptr * base, size_t* bytes, CUdeviceptr within))                   \
  X(cuMemHostAlloc, (void** memory, size_t bytes, unsigned int flags))                                  \
  X(cuMemFreeHost, (void* memory))                                                                      \
  X(cuMemHostRegister_v2, (void* memory, size_t bytes, unsigned int flags))                             \
  X(cuMemHostUnregister, (void* memory))                                                                \
  X(cuMemsetD8_v2, (CUdeviceptr memory, unsigned char value, size_t bytes))                             \
  X(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes))                                         \
  X(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                   \
  X(cuMemcpyPeerAsync,                                                                                  \
    (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes, CUstream stream)) \
  X(cuStreamCreate, (CUstream * stream, unsigned int flags))                                            \
  X(cuStreamDestroy_v2, (CUstream stream))                                                              \
  X(cuStreamQuery, (CUstream stream))                                                                   \
  X(cuStreamSynchronize, (CUstream stream))                                                             \
  X(cuEventCreate, (CUevent * event, unsigned int flags))                                               \
  X(cuEventDestroy_v2, (CUevent event))                                                                 \
  X(cuEventRecord, (CUevent event, CUstream stream))                                                    \
  X(cuEventSynchronize, (CUevent event))

/* Each call by the name of its symbol: cuda->cuInit(0). */
struct np_cuda {
  void* library; /* stays loaded: a driver that was started cannot be unloaded */
#define NP_CUDA_POINTER(symbol, parameters) CUresult(*symbol) parameters;
  NP_CUDA_CALLS(NP_CUDA_POINTER)
#undef NP_CUDA_POINTER
};

/* NOLINTEND(readability-identifier-naming,bugprone-macro-parentheses,modernize-redundant-void-arg) */

/* "CUDA_ERROR_OUT_OF_MEMORY: out of memory" */
static inline const char* np_cuda_error(const struct np_cuda* cuda, CUresult error, char* text, size_t bytes) {
  const char* name = NULL;  /* NOLINT(modernize-use-nullptr): C */
  const char* words = NULL; /* NOLINT(modernize-use-nullptr): C */
  if (cuda->cuGetErrorName(error, &name) != CUDA_SUCCESS || !name) name = "an unknown error";
  if (cuda->cuGetErrorString(error, &words) != CUDA_SUCCESS || !words) words = "the driver has no words for it";
  snprintf(text, bytes, "%s: %s", name, words);
  return text;
}

static inline np_status np_cuda_status(CUresult error) {
  return error == CUDA_ERROR_OUT_OF_MEMORY ? NP_NO_MEMORY : NP_FAILED;
}

/* Leaves a sentence, where: what was called. */
static inline np_status np_cuda_fail(const struct np_cuda* cuda, CUresult error, const char* where, char* message,
                                     size_t message_bytes) {
  char text[160];
  snprintf(message, message_bytes, "%s failed with %s", where, np_cuda_error(cuda, error, text, sizeof text));
  return np_cuda_status(error);
}

/* Finds the calls. NP_UNAVAILABLE with a sentence where there is no driver, or one that lacks a call. */
static inline np_status np_cuda_load(struct np_cuda* cuda, char* message, size_t message_bytes) {
  memset(cuda, 0, sizeof *cuda);
  cuda->library = dlopen(NP_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!cuda->library) {
    snprintf(message, message_bytes,
             "there is no CUDA device here: NVIDIA's driver was not found (%s); install it on a machine with a GPU",
             dlerror());
    return NP_UNAVAILABLE;
  }
  const char* lacking = NULL; /* NOLINT(modernize-use-nullptr): C */
#define NP_CUDA_FIND(symbol, parameters)                             \
  {                                                                  \
    void* const found = dlsym(cuda->library, #symbol);               \
    memcpy((void*)&cuda->symbol, (const void*)&found, sizeof found); \
    if (!found && !lacking) lacking = #symbol;                       \
  }
  NP_CUDA_CALLS(NP_CUDA_FIND)
#undef NP_CUDA_FIND
  if (!lacking) return NP_OK;
  snprintf(message, message_bytes, NP_CUDA_LIBRARY " has no %s: install a newer driver", lacking);
  return NP_UNAVAILABLE;
}

/* Starts the driver in this process, and counts its devices. A child of this process cannot use it any more. */
static inline np_status np_cuda_start(const struct np_cuda* cuda, int* devices, char* message, size_t message_bytes) {
  CUresult error = cuda->cuInit(0);
  *devices = 0;
  if (error == CUDA_SUCCESS) error = cuda->cuDeviceGetCount(devices);
  if (error == CUDA_SUCCESS && *devices > 0) return NP_OK;
  char text[160];
  snprintf(message, message_bytes, "there is no CUDA device here: the driver says %s; `nvidia-smi` lists the devices",
           error == CUDA_SUCCESS ? "that it has none" : np_cuda_error(cuda, error, text, sizeof text));
  return NP_UNAVAILABLE;
}

/* Can a device be used here? For probe. */
static inline np_status np_cuda_probe(char* message, size_t message_bytes) {
  struct np_cuda cuda;
  int devices = 0;
  const np_status status = np_cuda_load(&cuda, message, message_bytes);
  return status == NP_OK ? np_cuda_start(&cuda, &devices, message, message_bytes) : status;
}

#endif
