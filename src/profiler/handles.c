/* SPDX-License-Identifier: Apache-2.0
 *
 * What a handle of the application stands for: communicators, whose members are peers; windows, which have the number
 * of their communicator; and sizes of datatypes.
 *
 * All members of a communicator must give it the same name, because profiles of ranks are merged by it. That name is
 * its members, the communicator of which it was made, and an ordinal: how many of those there are already.
 * Communicators are made and freed by collective calls on that one, so members agree on it, also where threads make
 * them at the same time. One that is made takes the place of one that was freed and was made by the same call: a
 * program that makes and frees a communicator in every step has one in its profile.
 */
#include <stdlib.h>

#include "record.h"

WEAK(PMPI_Comm_group)
WEAK(PMPI_Comm_rank)
WEAK(PMPI_Comm_remote_group)
WEAK(PMPI_Comm_remote_size)
WEAK(PMPI_Comm_size)
WEAK(PMPI_Comm_test_inter)
WEAK(PMPI_Group_free)
WEAK(PMPI_Group_rank)
WEAK(PMPI_Group_size)
WEAK(PMPI_Group_translate_ranks)
WEAK(PMPI_Type_size)
WEAK(PMPI_Type_size_x)
WEAK(PMPI_Win_get_group)
WEAK(PMPI_Topo_test)
WEAK(PMPI_Cartdim_get)
WEAK(PMPI_Graph_neighbors_count)
WEAK(PMPI_Dist_graph_neighbors_count)

/* ------------------------------------------------------------------------------------------------------ handles */

void profiler_know(uintptr_t handle, uint32_t index) {
  struct known* const known = known_slot(handle);
  if (known->handle == 0) {
    if (profiler.known_count >= KNOWN / 4 * 3) return; /* it is looked up whenever it is used */
    profiler.known_count++;
  }
  *known = (struct known){handle, index};
}

COLD void profiler_forget(uintptr_t handle, int freed) {
  if (profiler.last_communicator == handle) profiler.last_communicator = 0;
  struct known* gap = known_slot(handle);
  if (gap->handle == 0) return;
  if (freed) profiler.beside[gap->index].exists = 0;
  profiler.known_count--;
  /* Closes the gap, so that those behind it are still found. */
  for (struct known* at = gap;;) {
    at = at + 1 == profiler.known + KNOWN ? profiler.known : at + 1;
    if (at->handle == 0) break;
    const uint64_t home = mixed(at->handle) % KNOWN;
    if (((uint64_t)(at - profiler.known) - home) % KNOWN >= (uint64_t)(at - gap) % KNOWN) {
      *gap = *at;
      gap = at;
    }
  }
  gap->handle = 0;
}

/* ------------------------------------------------------------------------------------------------ communicators */

struct group {
  int count;
  int* members; /* ranks in MPI_COMM_WORLD; negative: a process that is not in it; NULL: no memory */
};

/* Frees the handle. */
static struct group group_of(MPI_Group handle) {
  struct group group = {0, NULL};
  MPI_Group world;
  PMPI_Group_size(handle, &group.count);
  int* const ranks = malloc(2 * ((size_t)group.count + 1) * sizeof *ranks);
  if (ranks != NULL) {
    group.members = ranks + group.count;
    for (int i = 0; i < group.count; ++i) ranks[i] = i;
    PMPI_Comm_group(profiler.world, &world);
    PMPI_Group_translate_ranks(handle, group.count, ranks, world, group.members);
    PMPI_Group_free(&world);
    memcpy(ranks, group.members, (size_t)group.count * sizeof *ranks);
    for (int i = 0; i < group.count; ++i)
      if (ranks[i] == MPI_UNDEFINED) ranks[i] = PEER_NONE;
    group.members = ranks;
  }
  PMPI_Group_free(&handle);
  return group;
}

/* FNV-1a over the members, begun with `hash`. */
#define FIRST_HASH UINT64_C(0xcbf29ce484222325)
#define HASH_PRIME UINT64_C(0x100000001b3)
static uint64_t hash_of(uint64_t hash, struct group group) {
  for (int i = 0; group.members != NULL && i < group.count; ++i)
    hash = (hash ^ (uint64_t)(uint32_t)group.members[i]) * HASH_PRIME;
  return hash;
}

void profiler_look_up_communicator(MPI_Comm comm) {
  const uintptr_t bits = comm_bits(comm);
  const struct known* const known = known_slot(bits);
  profiler.last_index = LIKELY(known->handle == bits) ? known->index : profiler_add_communicator(comm, "", NO_PARENT);
  profiler.last_communicator = bits;
}

COLD uint32_t profiler_others(void) {
  struct part* const part = profiler.part;
  if (profiler.others == 0) {
    profiler.others = part->communicators;
    profiler.communicators[profiler.others] = (struct communicator){.name = "others"};
    profiler.beside[profiler.others] = (struct beside){.exists = 1};
    part->communicators++;
  }
  return profiler.others;
}

/* `peers` are those that ranks of messages name. Returns the number. */
static uint32_t add_group(uint64_t hash, struct group peers, int rank, int local_size, const char* made_by) {
  struct part* const part = profiler.part;
  const struct beside beside = {.local_size = (uint32_t)local_size, .degree = -1, .exists = 1};
  uint32_t ordinal = 0;
  for (uint32_t i = 0; i < part->communicators; ++i) {
    const struct communicator* const other = &profiler.communicators[i];
    if (other->members_hash != hash || other->size != (uint32_t)peers.count) continue;
    if (!profiler.beside[i].exists && strcmp(other->name, made_by) == 0) {
      profiler.beside[i] = beside;
      return i;
    }
    ordinal++;
  }
  /* One place is kept for those for which there is none. */
  if (part->communicators == COMMUNICATORS || (part->communicators == COMMUNICATORS - 1 && profiler.others == 0))
    return profiler_others();
  struct communicator* const c = &profiler.communicators[part->communicators];
  *c = (struct communicator){
      .members_hash = hash, .ordinal = ordinal, .size = (uint32_t)peers.count, .rank = rank, .first = part->members};
  memcpy(c->name, made_by, strnlen(made_by, sizeof c->name - 1));
  if (peers.members != NULL && part->members + (uint32_t)peers.count <= MEMBERS) {
    for (int i = 0; i < peers.count; ++i) profiler.members[part->members + (uint32_t)i] = peers.members[i];
    c->listed = (uint32_t)peers.count;
    part->members += (uint32_t)peers.count;
  }
  profiler.beside[part->communicators] = beside;
  return part->communicators++;
}

COLD uint32_t profiler_add_communicator(MPI_Comm comm, const char* made_by, uint32_t parent) {
  int inter = 0, rank = 0;
  MPI_Group handle;
  if (comm == profiler.no_communicator || PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS) return profiler_others();
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_group(comm, &handle);
  struct group mine = group_of(handle), peers = mine;
  uint64_t hash = FIRST_HASH;
  if (parent != NO_PARENT && !inter) {
    const struct communicator* const p = &profiler.communicators[parent];
    hash = (hash ^ p->members_hash ^ p->ordinal) * HASH_PRIME;
  }
  hash = hash_of(hash, mine);
  if (inter) {
    PMPI_Comm_remote_group(comm, &handle);
    peers = group_of(handle);
    /* The same on both sides, and not that of a communicator of either. */
    const int lower = mine.members != NULL && peers.members != NULL && mine.members[0] < peers.members[0];
    hash = hash_of(hash_of(~FIRST_HASH, lower ? mine : peers), lower ? peers : mine);
  }
  const uintptr_t bits = comm_bits(comm);
  profiler_forget(bits, 1); /* a handle that comes again: what it stood for was freed where it was not seen */
  const uint32_t index = add_group(hash, peers, rank, mine.count, made_by);
  profiler_know(bits, index);
  if (inter) free(peers.members);
  free(mine.members);
  return index;
}

#if MPI_VERSION >= 2
/* A window that was made before anything was counted, or by a library. */
COLD uint32_t profiler_add_window(MPI_Win window) {
  int rank = 0;
  MPI_Group handle;
  if (PMPI_Win_get_group(window, &handle) != MPI_SUCCESS) return profiler_others();
  PMPI_Group_rank(handle, &rank);
  const struct group group = group_of(handle);
  const uint32_t index = add_group(hash_of(FIRST_HASH, group), group, rank, group.count, "window");
  profiler_know(BITS_OF(window), index);
  free(group.members);
  return index;
}

/* The number of a window is mostly that of a communicator, which goes on without it. */
COLD void profiler_forget_window(uintptr_t handle) {
  const struct known* const known = known_slot(handle);
  if (known->handle == handle)
    profiler_forget(handle, strcmp(profiler.communicators[known->index].name, "window") == 0);
}
#endif

/* Of a communicator for which there was no room: how many take part in its collective calls as peers. */
COLD uint64_t profiler_size_now(MPI_Comm comm) {
  int inter = 0, size = 0;
  PMPI_Comm_test_inter(comm, &inter);
  if (inter) {
    PMPI_Comm_remote_size(comm, &size);
  } else {
    PMPI_Comm_size(comm, &size);
  }
  return (uint64_t)size;
}

/* To how many neighbours this rank sends. */
COLD uint64_t profiler_degree(MPI_Comm comm) {
  int kind = MPI_UNDEFINED, degree = 0;
  PMPI_Topo_test(comm, &kind);
  if (kind == MPI_CART) {
    if (PMPI_Cartdim_get(comm, &degree) == MPI_SUCCESS) degree *= 2;
  } else if (kind == MPI_GRAPH) {
    int rank = 0;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Graph_neighbors_count(comm, rank, &degree);
#if MPI_VERSION >= 3
  } else if (kind == MPI_DIST_GRAPH) {
    int from = 0, weighted = 0;
    PMPI_Dist_graph_neighbors_count(comm, &from, &degree, &weighted);
#endif
  }
  return (uint64_t)degree;
}

/* ---------------------------------------------------------------------------------------------------- datatypes */

COLD void profiler_look_up_type(MPI_Datatype type, struct known_type* known) {
#if MPI_VERSION >= 3
  MPI_Count size = 0;
  if (PMPI_Type_size_x(type, &size) != MPI_SUCCESS || size < 0) size = 0;
#else
  int size = 0;
  if (PMPI_Type_size(type, &size) != MPI_SUCCESS || size < 0) size = 0;
#endif
  *known = (struct known_type){type_bits(type), (uint64_t)size};
}
