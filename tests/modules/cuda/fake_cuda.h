/* SPDX-License-Identifier: Apache-2.0
 *
 * What stand-ins for libraries above the driver ask of that for the driver.
 */
#ifndef NETPIPE_TESTS_FAKE_CUDA_H
#define NETPIPE_TESTS_FAKE_CUDA_H

#include <stddef.h>

#define FAKE_EXPORT __attribute__((visibility("default")))

struct CUstream_st; /* a CUstream points to one */

/* Where the bytes of this memory of a device are; NULL: it is no memory of a device. */
FAKE_EXPORT char* fake_cuda_real(const void* memory, size_t bytes);
/* The device of this thread's context; -1: it has none. */
FAKE_EXPORT int fake_cuda_device(void);
/* What others do for a stream begins (1) or is done (-1): it is not empty until all is. From any thread. */
FAKE_EXPORT void fake_cuda_work(struct CUstream_st* stream, int change);

#endif
