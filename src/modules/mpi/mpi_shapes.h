/* SPDX-License-Identifier: Apache-2.0
 *
 * How a message of one size is described to MPI: as bytes, or as a derived datatype that covers exactly those bytes of
 * the contiguous buffer, in another order. Both sides use the same datatype, so every byte arrives at the offset that
 * it was sent from, and the library has to gather on one side and scatter on the other.
 *
 *   contiguous  blocks in order: shows what it costs to find out that there is nothing to gather
 *   vector      the buffer is a matrix with rows of `stride` bytes, and goes column by column: a column is a strided
 *               vector of blocks. What is left after the last full row goes as bytes.
 *   indexed     blocks in a scattered order within groups of up to 4096, then the groups in order, then the rest
 *
 * Every one is a single element of one type, so no count can overflow.
 */
#ifndef NETPIPE_MPI_SHAPES_H
#define NETPIPE_MPI_SHAPES_H

#include "mpi_endpoint.h"

#define GROUP 4096
#define HUGE_BLOCK (UINT64_C(1) << 20) /* a message beyond an int is made of these, and a rest */

static inline uint64_t greatest_divisor(uint64_t a, uint64_t b) {
  while (b != 0) {
    const uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Places `count` times inner and then `rest` bytes at `offset` into one type. Frees inner, whatever happens. */
static int join_types(MPI_Datatype* inner, int count, uint64_t offset, uint64_t rest, MPI_Datatype* type) {
  int lengths[2] = {count, (int)rest};
  MPI_Aint places[2] = {0, (MPI_Aint)offset};
  MPI_Datatype types[2] = {*inner, MPI_BYTE};
  const int code = MPI_Type_create_struct(rest > 0 ? 2 : 1, lengths, places, types, type);
  const int freed = MPI_Type_free(inner);
  return code != MPI_SUCCESS ? code : freed;
}

static int contiguous_type(uint64_t block, uint64_t bytes, MPI_Datatype* type) {
  MPI_Datatype inner;
  const uint64_t blocks = bytes / block;
  const int code = MPI_Type_contiguous((int)block, MPI_BYTE, &inner);
  return code != MPI_SUCCESS ? code : join_types(&inner, (int)blocks, blocks * block, bytes - blocks * block, type);
}

static int vector_type(uint64_t block, uint64_t stride, uint64_t bytes, MPI_Datatype* type) {
  const uint64_t rows = bytes / stride, columns = stride / block;
  MPI_Datatype column, narrow;
  int code = MPI_Type_vector((int)rows, (int)block, (int)stride, MPI_BYTE, &column);
  if (code != MPI_SUCCESS) return code;
  /* The next column starts one block further, not after the end of this one. */
  code = MPI_Type_create_resized(column, 0, (MPI_Aint)block, &narrow);
  const int freed = MPI_Type_free(&column);
  if (code != MPI_SUCCESS || freed != MPI_SUCCESS) return code != MPI_SUCCESS ? code : freed;
  return join_types(&narrow, (int)columns, rows * stride, bytes - rows * stride, type);
}

static int indexed_type(uint64_t block, uint64_t bytes, MPI_Datatype* type) {
  const uint64_t blocks = bytes / block < GROUP ? bytes / block : GROUP;
  const uint64_t groups = bytes / (blocks * block);
  /* i -> i * step mod blocks visits each once, because they have no common divisor; 0.618 of the way scatters best. */
  uint64_t step = blocks * 618 / 1000 + 1;
  while (greatest_divisor(step, blocks) != 1) ++step;
  int* const lengths = malloc(blocks * sizeof *lengths);
  MPI_Aint* const places = malloc(blocks * sizeof *places);
  MPI_Datatype group, whole;
  int code = lengths == NULL || places == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;
  for (uint64_t i = 0; code == MPI_SUCCESS && i < blocks; ++i) {
    lengths[i] = (int)block;
    places[i] = (MPI_Aint)(i * step % blocks * block);
  }
  if (code == MPI_SUCCESS) code = MPI_Type_create_hindexed((int)blocks, lengths, places, MPI_BYTE, &group);
  free(lengths);
  free(places);
  if (code != MPI_SUCCESS) return code;
  code = MPI_Type_create_resized(group, 0, (MPI_Aint)(blocks * block), &whole);
  const int freed = MPI_Type_free(&group);
  if (code != MPI_SUCCESS || freed != MPI_SUCCESS) return code != MPI_SUCCESS ? code : freed;
  const uint64_t covered = groups * blocks * block;
  return join_types(&whole, (int)groups, covered, bytes - covered, type);
}

static int make_type(const np_endpoint* e, uint64_t bytes, MPI_Datatype* type) {
  const uint64_t smallest = e->type == TYPE_VECTOR ? e->stride : e->block;
  if (e->type == TYPE_BYTES) return contiguous_type(HUGE_BLOCK, bytes, type);
  if (bytes < smallest) return contiguous_type(bytes, bytes, type);
  if (e->type == TYPE_VECTOR) return vector_type(e->block, e->stride, bytes, type);
  if (e->type == TYPE_INDEXED) return indexed_type(e->block, bytes, type);
  return contiguous_type(e->block, bytes, type);
}

/* Made once per size (mpi_prepare), and looked up by its messages. */
static __attribute__((noinline)) np_status derived_shape(np_endpoint* e, uint64_t bytes, struct shape* shape) {
#if HAVE_COUNTS
  if (e->type == TYPE_BYTES) {
    *shape = (struct shape){(int64_t)bytes, MPI_BYTE};
    return NP_OK;
  }
#endif
  for (int i = 0; i < e->nshapes; ++i) {
    if (e->shapes[i].bytes != bytes) continue;
    *shape = e->shapes[i].shape;
    if (i == 0) return NP_OK; /* and nothing is written, because several threads may look at once */
    /* to the front, so that the size of this visit is found at once */
    const struct made_shape first = e->shapes[0];
    e->shapes[0] = e->shapes[i];
    e->shapes[i] = first;
    return NP_OK;
  }
  struct made_shape made = {.bytes = bytes, .shape = {.count = 1}};
  int code = make_type(e, bytes, &made.shape.type);
  if (code == MPI_SUCCESS) code = MPI_Type_commit(&made.shape.type);
  if (code != MPI_SUCCESS) return failed(e, code, "making the datatype");
  if (e->nshapes == SHAPES) MPI_Type_free(&e->shapes[--e->nshapes].shape.type);
  e->shapes[e->nshapes++] = made;
  *shape = made.shape;
  return NP_OK;
}

static inline np_status shape_of(np_endpoint* e, uint64_t bytes, struct shape* shape) {
  if (UNLIKELY(bytes > e->plain_bytes)) return derived_shape(e, bytes, shape);
  *shape = (struct shape){(int64_t)bytes, MPI_BYTE};
  return NP_OK;
}

static inline void free_blocks(struct made_blocks* of) {
  if (of->blocks != 0) MPI_Type_free(&of->type);
  of->blocks = 0;
}

/* Blocks that lie evenly apart, which is a vector. */
static COLD np_status make_blocks(np_endpoint* e, uint64_t block_bytes, uint64_t blocks, uint64_t stride,
                                  struct made_blocks* made) {
  if (block_bytes > INT_MAX || blocks > INT_MAX) {
    return fail(e->context, NP_UNSUPPORTED, "MPI_Type_create_hvector counts blocks, and bytes of a block, up to %d",
                INT_MAX);
  }
  free_blocks(made);
  MPI_Datatype type;
  int code = MPI_Type_create_hvector((int)blocks, (int)block_bytes, (MPI_Aint)stride, MPI_BYTE, &type);
  if (code == MPI_SUCCESS) code = MPI_Type_commit(&type);
  if (code != MPI_SUCCESS) return failed(e, code, "making the datatype");
  *made = (struct made_blocks){block_bytes, blocks, stride, type};
  return NP_OK;
}

/* The first transfer of a visit makes them, the others find them. */
static inline np_status find_blocks(np_endpoint* e, uint64_t block_bytes, uint64_t blocks, uint64_t stride,
                                    struct made_blocks* made) {
  if (LIKELY(made->blocks == blocks && made->block_bytes == block_bytes && made->stride == stride)) return NP_OK;
  return make_blocks(e, block_bytes, blocks, stride, made);
}

static inline void free_shapes(np_endpoint* e) {
  while (e->nshapes > 0) MPI_Type_free(&e->shapes[--e->nshapes].shape.type);
  free_blocks(&e->blocks[NEAR_BLOCKS]);
  free_blocks(&e->blocks[FAR_BLOCKS]);
}

/* The largest message that shape_of can describe. */
static inline uint64_t most_bytes(const np_endpoint* e) {
  if (e->library.family != NULL && e->library.family->max_bytes != 0) return e->library.family->max_bytes;
  const uint64_t blocks = e->type == TYPE_BYTES ? HUGE_BLOCK : e->type == TYPE_VECTOR ? e->stride : e->block;
  return blocks * INT_MAX;
}

#endif
