/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between pinned memory of the host and that of a CUDA device, or within the device, in the loop that anybody
 * would write: each copy is handed to a stream, and the next begins when the stream is empty. The file gets a line for
 * each few copies, the ns of one.
 *
 *     copies h2d|d2h|d2d BYTES FILE SECONDS
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kit/gpu/cuda_driver.h"

static struct np_cuda cuda;

static long long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void must(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "copies: %s: error %d of the driver\n", what, (int)result);
  exit(4);
}

static CUdeviceptr on_host(size_t bytes) {
  void* memory = NULL;
  must(cuda.cuMemHostAlloc(&memory, bytes, 0), "cuMemHostAlloc");
  memset(memory, 1, bytes);
  return (CUdeviceptr)memory;
}

static CUdeviceptr on_device(size_t bytes) {
  CUdeviceptr memory = 0;
  must(cuda.cuMemAlloc_v2(&memory, bytes), "cuMemAlloc");
  must(cuda.cuMemsetD8_v2(memory, 2, bytes), "cuMemsetD8");
  return memory;
}

int main(int argc, char** argv) {
  if (argc != 5) {
    fputs("usage: copies h2d|d2h|d2d BYTES FILE SECONDS\n", stderr);
    return 2;
  }
  const char* const way = argv[1];
  const size_t bytes = strtoull(argv[2], NULL, 10);
  FILE* const out = fopen(argv[3], "w");
  if (out == NULL || bytes == 0) return 2;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(0, &set);
  sched_setaffinity(0, sizeof set, &set);
  char why[256];
  if (np_cuda_load(&cuda, why, sizeof why) != NP_OK) {
    fprintf(stderr, "copies: %s\n", why);
    return 3;
  }
  CUdevice device;
  CUcontext context;
  CUstream stream;
  must(cuda.cuInit(0), "cuInit");
  must(cuda.cuDeviceGet(&device, 0), "cuDeviceGet");
  must(cuda.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  must(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent");
  must(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  const CUdeviceptr from = way[0] == 'h' ? on_host(bytes) : on_device(bytes);
  const CUdeviceptr to = way[2] == 'h' ? on_host(bytes) : on_device(bytes);
  must(cuda.cuCtxSynchronize(), "cuCtxSynchronize");
  const int copies = bytes < 65536 ? 16 : 1;
  const long long until = now_ns() + atoll(argv[4]) * 1000000000LL;
  for (long long begin = now_ns(), end; begin < until; begin = end) {
    for (int i = 0; i < copies; ++i) {
      must(cuda.cuMemcpyAsync(to, from, bytes, stream), "cuMemcpyAsync");
      CUresult empty;
      while ((empty = cuda.cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY) {
      }
      must(empty, "cuStreamQuery");
    }
    end = now_ns();
    fprintf(out, "%.1f\n", (double)(end - begin) / copies);
    fflush(out);
    end = now_ns();
  }
  return 0;
}
