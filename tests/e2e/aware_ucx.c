/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests/e2e/test_gpu_memory.py, preloaded: makes a UCX that was built without CUDA one that says that it moves
 * memory of a CUDA device, and moves it. The device is that of the stand-in for the driver
 * (tests/modules/cuda/fake_cuda.c), whose addresses the processor cannot follow: here they are replaced by those of the
 * bytes behind them. What is said to be of a device and is not, or the other way round, ends the rank.
 *
 * A peer is named addresses of the device too. So the distance to the bytes behind them travels in front of the key.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

static void* own(const char* name) {
  void* const library = dlopen("libucp.so.0", RTLD_NOW | RTLD_NOLOAD);
  void* const found = library != NULL ? dlsym(library, name) : NULL;
  if (found == NULL) {
    fprintf(stderr, "aware_ucx: there is no %s\n", name);
    abort();
  }
  return found;
}
#define OWN(name) ((__typeof__(&(name)))own(#name))

static char* behind(const void* memory) {
  static char* (*ask)(const void*, size_t);
  if (ask == NULL) {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver != NULL) *(void**)&ask = dlsym(driver, "fake_cuda_real");
  }
  return ask != NULL ? ask(memory, 0) : NULL;
}

/* The bytes, and the call without what was said of them. */
static void* real(const void* memory, size_t bytes, const ucp_request_param_t* param, ucp_request_param_t* plain) {
  const int said = (param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMORY_TYPE) != 0;
  char* const found = behind(memory);
  if (bytes > 0 && (found != NULL) != (said && param->memory_type == UCS_MEMORY_TYPE_CUDA)) {
    fprintf(stderr, "aware_ucx: memory of another kind than was said\n");
    abort();
  }
  *plain = *param;
  plain->op_attr_mask &= ~(uint32_t)UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  return found != NULL ? found : (void*)(uintptr_t)memory;
}

ucs_status_t ucp_context_query(ucp_context_h context, ucp_context_attr_t* attributes) {
  const ucs_status_t status = OWN(ucp_context_query)(context, attributes);
  attributes->memory_types |= 1U << UCS_MEMORY_TYPE_CUDA;
  return status;
}

ucs_status_ptr_t ucp_tag_send_nbx(ucp_ep_h to, const void* data, size_t bytes, ucp_tag_t tag,
                                  const ucp_request_param_t* param) {
  ucp_request_param_t plain;
  void* const at = real(data, bytes, param, &plain);
  return OWN(ucp_tag_send_nbx)(to, at, bytes, tag, &plain);
}
ucs_status_ptr_t ucp_tag_recv_nbx(ucp_worker_h worker, void* data, size_t bytes, ucp_tag_t tag, ucp_tag_t mask,
                                  const ucp_request_param_t* param) {
  ucp_request_param_t plain;
  void* const at = real(data, bytes, param, &plain);
  return OWN(ucp_tag_recv_nbx)(worker, at, bytes, tag, mask, &plain);
}
ucs_status_ptr_t ucp_stream_send_nbx(ucp_ep_h to, const void* data, size_t bytes, const ucp_request_param_t* param) {
  ucp_request_param_t plain;
  void* const at = real(data, bytes, param, &plain);
  return OWN(ucp_stream_send_nbx)(to, at, bytes, &plain);
}
ucs_status_ptr_t ucp_stream_recv_nbx(ucp_ep_h from, void* data, size_t bytes, size_t* length,
                                     const ucp_request_param_t* param) {
  ucp_request_param_t plain;
  void* const at = real(data, bytes, param, &plain);
  return OWN(ucp_stream_recv_nbx)(from, at, bytes, length, &plain);
}

/* ---------------------------------------------------------------------------------------------- puts and gets */

enum { MOST = 64 };
static struct {
  void* of; /* a ucp_mem_h, or a ucp_rkey_h */
  int64_t distance;
} distances[MOST];

static void keep(void* of, int64_t distance) {
  for (int i = 0; i < MOST; ++i) {
    if (distances[i].of != NULL && distances[i].of != of) continue;
    distances[i].of = of;
    distances[i].distance = distance;
    return;
  }
  abort();
}
static int64_t distance_of(const void* of) {
  for (int i = 0; i < MOST; ++i) {
    if (distances[i].of == of) return distances[i].distance;
  }
  return 0;
}

ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t* params, ucp_mem_h* handle) {
  const int said = (params->field_mask & UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE) != 0;
  char* const found = params->address != NULL ? behind(params->address) : NULL;
  if ((found != NULL) != (said && params->memory_type == UCS_MEMORY_TYPE_CUDA)) {
    fprintf(stderr, "aware_ucx: memory of another kind than was said is mapped\n");
    abort();
  }
  ucp_mem_map_params_t plain = *params;
  plain.field_mask &= ~(uint64_t)UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  if (found != NULL) plain.address = found;
  const ucs_status_t status = OWN(ucp_mem_map)(context, &plain, handle);
  if (status == UCS_OK) keep(*handle, found != NULL ? found - (char*)params->address : 0);
  return status;
}

ucs_status_t ucp_rkey_pack(ucp_context_h context, ucp_mem_h handle, void** key, size_t* bytes) {
  void* packed = NULL;
  const ucs_status_t status = OWN(ucp_rkey_pack)(context, handle, &packed, bytes);
  if (status != UCS_OK) return status;
  const int64_t distance = distance_of(handle);
  char* const longer = malloc(sizeof distance + *bytes);
  if (longer == NULL) abort();
  memcpy(longer, &distance, sizeof distance);
  memcpy(longer + sizeof distance, packed, *bytes);
  OWN(ucp_rkey_buffer_release)(packed);
  *key = longer;
  *bytes += sizeof distance;
  return status;
}
void ucp_rkey_buffer_release(void* key) { free(key); }

ucs_status_t ucp_ep_rkey_unpack(ucp_ep_h to, const void* key, ucp_rkey_h* unpacked) {
  int64_t distance = 0;
  memcpy(&distance, key, sizeof distance);
  const ucs_status_t status = OWN(ucp_ep_rkey_unpack)(to, (const char*)key + sizeof distance, unpacked);
  if (status == UCS_OK) keep(*unpacked, distance);
  return status;
}

ucs_status_ptr_t ucp_put_nbx(ucp_ep_h to, const void* data, size_t bytes, uint64_t there, ucp_rkey_h key,
                             const ucp_request_param_t* param) {
  ucp_request_param_t plain;
  void* const at = real(data, bytes, param, &plain);
  return OWN(ucp_put_nbx)(to, at, bytes, there + (uint64_t)distance_of(key), key, &plain);
}
ucs_status_ptr_t ucp_get_nbx(ucp_ep_h to, void* data, size_t bytes, uint64_t there, ucp_rkey_h key,
                             const ucp_request_param_t* param) {
  ucp_request_param_t plain;
  void* const at = real(data, bytes, param, &plain);
  return OWN(ucp_get_nbx)(to, at, bytes, there + (uint64_t)distance_of(key), key, &plain);
}
