/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators for collectives of neighbours: a Cartesian one for each number of dimensions, and one with a graph
 * (MPI_Dist_graph_create_adjacent) for each degree. Each is made when a pattern asks for it first and kept until the
 * end: the first collective over a new communicator takes longer than all others.
 */
#ifndef NETPIPE_MPI_NEIGHBOURS_H
#define NETPIPE_MPI_NEIGHBOURS_H

#include "mpi_messages.h"

struct graph {
  int degree;
  MPI_Comm comm;
  struct graph* next;
};

#if HAVE_NEIGHBORS
/* The neighbours of a rank are, in each dimension, the one below and the one above, in a grid of all ranks that is
 * closed; one of one dimension is a ring. extents: of each dimension, or NULL for a ring. Collective. */
static np_status make_grid(np_endpoint* e, uint32_t dimensions, const uint64_t* extents, MPI_Comm* grid) {
  int sizes[MOST_DIMENSIONS] = {e->nranks}, periodic[MOST_DIMENSIONS];
  if (dimensions > MOST_DIMENSIONS) return NP_UNSUPPORTED;
  MPI_Comm* const made = &e->grids[dimensions - 1];
  for (uint32_t i = 0; i < dimensions; ++i) {
    periodic[i] = 1;
    if (extents != NULL) sizes[i] = (int)extents[i];
  }
  if (*made == MPI_COMM_NULL) {
    MPI_OR_RETURN(e, MPI_Cart_create(e->comm, (int)dimensions, sizes, periodic, 0, made), "MPI_Cart_create");
  }
  *grid = *made;
  return NP_OK;
}

/* The rank that lies `steps` above this one, or below where that is negative. */
static inline int rank_at(const np_endpoint* e, int steps) {
  return (int)(((int64_t)e->rank + steps + e->nranks) % e->nranks);
}

/* From a rank to the i-th that it sends to, as NP_GRAPH says; the i-th that it receives from lies on the other side. */
static inline int graph_steps(int i) { return i % 2 == 0 ? i / 2 + 1 : -(i / 2 + 1); }

/* MPI_UNWEIGHTED, which GCC takes for an array that is read beyond its end. */
static inline const int* no_weights(void) {
  const int* volatile mark = MPI_UNWEIGHTED;
  return mark;
}

/* Collective. The ranks keep their numbers (no reordering). ends: room for twice the degree. */
static np_status create_graph(np_endpoint* e, int degree, int* ends, MPI_Comm* comm) {
  int *const from = ends, *const to = ends + degree;
  for (int i = 0; i < degree; ++i) {
    to[i] = rank_at(e, graph_steps(i));
    from[i] = rank_at(e, -graph_steps(i));
  }
  MPI_OR_RETURN(e,
                MPI_Dist_graph_create_adjacent(e->comm, degree, from, no_weights(), degree, to, no_weights(),
                                               MPI_INFO_NULL, 0, comm),
                "MPI_Dist_graph_create_adjacent");
  int in = -1, out = -1, weighted = 0;
  MPI_OR_RETURN(e, MPI_Dist_graph_neighbors_count(*comm, &in, &out, &weighted), "MPI_Dist_graph_neighbors_count");
  if (in == degree && out == degree) return NP_OK;
  e->broken = 1;
  return fail(e->context, NP_FAILED, "%s made a graph in which rank %d receives from %d ranks and sends to %d, not %d",
              e->library.version, e->rank, in, out, degree);
}

/* Collective. A graph as NP_GRAPH describes it. */
static np_status make_graph(np_endpoint* e, uint32_t degree, MPI_Comm* graph) {
  if (degree == 0 || degree >= (uint32_t)e->nranks) {
    return fail(e->context, NP_UNSUPPORTED, "%d ranks make no graph of degree %u", e->nranks, (unsigned)degree);
  }
  for (const struct graph* known = e->graphs; known != NULL; known = known->next) {
    if (known->degree != (int)degree) continue;
    *graph = known->comm;
    return NP_OK;
  }
  struct graph* const made = calloc(1, sizeof *made);
  int* const ends = calloc((size_t)degree * 2, sizeof *ends);
  np_status status = NP_OK;
  if (made == NULL || ends == NULL) {
    status = fail(e->context, NP_NO_MEMORY, "no memory for a graph of degree %u", (unsigned)degree);
  } else {
    status = create_graph(e, (int)degree, ends, &made->comm);
  }
  free(ends);
  if (status != NP_OK) {
    free(made);
    return status;
  }
  made->degree = (int)degree;
  made->next = e->graphs;
  e->graphs = made;
  *graph = made->comm;
  return NP_OK;
}

static inline uint32_t dimensions_of(const np_collective_plan* plan) { return plan->dims > 0 ? plan->dims : 1; }

/* Collective. The communicator of a plan's neighbours. */
static np_status make_neighbours(np_endpoint* e, const np_collective_plan* plan, MPI_Comm* comm) {
  /* The plan of a netpipe that knows neither of the other operations ends before extents. */
  const int old = plan->what == NP_NEIGHBOR_ALLGATHER || plan->what == NP_NEIGHBOR_ALLTOALL;
  if (plan->dims >= NP_GRAPH) return make_graph(e, plan->dims - NP_GRAPH, comm);
  return make_grid(e, dimensions_of(plan), old ? plan->counts : plan->extents, comm);
}

/* The ranks that this one receives from, in the order of their blocks. *from is to be freed, whatever it returns. */
static np_status find_sources(np_endpoint* e, const np_collective_plan* plan, MPI_Comm comm, int** from, int* count) {
  const int degree = plan->dims >= NP_GRAPH ? (int)(plan->dims - NP_GRAPH) : 2 * (int)dimensions_of(plan);
  *from = calloc((size_t)degree, sizeof **from);
  if (*from == NULL) return fail(e->context, NP_NO_MEMORY, "no memory for %d neighbours", degree);
  *count = degree;
  if (plan->dims >= NP_GRAPH) {
    for (int i = 0; i < degree; ++i) (*from)[i] = rank_at(e, -graph_steps(i));
    return NP_OK;
  }
  for (int i = 0; i < degree; i += 2) { /* the one below, and the one above */
    MPI_OR_RETURN(e, MPI_Cart_shift(comm, i / 2, 1, &(*from)[i], &(*from)[i + 1]), "MPI_Cart_shift");
  }
  return NP_OK;
}
#endif

/* Collective. */
static void free_neighbours(np_endpoint* e) {
  for (int i = 0; i < MOST_DIMENSIONS; ++i) {
    if (e->grids[i] != MPI_COMM_NULL) MPI_Comm_free(&e->grids[i]);
  }
  while (e->graphs != NULL) {
    struct graph* const first = e->graphs;
    e->graphs = first->next;
    MPI_Comm_free(&first->comm);
    free(first);
  }
}

#endif
