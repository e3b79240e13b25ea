/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test program says about its own calls: how often each was made, with how many bytes and which peer. At the end
 * it writes that to FOLDER/RANK.expected as JSON: [[call, bytes, peer, times], ...].
 */
#ifndef NETPIPE_TEST_EXPECT_H
#define NETPIPE_TEST_EXPECT_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANY = -1, NONE = -2, MANY = -3 }; /* peers, as src/profiler/part.h has them */

static struct expected {
  const char* call;
  long long bytes, times;
  int peer;
} expected[4096];
static int expected_count;

static inline void expect_times(const char* call, long long bytes, int peer, long long times) {
  int i = 0;
  while (i < expected_count &&
         (strcmp(expected[i].call, call) != 0 || expected[i].bytes != bytes || expected[i].peer != peer))
    ++i;
  if (i == expected_count) expected[expected_count++] = (struct expected){call, bytes, 0, peer};
  expected[i].times += times;
}

static inline void expect(const char* call, long long bytes, int peer) { expect_times(call, bytes, peer, 1); }

static inline void write_expected(const char* folder, int rank) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%d.expected", folder, rank);
  FILE* const file = fopen(path, "w");
  if (file == NULL) exit(4);
  for (int i = 0; i < expected_count; ++i)
    fprintf(file, "%s[\"%s\", %lld, %d, %lld]", i == 0 ? "[" : ",\n", expected[i].call, expected[i].bytes,
            expected[i].peer, expected[i].times);
  fprintf(file, "]\n");
  fclose(file);
}

#endif
