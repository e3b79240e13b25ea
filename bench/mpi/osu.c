/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages as the OSU benchmarks and the Intel MPI benchmarks time them, between two ranks: each rank sends from one
 * buffer and receives into another, and all messages of a window start from the same place and land in the same place.
 * "latency" is half a round trip (osu_latency, IMB PingPong); "bw" is COUNT sends, as many receives, and four bytes
 * back (osu_bw); "bibw" is a window each way at once (osu_bibw). The time is that of one message, or of one each way.
 * That messages which are under way land on each other is what osu_bw does; MPI does not allow it.
 *
 * "sendrecv" and "exchange" are those of IMB: a closed chain of ranks, in which each sends to the right while it
 * receives from the left, or starts a send to both neighbours, receives from both and waits for its sends. Of two ranks
 * both neighbours are the other one. The time is that of one such step in a row of them, in which no rank can be more
 * than a step ahead, so it is that of any rank.
 *
 *     mpirun -n 2 osu FILE SECONDS BYTES latency|bw|bibw|sendrecv|exchange [COUNT]
 */
#define _GNU_SOURCE
#define SAMPLES_IN_A_LINE 8 /* a window of 64 messages of 1 MiB lasts some milliseconds, and a slice 20 ms */
#include "samples.h"

enum { kMaxCount = 1024, kAnswer = 4 };

static MPI_Request sends[kMaxCount], receives[kMaxCount];
static char *out, *in;
static int count = 1, peer;

static void latency(int rounds) {
  for (int i = 0; i < rounds; i++) {
    if (rank == 0) MPI_Send(out, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
    MPI_Recv(in, bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(out, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
  }
}

static void bw(int rounds) {
  for (int k = 0; k < rounds; k++) {
    if (rank == 0) {
      for (int i = 0; i < count; i++) MPI_Isend(out, bytes, MPI_CHAR, 1, 100, MPI_COMM_WORLD, &sends[i]);
      MPI_Waitall(count, sends, MPI_STATUSES_IGNORE);
      MPI_Recv(in, kAnswer, MPI_CHAR, 1, 101, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      for (int i = 0; i < count; i++) MPI_Irecv(in, bytes, MPI_CHAR, 0, 100, MPI_COMM_WORLD, &receives[i]);
      MPI_Waitall(count, receives, MPI_STATUSES_IGNORE);
      MPI_Send(out, kAnswer, MPI_CHAR, 0, 101, MPI_COMM_WORLD);
    }
  }
}

static void bibw(int rounds) {
  for (int k = 0; k < rounds; k++) {
    for (int i = 0; i < count; i++) MPI_Irecv(in, bytes, MPI_CHAR, peer, 10, MPI_COMM_WORLD, &receives[i]);
    for (int i = 0; i < count; i++) MPI_Isend(out, bytes, MPI_CHAR, peer, 10, MPI_COMM_WORLD, &sends[i]);
    MPI_Waitall(count, sends, MPI_STATUSES_IGNORE);
    MPI_Waitall(count, receives, MPI_STATUSES_IGNORE);
  }
}

static void sendrecv(int rounds) {
  for (int i = 0; i < rounds; i++)
    MPI_Sendrecv(out, bytes, MPI_CHAR, peer, 1, in, bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void exchange(int rounds) {
  for (int i = 0; i < rounds; i++) {
    MPI_Isend(out, bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &sends[0]); /* to the right, and to the left */
    MPI_Isend(out, bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &sends[1]);
    MPI_Recv(in, bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(in, bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
  }
}

/* In a window a round is COUNT operations. */
static const struct {
  const char* name;
  void (*work)(int rounds);
  int operations;
} ways[] = {
    {"latency", latency, 2}, {"bw", bw, 0}, {"bibw", bibw, 0}, {"sendrecv", sendrecv, 1}, {"exchange", exchange, 1}};
enum { kWays = sizeof ways / sizeof ways[0] };

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  int way = 0;
  while (way < kWays && strcmp(argv[4], ways[way].name) != 0) way++;
  if (way == kWays) return 2;
  const int window = ways[way].operations == 0;
  if (window && argc == 6) count = atoi(argv[5]);
  if (count < 1 || count > kMaxCount) return 2;
  begin(argv);
  peer = 1 - rank;
  out = pages((size_t)bytes + kAnswer), in = pages((size_t)bytes + kAnswer);
  sample(ways[way].work, window ? count : ways[way].operations);
  free(out), free(in);
  return end();
}
