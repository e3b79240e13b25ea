/* SPDX-License-Identifier: Apache-2.0
 *
 * In short: random numbers, hardly a message
 * Ranks: any number
 * Classes: S W A B C D
 *
 * EP, "embarrassingly parallel" of the NAS parallel benchmarks: 2^m pairs of uniform numbers, turned into normal
 * deviates by the polar method; the sums of the deviates and the number of pairs in square rings around the origin.
 *
 * Decomposition: the pairs are cut into batches of 2^16, and each rank takes a contiguous run of batches. Every batch
 * jumps to its own place in the one sequence of random numbers, so the result does not depend on the number of ranks.
 *
 * Messages: one Bcast (4 B) and one Barrier before the measured part; three Allreduce(sum) in it (sum of X, 8 B; sum of
 * Y, 8 B; counts of the rings, 80 B); one Allreduce(max) of the time (8 B) after it.
 */
#include "app.h"
#include "random.h"

#define SEED UINT64_C(271828183)
#define BATCH_LOG 16    /* log2 of the pairs of a batch */
#define CHUNK_PAIRS 512 /* pairs that are worked on at once; they stay in the first-level cache */
#define LANES 8         /* consecutive numbers that advance together, so that no product waits for the one before */
#define WORDS 10        /* of the third Allreduce */
#define RINGS 8         /* of these words that count pairs; the last ring also takes all that is further out */

static const struct problem {
  const char* name;
  int m; /* log2 of the number of pairs */
  double x, y, absolute_x, absolute_y, pairs;
} problems[] = {
    {"S", 24, -3.247834652034740e+3, -6.958407078382297e+3, 1.051299420395306e+07, 1.051517131857535e+07, 13176389.0},
    {"W", 25, -2.863319731645753e+3, -6.320053679109499e+3, 2.102505525182392e+07, 2.103162209578822e+07, 26354769.0},
    {"A", 28, -4.295875165629892e+3, -1.580732573678431e+4, 1.682235632304711e+08, 1.682195123368299e+08, 210832767.0},
    {"B", 30, 4.033815542441498e+4, -2.660669192809235e+4, 6.728927543423024e+08, 6.728951822504275e+08, 843345606.0},
    {"C", 32, 4.764367927995374e+4, -8.084072988043731e+4, 2.691444083862931e+09, 2.691519118724585e+09, 3373275903.0},
    {"D", 36, 1.982481200946593e+5, -1.020596636361769e+5, 4.306350280812112e+10, 4.306347571859157e+10, 53972171957.0},
};

static const struct problem* problem_of(const char* name) {
  for (size_t i = 0; i < sizeof problems / sizeof *problems; ++i)
    if (strcmp(problems[i].name, name) == 0) return &problems[i];
  return NULL;
}

/* What a rank adds up over its pairs. */
struct sums {
  double x, y, absolute_x, absolute_y;
  int64_t rings[RINGS];
};

/* Memory for one chunk. */
struct chunk {
  double uniform[2 * CHUNK_PAIRS];                          /* u and v of a pair stand together */
  double x[CHUNK_PAIRS], y[CHUNK_PAIRS], size[CHUNK_PAIRS]; /* of the accepted pairs; size is x^2 + y^2 */
};

static int fits(const char* problem, int ranks, char* why, size_t room) {
  (void)problem;
  (void)ranks;
  (void)why;
  (void)room;
  return 1;
}

static double memory_bytes(const char* problem, int ranks) {
  (void)problem;
  (void)ranks;
  return (double)sizeof(struct chunk);
}

/* Keeps the pairs inside the unit circle, without a branch that could be predicted wrongly. Returns their number. */
static int accept_pairs(struct chunk* restrict chunk) {
  int accepted = 0;
  for (int i = 0; i < CHUNK_PAIRS; ++i) {
    double x = 2.0 * chunk->uniform[2 * i] - 1.0, y = 2.0 * chunk->uniform[2 * i + 1] - 1.0;
    double size = x * x + y * y;
    chunk->x[accepted] = x;
    chunk->y[accepted] = y;
    chunk->size[accepted] = size;
    accepted += size <= 1.0;
  }
  return accepted;
}

/* Adds the normal deviates of the `accepted` first pairs of the chunk to `sums`. */
static void add_deviates(const struct chunk* restrict chunk, int accepted, struct sums* restrict sums) {
  double sum_x = 0, sum_y = 0, absolute_x = 0, absolute_y = 0;
  for (int i = 0; i < accepted; ++i) {
    double size = chunk->size[i], factor = sqrt(-2.0 * log(size) / size);
    double x = chunk->x[i] * factor, y = chunk->y[i] * factor;
    double far_x = fabs(x), far_y = fabs(y);
    int ring_x = (int)far_x, ring_y = (int)far_y, ring = ring_x > ring_y ? ring_x : ring_y; /* no branch here either */
    sums->rings[ring < RINGS ? ring : RINGS - 1]++;
    sum_x += x;
    sum_y += y;
    absolute_x += far_x;
    absolute_y += far_y;
  }
  sums->x += sum_x;
  sums->y += sum_y;
  sums->absolute_x += absolute_x;
  sums->absolute_y += absolute_y;
}

/* Works on `pairs` pairs (a multiple of CHUNK_PAIRS) that start behind the random state `state`. */
__attribute__((noinline)) static void add_pairs(uint64_t state, long pairs, struct chunk* restrict chunk,
                                                struct sums* restrict sums) {
  const uint64_t stride = random_after(1, LANES); /* factor for LANES numbers at once */
  uint64_t lane[LANES];                           /* the next LANES states */
  for (int k = 0; k < LANES; ++k) {
    random_next(&state);
    lane[k] = state;
  }
  for (long done = 0; done < pairs; done += CHUNK_PAIRS) {
    for (int i = 0; i < 2 * CHUNK_PAIRS; i += LANES) {
      for (int k = 0; k < LANES; ++k) {
        chunk->uniform[i + k] = (double)(int64_t)lane[k] * 0x1p-46;
        lane[k] = lane[k] * stride & RANDOM_MASK;
      }
    }
    add_deviates(chunk, accept_pairs(chunk), sums);
  }
}

static const struct application ep = {"EP", "Random numbers generated", "S W A B C D", "", fits, memory_bytes};

int main(int argc, char** argv) {
  app_begin(&ep, argc, argv);
  const struct problem* problem = problem_of(app.problem);
  int m = problem->m;
  MPI_Bcast(&m, 1, MPI_INT, 0, MPI_COMM_WORLD);

  /* The first `batches mod ranks` ranks take one batch more. */
  const int64_t batches = INT64_C(1) << (m - BATCH_LOG), share = batches / app.ranks, rest = batches % app.ranks;
  const int64_t first = app.rank * share + (app.rank < rest ? app.rank : rest);
  const int64_t end = first + share + (app.rank < rest);

  struct chunk* chunk = app_allocate(1, sizeof *chunk);
  struct sums sums;
  memset(&sums, 0, sizeof sums);
  add_pairs(SEED, CHUNK_PAIRS, chunk, &sums); /* so that the mathematical functions are loaded before the clock runs */
  memset(&sums, 0, sizeof sums);

  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (int64_t batch = first; batch < end; ++batch) {
    uint64_t state = random_after(SEED, (uint64_t)batch << (BATCH_LOG + 1));
    add_pairs(state, 1L << BATCH_LOG, chunk, &sums);
  }
  /* The reference reduces ten counts. No pair of any class is in one of the two outermost rings, so their words carry
   * the sums of the absolute values, which are also verified, without a message more. */
  double own[WORDS], total[WORDS], total_x = 0, total_y = 0;
  for (int i = 0; i < RINGS; ++i) own[i] = (double)sums.rings[i];
  own[RINGS] = sums.absolute_x;
  own[RINGS + 1] = sums.absolute_y;
  MPI_Allreduce(&sums.x, &total_x, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(&sums.y, &total_y, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(own, total, WORDS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  double seconds = MPI_Wtime() - start, slowest = 0;
  MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);

  double pairs = 0;
  for (int i = 0; i < RINGS; ++i) pairs += total[i];
  app_check("sum of X", total_x, problem->x, 1e-8);
  app_check("sum of Y", total_y, problem->y, 1e-8);
  app_check("sum of |X|", total[RINGS], problem->absolute_x, 1e-8);
  app_check("sum of |Y|", total[RINGS + 1], problem->absolute_y, 1e-8);
  app_check("accepted pairs", pairs, problem->pairs, 1e-8);
  free(chunk);
  char size[32];
  snprintf(size, sizeof size, "%.0f", ldexp(1.0, m + 1));
  return app_end(size, 0, slowest, ldexp(1.0, m + 1));
}
