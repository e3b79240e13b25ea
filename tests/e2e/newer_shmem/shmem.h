/* SPDX-License-Identifier: Apache-2.0
 *
 * What src/modules/shmem calls of OpenSHMEM 1.5, which no library here has: that of Open MPI is of 1.4.
 */
#ifndef NEWER_SHMEM_H
#define NEWER_SHMEM_H

#include <stddef.h>
#include <stdint.h>

#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 5
#define SHMEM_MAX_NAME_LEN 64
#define SHMEM_SYNC_SIZE 8
#define SHMEM_SYNC_VALUE (-1L)
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 8

enum { SHMEM_CMP_EQ = 1, SHMEM_CMP_NE, SHMEM_CMP_GT, SHMEM_CMP_GE, SHMEM_CMP_LT, SHMEM_CMP_LE };
enum { SHMEM_SIGNAL_SET = 11, SHMEM_SIGNAL_ADD };

void shmem_init(void);
void shmem_finalize(void);
int shmem_my_pe(void);
int shmem_n_pes(void);
void shmem_info_get_name(char* name);
void shmem_info_get_version(int* major, int* minor);

void* shmem_malloc(size_t bytes);
void* shmem_align(size_t alignment, size_t bytes);
void shmem_free(void* memory);
void* shmem_ptr(const void* far, int pe);

void shmem_fence(void);
void shmem_quiet(void);
void shmem_barrier_all(void);
void shmem_uint64_wait_until(uint64_t* word, int how, uint64_t value);
int shmem_uint64_test(uint64_t* word, int how, uint64_t value);

void shmem_putmem(void* far, const void* near, size_t bytes, int pe);
void shmem_getmem(void* near, const void* far, size_t bytes, int pe);
void shmem_putmem_nbi(void* far, const void* near, size_t bytes, int pe);
void shmem_getmem_nbi(void* near, const void* far, size_t bytes, int pe);
void shmem_uint64_p(uint64_t* far, uint64_t value, int pe);
void shmem_putmem_signal(void* far, const void* near, size_t bytes, uint64_t* signal, uint64_t value, int how, int pe);

#define SHMEM_OF_WIDTHS(DO) DO(8) DO(16) DO(32) DO(64) DO(128)
#define SHMEM_STRIDED(bits)                                                                                     \
  void shmem_iput##bits(void* far, const void* near, ptrdiff_t there, ptrdiff_t here, size_t elements, int pe); \
  void shmem_iget##bits(void* near, const void* far, ptrdiff_t here, ptrdiff_t there, size_t elements, int pe);
SHMEM_OF_WIDTHS(SHMEM_STRIDED)

void shmem_ulong_atomic_add(unsigned long* far, unsigned long value, int pe);
unsigned long shmem_ulong_atomic_fetch_add(unsigned long* far, unsigned long value, int pe);
unsigned long shmem_ulong_atomic_swap(unsigned long* far, unsigned long value, int pe);
unsigned long shmem_ulong_atomic_compare_swap(unsigned long* far, unsigned long wanted, unsigned long value, int pe);
unsigned long shmem_ulong_atomic_fetch(const unsigned long* far, int pe);
void shmem_ulong_atomic_set(unsigned long* far, unsigned long value, int pe);

/* Collectives over an active set. */
#define SHMEM_OF_WORDS(DO) DO(32) DO(64)
#define SHMEM_SET int first, int log_stride, int size
#define SHMEM_MOVERS(bits)                                                                                        \
  void shmem_broadcast##bits(void* target, const void* source, size_t elements, int root, SHMEM_SET, long* sync); \
  void shmem_collect##bits(void* target, const void* source, size_t elements, SHMEM_SET, long* sync);             \
  void shmem_fcollect##bits(void* target, const void* source, size_t elements, SHMEM_SET, long* sync);            \
  void shmem_alltoall##bits(void* target, const void* source, size_t elements, SHMEM_SET, long* sync);            \
  void shmem_alltoalls##bits(void* target, const void* source, ptrdiff_t there, ptrdiff_t here, size_t elements,  \
                             SHMEM_SET, long* sync);
SHMEM_OF_WORDS(SHMEM_MOVERS)

#define SHMEM_ORDERED(DO, name, type) DO(name, type, sum) DO(name, type, min) DO(name, type, max) DO(name, type, prod)
#define SHMEM_OF_REDUCTIONS(DO)          \
  SHMEM_ORDERED(DO, int, int)            \
  SHMEM_ORDERED(DO, longlong, long long) \
  SHMEM_ORDERED(DO, float, float)        \
  SHMEM_ORDERED(DO, double, double)      \
  SHMEM_BITWISE(DO, int, int)            \
  SHMEM_BITWISE(DO, longlong, long long)
/* clang-format off: it takes these for operators, and never comes to an end of it */
#define SHMEM_BITWISE(DO, name, type) DO(name, type, and) DO(name, type, or) DO(name, type, xor)
/* clang-format on */
#define SHMEM_REDUCTION(name, type, what)                                                                    \
  void shmem_##name##_##what##_to_all(type* target, const type* source, int elements, SHMEM_SET, type* work, \
                                      long* sync);
SHMEM_OF_REDUCTIONS(SHMEM_REDUCTION)

#endif
