/* SPDX-License-Identifier: Apache-2.0
 *
 * In short: sorting of integers, all-to-all
 * Ranks: a power of two
 * Classes: S W A B C D
 *
 * IS, "integer sort" of the NAS parallel benchmarks: ranks whole-number keys ten times by a bucket sort. The keys are
 * sums of four uniform numbers, so the middle buckets are full and the outer ones nearly empty.
 *
 * Decomposition: each rank makes a contiguous block of keys / ranks keys. In a ranking each rank becomes the owner of a
 * contiguous run of buckets that together hold about keys / ranks keys.
 *
 * Messages: one Bcast (4 B); in each of the 1 + 10 rankings an Allreduce(sum) of the bucket counts and of five test
 * keys (4 B each), an Alltoall of the numbers of keys (4 B a pair) and an Alltoallv of the keys (4 B each). After that
 * one Reduce(max) of the time (8 B), one key to the next rank (Irecv, Send, Wait of 4 B) and a Reduce(sum) of the
 * passed tests (4 B).
 */
#include "app.h"
#include "random.h"

#define SEED UINT64_C(314159265)
#define TESTS 5
#define RANKINGS 10

static const struct problem {
  const char* name;
  int keys_log, largest_log, buckets_log; /* log2 of the keys, of the bound of a key, of the buckets */
  int64_t test_index[TESTS];              /* places of the test keys among all keys */
  int64_t test_rank[TESTS];               /* how many keys are less than the test key, up to: */
  int slope[TESTS];                       /* ranking e adds slope (e - shift) */
  int shift[TESTS];
} problems[] = {
    {"S", 16, 11, 9, {48427, 17148, 23627, 62548, 4431}, {0, 18, 346, 64917, 65463}, {1, 1, 1, -1, -1}, {0}},
    {"W",
     20,
     16,
     10,
     {357773, 934767, 875723, 898999, 404505},
     {1249, 11698, 1039987, 1043896, 1048018},
     {1, 1, -1, -1, -1},
     {2, 2, 0, 0, 0}},
    {"A",
     23,
     19,
     10,
     {2112377, 662041, 5336171, 3642833, 4250760},
     {104, 17523, 123928, 8288932, 8388264},
     {1, 1, 1, -1, -1},
     {1, 1, 1, 1, 1}},
    {"B",
     25,
     21,
     10,
     {41869, 812306, 5102857, 18232239, 26860214},
     {33422937, 10244, 59149, 33135281, 99},
     {-1, 1, 1, -1, 1},
     {0}},
    {"C",
     27,
     23,
     10,
     {44172927, 72999161, 74326391, 129606274, 21736814},
     {61147, 882988, 266290, 133997595, 133525895},
     {1, 1, 1, -1, -1},
     {0}},
    {"D",
     31,
     27,
     10,
     {1317351170, 995930646, 1157283250, 1503301535, 1453734525},
     {1, 36538729, 1978098519, 2145192618, 2147425337},
     {1, 1, -1, -1, -1},
     {0}},
};

static const struct problem* problem_of(const char* name) {
  for (size_t i = 0; i < sizeof problems / sizeof *problems; ++i)
    if (strcmp(problems[i].name, name) == 0) return &problems[i];
  return NULL;
}

/* The most keys that a rank can come to own: it stops taking buckets once it has reached its share, so it has at most
 * one bucket too much, and no bucket holds more than 8/3 of the mean (with room for chance: 4). */
static int64_t most_keys(const struct problem* problem, int ranks) {
  return (INT64_C(1) << problem->keys_log) / ranks + (INT64_C(4) << (problem->keys_log - problem->buckets_log));
}

/* The most values that the keys of a rank can have. The first and the last rank own the widest ranges: the smallest
 * 1/ranks of all keys lies below 0.61 ranks^(-1/4) of the bound of the keys, as they are sums of four numbers. */
static int64_t most_values(const struct problem* problem, int ranks) {
  double all = ldexp(1.0, problem->largest_log), bucket = ldexp(1.0, problem->largest_log - problem->buckets_log);
  double values = 0.61 * all * pow(ranks, -0.25) + 4 * bucket;
  return (int64_t)(ranks == 1 || values > all ? all : values);
}

static int fits(const char* name, int ranks, char* why, size_t room) {
  const struct problem* problem = problem_of(name);
  if (ranks & (ranks - 1)) {
    snprintf(why, room, "it needs a power of two of ranks");
    return 0;
  }
  if (((INT64_C(1) << problem->keys_log) / ranks) < 32) {
    snprintf(why, room, "each rank needs at least 32 keys");
    return 0;
  }
  if (most_keys(problem, ranks) > INT32_MAX) {
    snprintf(why, room, "it needs at least 2 ranks, as a rank counts its keys in 32 bits");
    return 0;
  }
  return 1;
}

static double memory_bytes(const char* name, int ranks) {
  const struct problem* problem = problem_of(name);
  int64_t own = (INT64_C(1) << problem->keys_log) / ranks, counts = (INT64_C(1) << problem->buckets_log) + TESTS;
  return 4.0 * (double)(own + 2 * most_keys(problem, ranks) + most_values(problem, ranks) + 3 * counts + 4 * ranks);
}

/* What a rank holds. Keys and counts are 32-bit; "own" is what the rank made, "held" what it owns after a ranking. */
struct sorter {
  const struct problem* problem;
  int64_t keys;        /* of all ranks */
  int own, buckets;    /* keys of this rank, buckets of all */
  int shift;           /* the bucket of a key is key >> shift */
  int room;            /* keys that `sorted` and `held` have room for */
  int* key;            /* own keys, [own] */
  int* sorted;         /* own keys by bucket, to be sent; [room] */
  int* held;           /* keys received, [room] */
  int *local, *global; /* keys in each bucket, then the test keys: of this rank, of all; [buckets + TESTS] */
  int* place;          /* where the next key of each bucket goes in `sorted`, [buckets] */
  int *send, *send_at; /* keys for each rank and where they start in `sorted`, [ranks] */
  int *receive, *at;   /* keys from each rank and where they start in `held`, [ranks] */
  int held_count;      /* keys in `held` */
  int64_t below;       /* keys that lower ranks own */
  int first, values;   /* this rank owns the keys first .. first + values - 1 */
  int values_room;     /* values that `up_to` has room for */
  int* up_to;          /* how many held keys are at most first + i, [values] */
  int passed;          /* tests */
};

static void make_keys(struct sorter* s) {
  uint64_t state = random_after(SEED, (uint64_t)s->own * 4 * (uint64_t)app.rank);
  const double scale = ldexp(1.0, s->problem->largest_log - 2);
  for (int i = 0; i < s->own; ++i) {
    double sum = random_next(&state);
    sum += random_next(&state);
    sum += random_next(&state);
    sum += random_next(&state);
    s->key[i] = (int)(scale * sum);
  }
}

/* Counts own keys by bucket, behind it the test keys that this rank made, and puts the keys into bucket order. */
static void fill_buckets(struct sorter* s) {
  const int* restrict key = s->key, own = s->own, shift = s->shift;
  int* restrict local = s->local, * restrict place = s->place, * restrict sorted = s->sorted;
  memset(local, 0, ((size_t)s->buckets + TESTS) * sizeof *local);
  for (int i = 0; i < TESTS; ++i) {
    int64_t index = s->problem->test_index[i] - (int64_t)app.rank * own;
    if (index >= 0 && index < own) local[s->buckets + i] = key[index];
  }
  for (int i = 0; i < own; ++i) local[key[i] >> shift]++;
  for (int b = 0, sum = 0; b < s->buckets; ++b) {
    place[b] = sum;
    sum += local[b];
  }
  for (int i = 0; i < own; ++i) {
    int value = key[i];
    sorted[place[value >> shift]++] = value;
  }
}

/* Deals the buckets to the ranks in order: each takes buckets until all up to here hold its share of the keys. Ranks
 * for which no bucket is left get none. Sets what this rank sends to each, and which keys it will own. */
static void deal_buckets(struct sorter* s) {
  int64_t total = 0, below = 0; /* keys up to this bucket; in the buckets of lower ranks */
  int owner = 0, from = 0, sent = 0;
  memset(s->send, 0, (size_t)app.ranks * sizeof *s->send);
  s->first = s->values = 0;
  s->below = s->keys;
  for (int b = 0; b < s->buckets && owner < app.ranks; ++b) {
    total += s->global[b];
    s->send[owner] += s->local[b];
    if (total < (owner + 1) * (s->keys / app.ranks)) continue;
    if (owner == app.rank) {
      s->first = from << s->shift;
      s->values = (b + 1 - from) << s->shift;
      s->below = below;
    }
    owner++;
    from = b + 1;
    below = total;
  }
  for (int i = 0; i < app.ranks; ++i) {
    s->send_at[i] = sent;
    sent += s->send[i];
  }
}

/* Sends every key to the rank that owns its bucket. */
static void exchange_keys(struct sorter* s) {
  MPI_Alltoall(s->send, 1, MPI_INT, s->receive, 1, MPI_INT, MPI_COMM_WORLD);
  s->held_count = 0;
  for (int i = 0; i < app.ranks; ++i) {
    s->at[i] = s->held_count;
    s->held_count += s->receive[i];
  }
  if (s->held_count > s->room) {
    fprintf(stderr, "IS: rank %d would receive %d keys and has room for %d\n", app.rank, s->held_count, s->room);
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  MPI_Alltoallv(s->sorted, s->send, s->send_at, MPI_INT, s->held, s->receive, s->at, MPI_INT, MPI_COMM_WORLD);
}

/* Counts the held keys up to each value: that and `below` is the rank of a key among all. */
static void count_keys(struct sorter* s) {
  if (s->values > s->values_room) { /* in the untimed ranking, and hardly ever later */
    free(s->up_to);
    s->values_room = s->values;
    s->up_to = app_allocate((size_t)s->values_room, sizeof *s->up_to);
  }
  const int* restrict held = s->held, count = s->held_count, first = s->first, values = s->values;
  int* restrict up_to = s->up_to;
  memset(up_to, 0, (size_t)values * sizeof *up_to);
  for (int i = 0; i < count; ++i) up_to[held[i] - first]++;
  for (int i = 0, sum = 0; i < values; ++i) {
    sum += up_to[i];
    up_to[i] = sum;
  }
}

/* Compares the ranks of the test keys that this rank owns with the published ones. */
static void test_keys(struct sorter* s, int ranking) {
  for (int i = 0; i < TESTS; ++i) {
    int value = s->global[s->buckets + i] - s->first;
    if (value < 0 || value >= s->values) continue;
    int64_t less = s->below + (value > 0 ? s->up_to[value - 1] : 0);
    int64_t offset = s->problem->slope[i] * (ranking - s->problem->shift[i]);
    s->passed += less == s->problem->test_rank[i] + offset;
  }
}

/* One ranking; `ranking` is its number from 1. */
static void rank_keys(struct sorter* s, int ranking) {
  if (app.rank == 0) {
    s->key[ranking] = ranking;
    s->key[ranking + RANKINGS] = (1 << s->problem->largest_log) - ranking;
  }
  fill_buckets(s);
  MPI_Allreduce(s->local, s->global, s->buckets + TESTS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  deal_buckets(s);
  exchange_keys(s);
  count_keys(s);
  test_keys(s, ranking);
}

/* Puts the held keys in order and returns whether they are, also behind those of the rank before. Uses up `up_to`. */
static int is_sorted(struct sorter* s) {
  for (int i = 0; i < s->held_count; ++i) {
    int value = s->held[i];
    s->sorted[--s->up_to[value - s->first]] = value;
  }
  int before = 0; /* largest key of the rank before */
  MPI_Request request = MPI_REQUEST_NULL;
  if (app.rank > 0) MPI_Irecv(&before, 1, MPI_INT, app.rank - 1, 1, MPI_COMM_WORLD, &request);
  /* A rank without keys hands on what it got. */
  if (app.rank > 0 && s->held_count == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
  int last = s->held_count > 0 ? s->sorted[s->held_count - 1] : before;
  if (app.rank + 1 < app.ranks) MPI_Send(&last, 1, MPI_INT, app.rank + 1, 1, MPI_COMM_WORLD);
  if (app.rank > 0 && s->held_count > 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
  int wrong = s->held_count > 0 && before > s->sorted[0];
  for (int i = 1; i < s->held_count; ++i) wrong += s->sorted[i - 1] > s->sorted[i];
  return wrong == 0;
}

static const struct application is = {"IS", "keys ranked", "S W A B C D", "", fits, memory_bytes};

int main(int argc, char** argv) {
  app_begin(&is, argc, argv);
  int rankings = app.rank == 0 ? RANKINGS : 0;
  MPI_Bcast(&rankings, 1, MPI_INT, 0, MPI_COMM_WORLD);

  struct sorter s;
  memset(&s, 0, sizeof s);
  s.problem = problem_of(app.problem);
  s.keys = INT64_C(1) << s.problem->keys_log;
  s.own = (int)(s.keys / app.ranks);
  s.buckets = 1 << s.problem->buckets_log;
  s.shift = s.problem->largest_log - s.problem->buckets_log;
  s.room = (int)most_keys(s.problem, app.ranks);
  s.key = app_allocate((size_t)s.own, sizeof *s.key);
  s.sorted = app_allocate((size_t)s.room, sizeof *s.sorted);
  s.held = app_allocate((size_t)s.room, sizeof *s.held);
  s.local = app_allocate((size_t)s.buckets + TESTS, sizeof *s.local);
  s.global = app_allocate((size_t)s.buckets + TESTS, sizeof *s.global);
  s.place = app_allocate((size_t)s.buckets, sizeof *s.place);
  int* lists = app_allocate((size_t)app.ranks * 4, sizeof *lists);
  s.send = lists;
  s.send_at = lists + app.ranks;
  s.receive = lists + 2 * (size_t)app.ranks;
  s.at = lists + 3 * (size_t)app.ranks;
  make_keys(&s);

  rank_keys(&s, 1); /* not timed: touches the memory and opens the connections */
  s.passed = 0;
  double start = MPI_Wtime();
  for (int ranking = 1; ranking <= rankings; ++ranking) rank_keys(&s, ranking);
  double seconds = MPI_Wtime() - start, slowest = 0;
  MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);

  s.passed += is_sorted(&s);
  int passed = 0;
  MPI_Reduce(&s.passed, &passed, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  app_check("passed tests", passed, TESTS * rankings + app.ranks, 0);
  free(s.key);
  free(s.sorted);
  free(s.held);
  free(s.local);
  free(s.global);
  free(s.place);
  free(s.up_to);
  free(lists);
  char size[32];
  snprintf(size, sizeof size, "%lld", (long long)s.keys);
  return app_end(size, rankings, slowest, (double)rankings * (double)s.keys);
}
