/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests/e2e/test_gpu_memory.py, preloaded into the ranks of an MPI library that was built without CUDA: it makes
 * that library one that says that it takes memory of a device, and takes it. The device is that of the stand-in for the
 * driver (tests/modules/cuda/fake_cuda.c), whose addresses the processor cannot follow: here they are replaced by those
 * of the bytes behind them. A message of netpipe that is not in memory of a device ends the rank.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { TAG_MESSAGE = 1 }; /* of the module's messages (src/modules/mpi/mpi_endpoint.h) */

/* The way in which each library is asked. */
#ifdef MPIX_GPU_SUPPORT_CUDA
int MPIX_GPU_query_support(int type, int* supported) {
  *supported = type == MPIX_GPU_SUPPORT_CUDA;
  return MPI_SUCCESS;
}
#else
int MPIX_Query_cuda_support(void) { return 1; }
#endif

#ifdef CALLED /* by this name, as one that cannot be asked and is told by a variable */
int MPI_Get_library_version(char* version, int* length) {
  *length = snprintf(version, MPI_MAX_LIBRARY_VERSION_STRING, "%s", CALLED);
  return MPI_SUCCESS;
}
#endif

/* Where the bytes behind an address of the device are; NULL: it is none of the device. */
static void* behind(const void* memory) {
  static char* (*ask)(const void*, size_t);
  if (ask == NULL) {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver != NULL) *(void**)&ask = dlsym(driver, "fake_cuda_real");
  }
  return ask != NULL ? ask(memory, 0) : NULL;
}
static void* real(const void* memory) {
  void* const found = behind(memory);
  return found != NULL ? found : (void*)(uintptr_t)memory;
}
static void* message(const void* memory, int count, int tag) {
  if (tag == TAG_MESSAGE && count > 0 && behind(memory) == NULL) {
    fprintf(stderr, "aware_mpi: a message is in memory of the host\n");
    abort();
  }
  return real(memory);
}

#define SENDS(name)                                                                                \
  int MPI_##name(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) { \
    return PMPI_##name(message(data, count, tag), count, type, to, tag, comm);                     \
  }
#define STARTS(name)                                                                             \
  int MPI_##name(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, \
                 MPI_Request* request) {                                                         \
    return PMPI_##name(message(data, count, tag), count, type, to, tag, comm, request);          \
  }
SENDS(Send)
SENDS(Ssend)
SENDS(Bsend)
SENDS(Rsend)
STARTS(Isend)
STARTS(Issend)
STARTS(Ibsend)
STARTS(Send_init)

int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status) {
  return PMPI_Recv(message(data, count, tag), count, type, from, tag, comm, status);
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  return PMPI_Irecv(message(data, count, tag), count, type, from, tag, comm, request);
}
int MPI_Recv_init(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  return PMPI_Recv_init(message(data, count, tag), count, type, from, tag, comm, request);
}

int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  return PMPI_Bcast(real(data), count, type, root, comm);
}
int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return PMPI_Allreduce(real(from), real(to), count, type, op, comm);
}
int MPI_Alltoall(const void* from, int sent, MPI_Datatype of, void* to, int received, MPI_Datatype type,
                 MPI_Comm comm) {
  return PMPI_Alltoall(real(from), sent, of, real(to), received, type, comm);
}
int MPI_Gather(const void* from, int sent, MPI_Datatype of, void* to, int received, MPI_Datatype type, int root,
               MPI_Comm comm) {
  return PMPI_Gather(real(from), sent, of, real(to), received, type, root, comm);
}

int MPI_Win_create(void* memory, MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, MPI_Win* window) {
  return PMPI_Win_create(real(memory), bytes, unit, info, comm, window);
}
int MPI_Put(const void* from, int count, MPI_Datatype type, int peer, MPI_Aint at, int there, MPI_Datatype as,
            MPI_Win window) {
  return PMPI_Put(real(from), count, type, peer, at, there, as, window);
}
int MPI_Get(void* to, int count, MPI_Datatype type, int peer, MPI_Aint at, int there, MPI_Datatype as, MPI_Win window) {
  return PMPI_Get(real(to), count, type, peer, at, there, as, window);
}
