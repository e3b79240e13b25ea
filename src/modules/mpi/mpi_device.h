/* SPDX-License-Identifier: Apache-2.0
 *
 * memory=cuda: messages in the memory of a CUDA device. Its addresses are handed to the library as they are, and only
 * to one that says that it takes them: any other would follow them with the processor, and die.
 *
 * The device is chosen after MPI_Init, because only then a rank knows which one of its host it is. Open MPI promises
 * that neither MPI_Init nor MPI_Comm_split_type uses a device ("When do I need to select a CUDA device?").
 */
#ifndef NETPIPE_MPI_DEVICE_H
#define NETPIPE_MPI_DEVICE_H

#include "mpi_windows.h"

/* Extensions of some libraries, NULL in all others: the first of MPICH and what is derived from it, the second of Open
 * MPI. MPICH has the second too, with an assertion that fails wherever assertions are compiled in. */
/* NOLINTBEGIN(readability-identifier-naming): the names are theirs */
extern int MPIX_GPU_query_support(int type, int* supported) __attribute__((weak));
extern int MPIX_Query_cuda_support(void) __attribute__((weak));
/* NOLINTEND(readability-identifier-naming) */
enum { GPU_OF_CUDA = 0 }; /* MPICH's MPIX_GPU_SUPPORT_CUDA */

/* Before MPI_Init: without a driver nothing has to be started. */
static np_status find_driver(np_endpoint* e) {
  const np_context* const context = e->context;
  int devices = 0;
  const np_status status = np_cuda_load(&e->cuda, context->message, context->message_bytes);
  if (status != NP_OK) return status;
  return np_cuda_start(&e->cuda, &devices, context->message, context->message_bytes);
}

/* MVAPICH2 is told by this variable and cannot be asked. */
#define MVAPICH2_SWITCH "MV2_USE_CUDA"

/* Before the first message, also of the host. */
static np_status ask_for_device_memory(np_endpoint* e) {
  const char* asked = NULL;
  int takes = 0;
  if (strncmp(e->library.version, "MVAPICH2", strlen("MVAPICH2")) == 0) {
    const char* const value = getenv(MVAPICH2_SWITCH);
    asked = MVAPICH2_SWITCH;
    takes = value != NULL && strcmp(value, "1") == 0;
  } else if (MPIX_GPU_query_support != NULL) {
    asked = "MPIX_GPU_query_support";
    if (MPIX_GPU_query_support(GPU_OF_CUDA, &takes) != MPI_SUCCESS) takes = 0;
  } else if (MPIX_Query_cuda_support != NULL) {
    asked = "MPIX_Query_cuda_support";
    takes = MPIX_Query_cuda_support();
  } else {
    return fail(e->context, NP_UNAVAILABLE,
                "memory=cuda: %s cannot be asked whether it takes memory of a CUDA device (it has no "
                "MPIX_Query_cuda_support), and would crash if it does not: take memory=host",
                e->library.version);
  }
  snprintf(e->takes_device, sizeof e->takes_device, "%s (%s)", takes != 0 ? "yes" : "no", asked);
  if (takes != 0) return NP_OK;
  return fail(e->context, NP_UNAVAILABLE,
              "memory=cuda: %s takes no memory of a CUDA device, as %s says: take a build of it for CUDA with its "
              "support switched on, or memory=host",
              e->library.version, asked);
}

/* Collective. Which of the ranks of its host this one is, from 0. */
static np_status place_on_host(np_endpoint* e, int* place) {
#if HAVE_MPI_3
  MPI_Comm near;
  int code = MPI_Comm_split_type(e->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
  if (code == MPI_SUCCESS) code = MPI_Comm_rank(near, place);
  if (code == MPI_SUCCESS) code = MPI_Comm_free(&near);
  return outcome(e, code, "MPI_Comm_split_type");
#else
  *place = e->rank; /* and no option leads here */
  return NP_OK;
#endif
}

/* Collective. */
static np_status open_device(np_endpoint* e) {
  int place = 0;
  np_status status = ask_for_device_memory(e);
  if (status == NP_OK) status = place_on_host(e, &place);
  if (status != NP_OK) return status;
  return np_cuda_open_for(&e->device, &e->cuda, e->context, (int)number_of(&e->settings, "cuda_device"), place);
}

static void describe_device(np_endpoint* e, np_emit emit, void* to) {
  np_emit_text(emit, to, "memory", text_of(&e->settings, "memory"));
  np_emit_text(emit, to, "takes_device_memory", e->takes_device);
  np_cuda_describe(&e->device, emit, to);
}

/* ---------------------------------------------------------------------------------------------- message memory */

/* As mpi_alloc, with the same room behind it: a window over it is made as over any other. */
static np_status device_alloc(np_endpoint* e, size_t bytes, void** memory) {
  void* at = NULL;
  struct window* w = NULL;
  np_status status = np_cuda_alloc(&e->device, bytes + signals_room(e), &at);
  if (status == NP_OK && e->window_memory) status = add_window(e, bytes, at, &w);
  if (status == NP_OK) *memory = at;
  return status;
}

static void device_free(np_endpoint* e, void* memory, size_t bytes) {
  struct window* const w = e->window_memory ? window_of(e, memory) : NULL;
  (void)bytes;
  if (w != NULL) free_window(e, w);
  if (!e->broken) np_cuda_free(&e->device, memory); /* or the library may still write there */
}

static np_status device_copy_in(np_endpoint* e, void* memory, const void* host, size_t bytes) {
  return np_cuda_copy(&e->device, memory, host, bytes);
}
static np_status device_copy_out(np_endpoint* e, void* host, const void* memory, size_t bytes) {
  return np_cuda_copy(&e->device, host, memory, bytes);
}
static np_status device_fill(np_endpoint* e, void* memory, int byte, size_t bytes) {
  return np_cuda_fill(&e->device, memory, byte, bytes);
}
static np_status device_compare(np_endpoint* e, const void* memory, const void* host, size_t bytes, size_t* equal) {
  return np_cuda_compare(&e->device, memory, host, bytes, equal);
}

/* As limits count them. */
enum { HOST_MEMORY, DEVICE_MEMORY };

static const np_memory device_memory = {.size = sizeof(np_memory),
                                        .kind = NP_MEMORY_DEVICE,
                                        .alloc = device_alloc,
                                        .free = device_free,
                                        .copy_in = device_copy_in,
                                        .copy_out = device_copy_out,
                                        .fill = device_fill,
                                        .compare = device_compare};

#endif
