/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenSHMEM 1.5 between two processes of one host, whose symmetric heaps lie behind each other in one file. NEWER_SHMEM
 * names it, NEWER_SHMEM_PE says which of them this is. At its end a process tells how many puts with a signal it made.
 * Collectives are not carried out: a library of 1.4 has those.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PES = 2, PAGE = 4096 };
#define HEAP ((size_t)1 << 26)
/* Where every process has its own heap, far from where the kernel places anything by itself. */
#define OWN ((char*)(uintptr_t)(UINT64_C(1) << 37))

static int pe;
static char* heaps[PES];       /* where this process sees them */
static unsigned long* arrived; /* the first page of the file: how often anybody came to a barrier */
static size_t used;
static unsigned long meetings, signals;

static void* must(void* memory) {
  if (memory != MAP_FAILED) return memory;
  perror("newer_shmem: mmap");
  exit(1);
}

static void* far_of(const void* own, int to) { return heaps[to] + ((const char*)own - OWN); }

void shmem_init(void) {
  const char *const path = getenv("NEWER_SHMEM"), *const number = getenv("NEWER_SHMEM_PE");
  const int file = path != NULL && number != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0 || ftruncate(file, (off_t)(PAGE + PES * HEAP)) != 0) {
    perror("newer_shmem: NEWER_SHMEM");
    exit(1);
  }
  pe = atoi(number);
  const int both = PROT_READ | PROT_WRITE;
  arrived = must(mmap(NULL, PAGE, both, MAP_SHARED, file, 0));
  for (int i = 0; i < PES; ++i) {
    heaps[i] = must(mmap(i == pe ? OWN : NULL, HEAP, both, MAP_SHARED | (i == pe ? MAP_FIXED_NOREPLACE : 0), file,
                         (off_t)(PAGE + (size_t)i * HEAP)));
  }
  close(file);
  shmem_barrier_all();
}

void shmem_finalize(void) {
  shmem_barrier_all();
  printf("process %d made %lu puts with a signal\n", pe, signals);
}

int shmem_my_pe(void) { return pe; }
int shmem_n_pes(void) { return PES; }
void shmem_info_get_name(char* name) { strcpy(name, "newer_shmem"); }
void shmem_info_get_version(int* major, int* minor) { *major = SHMEM_MAJOR_VERSION, *minor = SHMEM_MINOR_VERSION; }

/* Collective, and in the same order everywhere, so that a piece has the same address on all. Nothing is used twice. */
void* shmem_align(size_t alignment, size_t bytes) {
  const size_t begin = (used + alignment - 1) / alignment * alignment;
  if (bytes > HEAP || begin > HEAP - bytes) return NULL;
  used = begin + bytes;
  shmem_barrier_all();
  return OWN + begin;
}
void* shmem_malloc(size_t bytes) { return shmem_align(64, bytes); }
void shmem_free(void* memory) {
  (void)memory;
  shmem_barrier_all();
}
void* shmem_ptr(const void* far, int to) { return far_of(far, to); }

void shmem_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void shmem_quiet(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void shmem_barrier_all(void) {
  const unsigned long all = ++meetings * PES;
  __atomic_add_fetch(arrived, 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(arrived, __ATOMIC_SEQ_CST) < all) sched_yield();
}

int shmem_uint64_test(uint64_t* word, int how, uint64_t value) {
  const uint64_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  return how == SHMEM_CMP_GE ? seen >= value : how == SHMEM_CMP_EQ ? seen == value : (abort(), 0);
}
void shmem_uint64_wait_until(uint64_t* word, int how, uint64_t value) {
  while (!shmem_uint64_test(word, how, value)) sched_yield();
}

void shmem_putmem(void* far, const void* near, size_t bytes, int to) { memcpy(far_of(far, to), near, bytes); }
void shmem_getmem(void* near, const void* far, size_t bytes, int to) { memcpy(near, far_of(far, to), bytes); }
void shmem_putmem_nbi(void* far, const void* near, size_t bytes, int to) { shmem_putmem(far, near, bytes, to); }
void shmem_getmem_nbi(void* near, const void* far, size_t bytes, int to) { shmem_getmem(near, far, bytes, to); }
void shmem_uint64_p(uint64_t* far, uint64_t value, int to) {
  __atomic_store_n((uint64_t*)far_of(far, to), value, __ATOMIC_RELEASE);
}
void shmem_putmem_signal(void* far, const void* near, size_t bytes, uint64_t* signal, uint64_t value, int how, int to) {
  if (how != SHMEM_SIGNAL_SET) abort();
  shmem_putmem(far, near, bytes, to);
  shmem_uint64_p(signal, value, to);
  ++signals;
}

#define STRIDED(bits)                                                                                            \
  void shmem_iput##bits(void* far, const void* near, ptrdiff_t there, ptrdiff_t here, size_t elements, int to) { \
    for (size_t i = 0; i < elements; ++i) {                                                                      \
      shmem_putmem((char*)far + (ptrdiff_t)i * there * (bits) / 8,                                               \
                   (const char*)near + (ptrdiff_t)i * here * (bits) / 8, (bits) / 8, to);                        \
    }                                                                                                            \
  }                                                                                                              \
  void shmem_iget##bits(void* near, const void* far, ptrdiff_t here, ptrdiff_t there, size_t elements, int to) { \
    for (size_t i = 0; i < elements; ++i) {                                                                      \
      shmem_getmem((char*)near + (ptrdiff_t)i * here * (bits) / 8,                                               \
                   (const char*)far + (ptrdiff_t)i * there * (bits) / 8, (bits) / 8, to);                        \
    }                                                                                                            \
  }
SHMEM_OF_WIDTHS(STRIDED)

#define THERE ((unsigned long*)far_of(far, to))
void shmem_ulong_atomic_add(unsigned long* far, unsigned long value, int to) {
  __atomic_fetch_add(THERE, value, __ATOMIC_SEQ_CST);
}
unsigned long shmem_ulong_atomic_fetch_add(unsigned long* far, unsigned long value, int to) {
  return __atomic_fetch_add(THERE, value, __ATOMIC_SEQ_CST);
}
unsigned long shmem_ulong_atomic_swap(unsigned long* far, unsigned long value, int to) {
  return __atomic_exchange_n(THERE, value, __ATOMIC_SEQ_CST);
}
unsigned long shmem_ulong_atomic_compare_swap(unsigned long* far, unsigned long wanted, unsigned long value, int to) {
  __atomic_compare_exchange_n(THERE, &wanted, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return wanted;
}
unsigned long shmem_ulong_atomic_fetch(const unsigned long* far, int to) {
  return __atomic_load_n(THERE, __ATOMIC_SEQ_CST);
}
void shmem_ulong_atomic_set(unsigned long* far, unsigned long value, int to) {
  __atomic_store_n(THERE, value, __ATOMIC_SEQ_CST);
}

/* ---------------------------------------------------------------------------------------------- collectives */

#define UNUSED(body) \
  body { abort(); }
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define MOVERS(bits)                                                                                                  \
  UNUSED(                                                                                                             \
      void shmem_broadcast##bits(void* target, const void* source, size_t elements, int root, SHMEM_SET, long* sync)) \
  UNUSED(void shmem_collect##bits(void* target, const void* source, size_t elements, SHMEM_SET, long* sync))          \
  UNUSED(void shmem_fcollect##bits(void* target, const void* source, size_t elements, SHMEM_SET, long* sync))         \
  UNUSED(void shmem_alltoall##bits(void* target, const void* source, size_t elements, SHMEM_SET, long* sync))         \
  UNUSED(void shmem_alltoalls##bits(void* target, const void* source, ptrdiff_t there, ptrdiff_t here,                \
                                    size_t elements, SHMEM_SET, long* sync))
SHMEM_OF_WORDS(MOVERS)
#define REDUCTION(name, type, what)                                                                                 \
  UNUSED(void shmem_##name##_##what##_to_all(type* target, const type* source, int elements, SHMEM_SET, type* work, \
                                             long* sync))
SHMEM_OF_REDUCTIONS(REDUCTION)
