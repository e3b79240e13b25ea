/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes every kind of call, on three ranks, and says what it made. FOLDER is its argument.
 */
#include "expect.h"

static int rank, next, before; /* neighbours in the ring */
static double buffer[4096], other[4096];

#define W MPI_COMM_WORLD
#define IGNORE MPI_STATUS_IGNORE

static void messages(void) {
  MPI_Request requests[2];
  MPI_Status status;
  /* Blocking sends of all kinds, received with and without naming the source. */
  char attached[4096 + MPI_BSEND_OVERHEAD];
  MPI_Buffer_attach(attached, sizeof attached);
  MPI_Irecv(other, 100, MPI_DOUBLE, before, 1, W, &requests[0]);
  expect("Irecv", 800, before);
  MPI_Send(buffer, 5, MPI_DOUBLE, next, 1, W);
  expect("Send", 40, next);
  MPI_Wait(&requests[0], IGNORE);
  expect("Wait", 800, before);
  MPI_Wait(&requests[0], IGNORE); /* of a null request */
  expect("Wait", 0, NONE);
  MPI_Bsend(buffer, 7, MPI_CHAR, next, 2, W);
  expect("Bsend", 7, next);
  MPI_Recv(other, 10, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, W, IGNORE);
  expect("Recv", 10, ANY);
  int size = 0;
  void* detached = NULL;
  MPI_Buffer_detach(&detached, &size);
  MPI_Irecv(other, 3, MPI_INT, before, 3, W, &requests[0]);
  expect("Irecv", 12, before);
  MPI_Ssend(buffer, 3, MPI_INT, next, 3, W);
  expect("Ssend", 12, next);
  do { /* what is found complete so is waited for afterwards */
    MPI_Request_get_status(requests[0], &size, IGNORE);
    expect("Request_get_status", 0, before);
  } while (!size);
  MPI_Waitall(1, requests, &status);
  expect("Waitall", 12, NONE);
  /* To nobody. */
  MPI_Send(buffer, 2, MPI_INT, MPI_PROC_NULL, 0, W);
  expect("Send", 8, NONE);
  MPI_Recv(buffer, 2, MPI_INT, MPI_PROC_NULL, 0, W, IGNORE);
  expect("Recv", 8, NONE);
  MPI_Sendrecv(buffer, 1, MPI_INT, next, 4, other, 2, MPI_INT, before, 4, W, IGNORE);
  expect("Sendrecv", 4, next);
  expect("Sendrecv_recv", 8, before);
  MPI_Sendrecv(buffer, 1, MPI_INT, MPI_PROC_NULL, 4, other, 2, MPI_INT, MPI_PROC_NULL, 4, W, IGNORE);
  expect("Sendrecv", 4, NONE);
  expect("Sendrecv_recv", 8, NONE);
  MPI_Sendrecv_replace(buffer, 3, MPI_INT, next, 5, MPI_ANY_SOURCE, 5, W, IGNORE);
  expect("Sendrecv_replace", 12, next);
  expect("Sendrecv_recv", 12, ANY);
  /* Started ones, and all ways to wait for them. */
  for (int way = 0; way < 6; ++way) {
    int index, some, indices[2], flag = 0;
    MPI_Irecv(other, 9, MPI_INT, MPI_ANY_SOURCE, 6, W, &requests[0]);
    expect("Irecv", 36, ANY);
    switch (way) {
      case 0:
        MPI_Isend(buffer, 9, MPI_INT, next, 6, W, &requests[1]);
        expect("Isend", 36, next);
        break;
      case 1:
        MPI_Issend(buffer, 9, MPI_INT, next, 6, W, &requests[1]);
        expect("Issend", 36, next);
        break;
      default:
        MPI_Isend(buffer, 8, MPI_INT, next, 6, W, &requests[1]);
        expect("Isend", 32, next);
        break;
    }
    const long long sent = way < 2 ? 36 : 32;
    long long left = sent + 36;
    switch (way) {
      case 0:
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        expect("Waitall", left, NONE);
        break;
      case 1:
        for (int i = 0; i < 2; ++i) {
          MPI_Waitany(2, requests, &index, IGNORE);
          expect("Waitany", 36, NONE);
        }
        MPI_Waitany(2, requests, &index, IGNORE); /* none is left */
        expect("Waitany", 0, NONE);
        break;
      case 2:
        while (left > 0) {
          MPI_Waitsome(2, requests, &some, indices, MPI_STATUSES_IGNORE);
          long long got = 0;
          for (int i = 0; i < some; ++i) got += indices[i] == 0 ? 36 : sent;
          expect("Waitsome", got, NONE);
          left -= got;
        }
        break;
      case 3:
        for (int i = 0; i < 2; ++i)
          for (flag = 0; !flag;) {
            MPI_Test(&requests[i], &flag, IGNORE);
            expect("Test", !flag ? 0 : i == 0 ? 36 : sent, NONE);
          }
        break;
      case 4:
        while (!flag) {
          MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
          expect("Testall", flag ? left : 0, NONE);
        }
        break;
      default:
        while (left > sent) {
          MPI_Testany(2, requests, &index, &flag, &status);
          const long long got = !flag ? 0 : index == 0 ? 36 : index == 1 ? sent : 0;
          expect("Testany", got, NONE);
          left -= got;
          if (got == 36) break;
        }
        do {
          MPI_Testsome(2, requests, &some, indices, MPI_STATUSES_IGNORE);
          long long got = 0;
          for (int i = 0; some != MPI_UNDEFINED && i < some; ++i) got += indices[i] == 0 ? 36 : sent;
          expect("Testsome", got, NONE);
        } while (some != MPI_UNDEFINED);
    }
  }
  /* Nobody waits for a send that is complete at once; its handle is used again by the next one. */
  for (int i = 0; i < 20; ++i) {
    MPI_Isend(buffer, 1 + i, MPI_INT, next, 7, W, &requests[0]);
    expect("Isend", 4 * (1 + i), next);
    MPI_Request_free(&requests[0]);
    MPI_Recv(other, 20, MPI_INT, before, 7, W, IGNORE);
    expect("Recv", 80, before);
  }
  MPI_Irecv(other, 6, MPI_INT, before, 99, W, &requests[0]);
  expect("Irecv", 24, before);
  MPI_Cancel(&requests[0]);
  expect("Cancel", 0, NONE);
  MPI_Wait(&requests[0], &status);
  expect("Wait", 24, before);
}

static void probes(void) {
  MPI_Status status;
  int found = 0, size;
  MPI_Comm turned;
  MPI_Comm_split(W, 0, -rank, &turned); /* in the other order: 2 1 0 */
  expect("Comm_split", 0, NONE);
  MPI_Comm_size(turned, &size);
  const int us = size - 1 - rank, right = (us + 1) % size; /* the rank before, in the world */
  MPI_Request request;
  MPI_Isend(buffer, 4, MPI_INT, right, 1, turned, &request);
  expect("Isend", 16, before);
  MPI_Probe(MPI_ANY_SOURCE, 1, turned, &status);
  expect("Probe", 0, ANY);
  while (!found) {
    MPI_Iprobe((us + size - 1) % size, 1, turned, &found, &status);
    expect("Iprobe", 0, next);
  }
  MPI_Message message;
  MPI_Mprobe(MPI_ANY_SOURCE, 1, turned, &message, &status);
  expect("Mprobe", 0, ANY);
  MPI_Mrecv(other, 5, MPI_INT, &message, &status);
  expect("Mrecv", 20, ANY);
  MPI_Wait(&request, IGNORE);
  expect("Wait", 16, before);
  MPI_Isend(buffer, 4, MPI_INT, right, 2, turned, &request);
  expect("Isend", 16, before);
  for (found = 0; !found;) {
    MPI_Improbe((us + size - 1) % size, 2, turned, &found, &message, &status);
    expect("Improbe", 0, next);
  }
  MPI_Request received;
  MPI_Imrecv(other, 5, MPI_INT, &message, &received);
  expect("Imrecv", 20, next);
  MPI_Wait(&received, IGNORE);
  expect("Wait", 20, next);
  MPI_Wait(&request, IGNORE);
  expect("Wait", 16, before);
  MPI_Comm_free(&turned);
}

static void persistent(void) {
  MPI_Request requests[2];
  MPI_Send_init(buffer, 11, MPI_INT, next, 1, W, &requests[0]);
  expect("Send_init", 44, next);
  MPI_Recv_init(other, 12, MPI_INT, before, 1, W, &requests[1]);
  expect("Recv_init", 48, before);
  for (int i = 0; i < 3; ++i) {
    if (i == 0) {
      MPI_Start(&requests[0]);
      MPI_Start(&requests[1]);
    } else {
      MPI_Startall(2, requests);
    }
    expect("Start_send", 44, next);
    expect("Start_recv", 48, before);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect("Waitall", 92, NONE);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); /* they are inactive */
    expect("Waitall", 0, NONE);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

static void types(void) {
  /* Every other double; then the handle, or its memory, is used again for another type. */
  for (int width = 1; width < 20; ++width) {
    MPI_Datatype type;
    MPI_Type_vector(width, 1, 2, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    MPI_Sendrecv(buffer, 2, type, next, 1, other, 4 * width, MPI_DOUBLE, before, 1, W, IGNORE);
    expect("Sendrecv", 16 * width, next);
    expect("Sendrecv_recv", 32 * width, before);
    MPI_Type_free(&type);
  }
}

/* Blocking and started collectives of one kind. */
#define BOTH(Name, IName, bytes, root, ...) \
  do {                                      \
    MPI_Request request_;                   \
    MPI_##Name(__VA_ARGS__);                \
    expect(#Name, bytes, root);             \
    MPI_##IName(__VA_ARGS__, &request_);    \
    expect(#IName, bytes, root);            \
    MPI_Wait(&request_, IGNORE);            \
    expect("Wait", bytes, root);            \
  } while (0)

static void collectives(void) {
  int n[3] = {1, 2, 3}, at[3] = {0, 1, 3}, even[3] = {2, 2, 2}, even_at[3] = {0, 2, 4};
  const int mine = rank + 1;
  BOTH(Barrier, Ibarrier, 0, NONE, W);
  BOTH(Bcast, Ibcast, 40, 1, buffer, 10, MPI_INT, 1, W);
  BOTH(Reduce, Ireduce, 40, 2, buffer, other, 10, MPI_INT, MPI_SUM, 2, W);
  BOTH(Allreduce, Iallreduce, 24, NONE, buffer, other, 3, MPI_DOUBLE, MPI_SUM, W);
  BOTH(Allreduce, Iallreduce, 32, NONE, MPI_IN_PLACE, other, 4, MPI_DOUBLE, MPI_SUM, W);
  BOTH(Scan, Iscan, 8, NONE, buffer, other, 2, MPI_INT, MPI_SUM, W);
  BOTH(Exscan, Iexscan, 12, NONE, buffer, other, 3, MPI_INT, MPI_SUM, W);
  BOTH(Reduce_scatter, Ireduce_scatter, 24, NONE, buffer, other, n, MPI_INT, MPI_SUM, W);
  BOTH(Reduce_scatter_block, Ireduce_scatter_block, 24, NONE, buffer, other, 2, MPI_INT, MPI_SUM, W);
  BOTH(Gather, Igather, 20, 0, buffer, 5, MPI_INT, other, 5, MPI_INT, 0, W);
  if (rank == 0) { /* the others pass no type to receive */
    BOTH(Gather, Igather, 28, 0, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, other, 7, MPI_INT, 0, W);
  } else {
    BOTH(Gather, Igather, 28, 0, buffer, 7, MPI_INT, NULL, 0, MPI_DATATYPE_NULL, 0, W);
  }
  BOTH(Gatherv, Igatherv, 4 * mine, 1, buffer, mine, MPI_INT, other, n, at, MPI_INT, 1, W);
  BOTH(Scatter, Iscatter, 20, 0, buffer, 5, MPI_INT, other, 5, MPI_INT, 0, W);
  BOTH(Scatterv, Iscatterv, 4 * mine, 2, buffer, n, at, MPI_INT, other, mine, MPI_INT, 2, W);
  BOTH(Allgather, Iallgather, 8, NONE, buffer, 2, MPI_INT, other, 2, MPI_INT, W);
  BOTH(Allgather, Iallgather, 12, NONE, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, other, 3, MPI_INT, W);
  BOTH(Allgatherv, Iallgatherv, 4 * mine, NONE, buffer, mine, MPI_INT, other, n, at, MPI_INT, W);
  BOTH(Allgatherv, Iallgatherv, 4 * mine, NONE, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, other, n, at, MPI_INT, W);
  BOTH(Alltoall, Ialltoall, 36, NONE, buffer, 3, MPI_INT, other, 3, MPI_INT, W);
  BOTH(Alltoallv, Ialltoallv, 24, NONE, buffer, even, even_at, MPI_INT, other, even, even_at, MPI_INT, W);
  MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, other, 4, MPI_INT, W);
  expect("Alltoall", 48, NONE);
  MPI_Datatype kinds[3] = {MPI_INT, MPI_DOUBLE, MPI_INT}, got[3];
  int ones[3] = {1, 1, 1}, byte_at[3] = {0, 8, 16};
  for (int i = 0; i < 3; ++i) got[i] = kinds[rank];
  BOTH(Alltoallw, Ialltoallw, 16, NONE, buffer, ones, byte_at, kinds, other, ones, byte_at, got, W);
}

static void neighbours(void) {
  int three = 3, yes = 1;
  MPI_Comm ring, graph;
  MPI_Cart_create(W, 1, &three, &yes, 0, &ring);
  expect("Cart_create", 0, NONE);
  int n[2] = {1, 2}, at[2] = {0, 1}, in_n[2] = {2, 1}, in_at[2] = {0, 2};
  BOTH(Neighbor_allgather, Ineighbor_allgather, 8, NONE, buffer, 2, MPI_INT, other, 2, MPI_INT, ring);
  BOTH(Neighbor_alltoall, Ineighbor_alltoall, 16, NONE, buffer, 2, MPI_INT, other, 2, MPI_INT, ring);
  BOTH(Neighbor_alltoallv, Ineighbor_alltoallv, 12, NONE, buffer, n, at, MPI_INT, other, in_n, in_at, MPI_INT, ring);
  /* Everybody sends to the next one alone. */
  const int one = 1;
  MPI_Dist_graph_create_adjacent(W, 1, &before, &one, 1, &next, &one, MPI_INFO_NULL, 0, &graph);
  expect("Dist_graph_create_adjacent", 0, NONE);
  BOTH(Neighbor_alltoall, Ineighbor_alltoall, 8, NONE, buffer, 2, MPI_INT, other, 2, MPI_INT, graph);
  BOTH(Neighbor_allgatherv, Ineighbor_allgatherv, 12, NONE, buffer, 3, MPI_INT, other, (int[]){3}, (int[]){0}, MPI_INT,
       graph);
  MPI_Comm_free(&ring);
  MPI_Comm_free(&graph);
}

static void communicators(void) {
  MPI_Comm copy, some, sides, inter, merged, later;
  MPI_Request request;
  MPI_Comm_dup(W, &copy);
  expect("Comm_dup", 0, NONE);
  MPI_Send(buffer, 1, MPI_INT, MPI_PROC_NULL, 0, copy);
  expect("Send", 4, NONE);
  MPI_Comm_disconnect(&copy);
  MPI_Comm_idup(W, &later, &request);
  expect("Comm_idup", 0, NONE);
  MPI_Wait(&request, IGNORE);
  expect("Wait", 0, NONE);
  MPI_Bcast(buffer, 3, MPI_INT, 2, later);
  expect("Bcast", 12, 2);
  MPI_Comm_free(&later);
  MPI_Group all, pair;
  MPI_Comm_group(W, &all);
  MPI_Group_incl(all, 2, (const int[]){2, 1}, &pair);
  MPI_Comm_create(W, pair, &some);
  expect("Comm_create", 0, NONE);
  if (rank != 0) {
    MPI_Comm again;
    MPI_Sendrecv(buffer, 1, MPI_INT, rank == 2, 0, other, 1, MPI_INT, rank == 2, 0, some, IGNORE);
    expect("Sendrecv", 4, 3 - rank);
    expect("Sendrecv_recv", 4, 3 - rank);
    MPI_Comm_create_group(W, pair, 1, &again);
    expect("Comm_create_group", 0, NONE);
    MPI_Comm_free(&again);
    MPI_Comm_free(&some);
  }
  MPI_Group_free(&all);
  MPI_Group_free(&pair);
  /* Rank 0 on one side, 1 and 2 on the other. */
  MPI_Comm_split(W, rank != 0, rank, &sides);
  expect("Comm_split", 0, NONE);
  MPI_Intercomm_create(sides, 0, W, rank == 0 ? 1 : 0, 1, &inter);
  expect("Intercomm_create", 0, NONE);
  if (rank == 0) {
    for (int i = 0; i < 2; ++i) {
      MPI_Send(buffer, 4, MPI_INT, i, 0, inter);
      expect("Send", 16, 1 + i);
    }
    MPI_Bcast(buffer, 6, MPI_INT, MPI_ROOT, inter);
    expect("Bcast", 24, NONE);
    MPI_Gather(NULL, 0, MPI_DATATYPE_NULL, other, 5, MPI_INT, MPI_ROOT, inter);
    expect("Gather", 0, NONE);
    MPI_Alltoall(buffer, 2, MPI_INT, other, 3, MPI_INT, inter);
    expect("Alltoall", 16, NONE);
    MPI_Reduce_scatter(buffer, other, (const int[]){8}, MPI_INT, MPI_SUM, inter);
    expect("Reduce_scatter", 32, NONE);
    MPI_Bcast(buffer, 7, MPI_INT, 0, inter);
    expect("Bcast", 28, 1);
  } else {
    MPI_Recv(other, 4, MPI_INT, 0, 0, inter, IGNORE);
    expect("Recv", 16, 0);
    MPI_Bcast(buffer, 6, MPI_INT, 0, inter);
    expect("Bcast", 24, 0);
    MPI_Gather(buffer, 5, MPI_INT, NULL, 0, MPI_DATATYPE_NULL, 0, inter);
    expect("Gather", 20, 0);
    MPI_Alltoall(buffer, 3, MPI_INT, other, 2, MPI_INT, inter);
    expect("Alltoall", 12, NONE);
    MPI_Reduce_scatter(buffer, other, (const int[]){4, 4}, MPI_INT, MPI_SUM, inter);
    expect("Reduce_scatter", 32, NONE);
    MPI_Bcast(buffer, 7, MPI_INT, rank == 1 ? MPI_ROOT : MPI_PROC_NULL, inter);
    expect("Bcast", rank == 1 ? 28 : 0, NONE);
  }
  MPI_Intercomm_merge(inter, rank == 0, &merged); /* 1 2 0 */
  expect("Intercomm_merge", 0, NONE);
  MPI_Reduce(buffer, other, 1, MPI_INT, MPI_SUM, 2, merged);
  expect("Reduce", 4, 0);
  MPI_Comm_free(&merged);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&sides);
}

static void one_sided(void) {
  MPI_Win window, shared;
  MPI_Comm turned;
  MPI_Group all, to, from;
  MPI_Request request;
  double* memory;
  MPI_Comm_split(W, 0, -rank, &turned);
  expect("Comm_split", 0, NONE);
  const int there = 2 - next; /* the next one, as this communicator counts */
  MPI_Win_create(other, sizeof other, 8, MPI_INFO_NULL, turned, &window);
  expect("Win_create", 0, NONE);
#ifndef I_MPI_VERSION     /* 2021.19 crashes then */
  MPI_Comm_free(&turned); /* the window goes on */
#endif
  MPI_Win_fence(0, window);
  expect("Win_fence", 0, NONE);
  MPI_Put(buffer, 3, MPI_DOUBLE, there, 0, 3, MPI_DOUBLE, window);
  expect("Put", 24, next);
  MPI_Put(buffer, 3, MPI_DOUBLE, MPI_PROC_NULL, 0, 3, MPI_DOUBLE, window);
  expect("Put", 24, NONE);
  MPI_Win_fence(0, window);
  expect("Win_fence", 0, NONE);
  MPI_Get(buffer, 2, MPI_DOUBLE, there, 8, 2, MPI_DOUBLE, window);
  expect("Get", 16, next);
  MPI_Accumulate(buffer, 1, MPI_DOUBLE, there, 16, 1, MPI_DOUBLE, MPI_SUM, window);
  expect("Accumulate", 8, next);
  MPI_Win_fence(0, window);
  expect("Win_fence", 0, NONE);
  MPI_Win_get_group(window, &all);
  MPI_Group_incl(all, 1, &there, &to);
  MPI_Group_incl(all, 1, (const int[]){2 - before}, &from);
  MPI_Win_post(from, 0, window);
  expect("Win_post", 0, NONE);
  MPI_Win_start(to, 0, window);
  expect("Win_start", 0, NONE);
  MPI_Put(buffer, 4, MPI_DOUBLE, there, 0, 4, MPI_DOUBLE, window);
  expect("Put", 32, next);
  MPI_Win_complete(window);
  expect("Win_complete", 0, NONE);
  MPI_Win_wait(window);
  expect("Win_wait", 0, NONE);
  MPI_Group_free(&all);
  MPI_Group_free(&to);
  MPI_Group_free(&from);
  MPI_Win_free(&window);
  expect("Win_free", 0, NONE);

  MPI_Win_allocate(4096, 8, MPI_INFO_NULL, W, &memory, &shared);
  expect("Win_allocate", 0, NONE);
  MPI_Win_lock(MPI_LOCK_SHARED, next, 0, shared);
  expect("Win_lock", 0, next);
  MPI_Put(buffer, 5, MPI_DOUBLE, next, 0, 5, MPI_DOUBLE, shared);
  expect("Put", 40, next);
  MPI_Win_flush(next, shared);
  expect("Win_flush", 0, next);
  MPI_Win_flush_local(next, shared);
  expect("Win_flush_local", 0, next);
  MPI_Win_unlock(next, shared);
  expect("Win_unlock", 0, next);
  MPI_Win_lock_all(0, shared);
  expect("Win_lock_all", 0, NONE);
  double one = 1, found = 0;
  MPI_Fetch_and_op(&one, &found, MPI_DOUBLE, next, 8, MPI_SUM, shared);
  expect("Fetch_and_op", 8, next);
  int zero = 0, two = 2, seen;
  MPI_Win_flush_all(shared);
  expect("Win_flush_all", 0, NONE);
  MPI_Compare_and_swap(&two, &zero, &seen, MPI_INT, next, 20, shared);
  expect("Compare_and_swap", 4, next);
  MPI_Get_accumulate(&one, 1, MPI_DOUBLE, &found, 1, MPI_DOUBLE, next, 8, 1, MPI_DOUBLE, MPI_SUM, shared);
  expect("Get_accumulate", 8, next);
  MPI_Win_flush_local_all(shared);
  expect("Win_flush_local_all", 0, NONE);
  MPI_Rput(buffer, 2, MPI_DOUBLE, next, 30, 2, MPI_DOUBLE, shared, &request);
  expect("Rput", 16, next);
  MPI_Wait(&request, IGNORE);
  expect("Wait", 16, next);
  MPI_Rget(buffer, 3, MPI_DOUBLE, next, 40, 3, MPI_DOUBLE, shared, &request);
  expect("Rget", 24, next);
  MPI_Wait(&request, IGNORE);
  expect("Wait", 24, next);
  MPI_Win_unlock_all(shared);
  expect("Win_unlock_all", 0, NONE);
  MPI_Win_free(&shared);
  expect("Win_free", 0, NONE);
}

#if MPI_VERSION >= 4
static void with_large_counts(void) {
  MPI_Request request;
  MPI_Isend_c(buffer, 3, MPI_INT, next, 1, W, &request);
  expect("Isend", 12, next);
  MPI_Recv_c(other, 4, MPI_INT, before, 1, W, IGNORE);
  expect("Recv", 16, before);
  MPI_Wait(&request, IGNORE);
  expect("Wait", 12, next);
  BOTH(Bcast_c, Ibcast_c, 24, 1, buffer, 6, MPI_INT, 1, W);
  MPI_Count n[3] = {2, 2, 2};
  MPI_Aint at[3] = {0, 2, 4};
  MPI_Alltoallv_c(buffer, n, at, MPI_INT, other, n, at, MPI_INT, W);
  expect("Alltoallv", 24, NONE);
}
#endif

#if MPI_VERSION >= 4 || (defined(OPEN_MPI) && OMPI_MAJOR_VERSION >= 5)
#define HAS_MPI_4 1
/* With whom the profiler takes a call to be that sends and receives: Open MPI says who sent. */
static int of_both(int receives_from) {
#ifdef OPEN_MPI
  return receives_from;
#else
  (void)receives_from;
  return next;
#endif
}

static void of_mpi_4(void) {
  MPI_Request request;
  MPI_Isendrecv(buffer, 1, MPI_INT, next, 2, other, 2, MPI_INT, before, 2, W, &request);
  expect("Isendrecv", 4, next);
  expect("Sendrecv_recv", 8, before);
  MPI_Wait(&request, IGNORE);
  expect("Wait", 4, of_both(before));
  /* Of a size that no other message has. */
  MPI_Isendrecv(buffer, 777, MPI_CHAR, next, 3, other, 800, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, W, &request);
  expect("Isendrecv", 777, next);
  expect("Sendrecv_recv", 800, ANY);
  MPI_Wait(&request, IGNORE);
  expect("Wait", 777, of_both(ANY));
  MPI_Isendrecv_replace(buffer, 778, MPI_CHAR, next, 4, MPI_ANY_SOURCE, 4, W, &request);
  expect("Isendrecv_replace", 778, next);
  expect("Sendrecv_recv", 778, ANY);
  MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
  expect("Waitall", 778, NONE);
  MPI_Allreduce_init(buffer, other, 5, MPI_INT, MPI_SUM, W, MPI_INFO_NULL, &request);
  expect("Collective_init", 20, NONE);
  for (int i = 0; i < 2; ++i) {
    MPI_Start(&request);
    expect("Start_collective", 20, NONE);
    MPI_Wait(&request, IGNORE);
    expect("Wait", 20, NONE);
  }
  MPI_Request_free(&request);
}
#endif

/* Calls made by callbacks of MPI belong to the call that made them. */
static int copied(MPI_Comm comm, int key, void* extra, void* value, void* out, int* flag) {
  double sum;
  (void)key, (void)extra, (void)value, (void)out;
  MPI_Allreduce(buffer, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
  *flag = 0;
  return MPI_SUCCESS;
}

static void not_counted(void) {
  int key;
  MPI_Comm copy;
  MPI_Comm_create_keyval(copied, MPI_COMM_NULL_DELETE_FN, &key, NULL);
  MPI_Comm_set_attr(W, key, NULL);
  MPI_Comm_dup(W, &copy);
  expect("Comm_dup", 0, NONE);
  MPI_Comm_free(&copy);
  MPI_Comm_delete_attr(W, key);
  MPI_Comm_free_keyval(&key);
  MPI_Comm_set_errhandler(W, MPI_ERRORS_RETURN);
  if (MPI_Send(buffer, 1, MPI_INT, 77, 0, W) == MPI_SUCCESS) exit(4); /* there is no such rank */
  MPI_Comm_set_errhandler(W, MPI_ERRORS_ARE_FATAL);
  /* Off, with requests and communicators that are used when it is on again, and the other way round. */
  MPI_Request early, late, always;
  MPI_Comm pair;
  MPI_Irecv(other, 2, MPI_INT, before, 1, W, &early);
  expect("Irecv", 8, before);
  MPI_Pcontrol(0);
  MPI_Comm_split(W, 0, -rank, &pair);
  MPI_Send(buffer, 2, MPI_INT, next, 1, W);
  MPI_Wait(&early, IGNORE);
  MPI_Isend(buffer, 3, MPI_INT, 2 - next, 2, pair, &late);
  MPI_Send_init(buffer, 6, MPI_INT, 2 - next, 3, pair, &always);
  MPI_Pcontrol(7);
  MPI_Recv(other, 4, MPI_INT, 2 - before, 2, pair, IGNORE);
  expect("Recv", 16, before);
  MPI_Wait(&late, IGNORE);
  expect("Wait", 12, next);
  MPI_Start(&always);
  expect("Start_send", 24, next);
  MPI_Recv(other, 6, MPI_INT, 2 - before, 3, pair, IGNORE);
  expect("Recv", 24, before);
  MPI_Wait(&always, IGNORE);
  expect("Wait", 24, next);
  MPI_Request_free(&always);
  MPI_Comm_free(&pair);
}

int main(int argc, char** argv) {
  int ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(W, &rank);
  MPI_Comm_size(W, &ranks);
  if (argc < 2 || ranks != 3) return 2;
  next = (rank + 1) % ranks;
  before = (rank + ranks - 1) % ranks;
  messages();
  probes();
  persistent();
  types();
  collectives();
  neighbours();
  communicators();
  one_sided();
#if MPI_VERSION >= 4
  with_large_counts();
#endif
#ifdef HAS_MPI_4
  of_mpi_4();
#endif
  not_counted();
  write_expected(argv[1], rank);
  MPI_Finalize();
  return 0;
}
