/* SPDX-License-Identifier: Apache-2.0
 *
 * In short: conjugate gradients, sparse matrix
 * Ranks: a power of two
 * Classes: S W A B C D
 *
 * CG, "conjugate gradient" of the NAS parallel benchmarks: the smallest eigenvalue of a random sparse symmetric matrix
 * A of n rows by inverse iteration; each of its steps solves A z = x with 25 steps of the conjugate gradient method.
 *
 * Decomposition: the ranks form a grid of `rows` x `columns` (columns = rows or 2 rows), and each holds the block of A
 * where its rows and columns meet. All vectors (x, z, p, q, r) are held as the segment that belongs to the block's
 * columns; the ranks of one grid column hold the same segment.
 *
 * Messages, all of them Irecv, Send, Wait: a sum over a grid row takes log2(columns) exchanges of one or two numbers. A
 * product takes log2(columns) exchanges of a segment to add up the block products of a grid row, then one with the rank
 * across the diagonal, which turns the segment of rows into the segment of columns; ranks on the diagonal send it to
 * themselves (a single rank sends nothing). Beside that one Bcast (4 B), one Barrier and one Reduce(max) of the time
 * (8 B).
 */
#include "app.h"
#include "random.h"

#define SEED UINT64_C(314159265)
#define STEPS 25       /* of the conjugate gradient method */
#define CONDITION 0.1  /* reciprocal condition number of the matrix */
#define VECTOR_MOST 32 /* entries that a sparse vector of the matrix has room for */
#define TAG 1

static const struct problem {
  const char* name;
  int n, entries, iterations; /* rows; random entries of each sparse vector; outer iterations */
  double shift, zeta;         /* of the diagonal; the published result */
} problems[] = {
    {"S", 1400, 7, 15, 10.0, 8.5971775078648},     {"W", 7000, 8, 15, 12.0, 10.362595087124},
    {"A", 14000, 11, 15, 20.0, 17.130235054029},   {"B", 75000, 13, 75, 60.0, 22.712745482631},
    {"C", 150000, 15, 75, 110.0, 28.973605592845}, {"D", 1500000, 21, 100, 500.0, 52.514532105794},
};

static const struct problem* problem_of(const char* name) {
  for (size_t i = 0; i < sizeof problems / sizeof *problems; ++i)
    if (strcmp(problems[i].name, name) == 0) return &problems[i];
  return NULL;
}

/* A run of rows, columns or entries: `count` of them from `first`. */
struct segment {
  int first, count;
};

/* Part `index` of n things cut into `parts`; the first ones get one more where it does not divide. */
static struct segment part_of(int n, int parts, int index) {
  int share = n / parts, rest = n % parts;
  struct segment part = {index * share + (index < rest ? index : rest), share + (index < rest)};
  return part;
}

/* Where a rank stands in the grid of ranks. */
struct place {
  int rank, ranks;
  int rows, columns;       /* of the grid */
  int bits;                /* log2(columns), the exchanges of a sum */
  struct segment row_part; /* of the matrix, in its rows */
  struct segment column_part;
  struct segment kept;  /* what this rank keeps of the row segment when the products are added; from its start */
  struct segment given; /* what the neighbour keeps of it: the other half, or again all on a square grid */
  int across;           /* the rank at the other side of the diagonal */
};

static struct place place_of(int n, int ranks, int rank) {
  struct place at = {.rank = rank, .ranks = ranks, .rows = 1, .columns = 1};
  while (at.rows * at.columns < ranks) {
    if (at.columns == at.rows) {
      at.columns *= 2;
      at.bits++;
    } else {
      at.rows *= 2;
    }
  }
  int row = rank / at.columns, column = rank % at.columns;
  at.row_part = part_of(n, at.rows, row);
  if (at.columns == at.rows) {
    at.column_part = part_of(n, at.columns, column);
    at.kept.count = at.given.count = at.row_part.count;
    at.across = column * at.columns + row;
  } else { /* each part of the rows is cut in two for the columns */
    int half = column % 2;
    struct segment pair = part_of(n, at.rows, column / 2);
    at.column_part = part_of(pair.count, 2, half);
    at.column_part.first += pair.first;
    at.kept = part_of(at.row_part.count, 2, half);
    at.given = part_of(at.row_part.count, 2, 1 - half);
    at.across = 2 * ((rank / 2 % at.rows) * at.rows + rank / 2 / at.rows) + half;
  }
  return at;
}

/* The products that make up the block of a rank, before those of the same place are added. A diagonal block has the
 * most: a vector has its own entry i and `entries` random ones, so it gives on average 1 / columns of (1 + entries)
 * products of an entry with itself and 1 / (rows columns) of the others. 5 % and 2000 more for chance. */
static double most_products(const struct problem* problem, int ranks) {
  struct place at = place_of(problem->n, ranks, 0);
  double entries = problem->entries, each = 1 + entries + entries * (entries + 1) / at.rows;
  return 1.05 * problem->n * each / at.columns + 2000;
}

static int fits(const char* name, int ranks, char* why, size_t room) {
  const struct problem* problem = problem_of(name);
  if (ranks & (ranks - 1)) {
    snprintf(why, room, "it needs a power of two of ranks");
    return 0;
  }
  if (place_of(problem->n, ranks, 0).columns > problem->n / 2) {
    snprintf(why, room, "it needs at least two rows of the matrix for each rank of a grid row");
    return 0;
  }
  return 1;
}

static double memory_bytes(const char* name, int ranks) {
  const struct problem* problem = problem_of(name);
  struct place at = place_of(problem->n, ranks, 0); /* the first rank has the largest block */
  double vectors = 5.0 * at.column_part.count + 2.0 * at.row_part.count;
  double longest = 64.0 * (problem->entries + 1); /* products of one row, twice for sorting, 16 B each */
  return 12.0 * most_products(problem, ranks) + 8.0 * vectors + 8.0 * (at.row_part.count + 2) + 32.0 * longest;
}

/* A rank's block in compressed rows: row i has the entries start[i] .. start[i + 1] - 1; columns count from the block's
 * first one. */
struct matrix {
  int rows;
  int* start;  /* [rows + 1] */
  int* column; /* ascending within a row */
  double* value;
};

/* A sparse vector v_i of the sum that makes the matrix. */
struct sparse {
  int count;
  int at[VECTOR_MOST];
  double value[VECTOR_MOST];
};

/* Draws vector number i. `power` is the smallest power of two >= n. */
static void draw_vector(uint64_t* state, const struct problem* problem, int power, int i, struct sparse* v) {
  v->count = 0;
  while (v->count < problem->entries) {
    double value = random_next(state);
    int at = (int)(power * random_next(state)), known = at >= problem->n;
    for (int k = 0; k < v->count; ++k) known |= v->at[k] == at;
    if (known) continue;
    v->at[v->count] = at;
    v->value[v->count++] = value;
  }
  int own = 0;
  while (own < v->count && v->at[own] != i) ++own;
  v->at[own] = i;
  v->value[own] = 0.5;
  v->count += own == v->count;
}

/* Walks over all products v[a] (weight v[b]) of all vectors that fall into the block. With `next` NULL it only counts
 * them in count[row]; otherwise it stores each at next[row]++. */
static void walk_products(const struct problem* problem, const struct place* at, int* restrict count,
                          int* restrict next, struct matrix* a) {
  uint64_t state = SEED;
  random_next(&state); /* the first number is not used */
  int power = 1;
  while (power < problem->n) power *= 2;
  const double ratio = pow(CONDITION, 1.0 / problem->n), on_diagonal = CONDITION - problem->shift;
  double weight = 1.0;
  struct sparse v;
  for (int i = 0; i < problem->n; ++i, weight *= ratio) {
    draw_vector(&state, problem, power, i, &v);
    /* The entries whose columns are in the block, with their weight. */
    int inside = 0, from[VECTOR_MOST], column[VECTOR_MOST];
    double scaled[VECTOR_MOST];
    for (int k = 0; k < v.count; ++k) {
      column[inside] = v.at[k] - at->column_part.first;
      scaled[inside] = weight * v.value[k];
      from[inside] = v.at[k];
      inside += column[inside] >= 0 && column[inside] < at->column_part.count;
    }
    for (int k = 0; k < v.count; ++k) {
      int row = v.at[k] - at->row_part.first;
      if (row < 0 || row >= at->row_part.count) continue;
      if (next == NULL) {
        count[row] += inside;
        continue;
      }
      for (int j = 0; j < inside; ++j) {
        double value = v.value[k] * scaled[j];
        if (v.at[k] == i && from[j] == i) value += on_diagonal;
        a->column[next[row]] = column[j];
        a->value[next[row]++] = value;
      }
    }
  }
}

/* One entry of a row while it is sorted. */
struct entry {
  double value;
  int column;
};

/* Sorts the entries by column and keeps the order of equal ones. `spare` has the same room. Returns where they are. */
static struct entry* sort_row(struct entry* entries, struct entry* spare, int count) {
  for (int width = 1; width < count; width *= 2) {
    for (int low = 0; low < count; low += 2 * width) {
      int middle = low + width < count ? low + width : count, high = middle + width < count ? middle + width : count;
      for (int left = low, right = middle, to = low; to < high; ++to) {
        int take_left = right >= high || (left < middle && entries[left].column <= entries[right].column);
        spare[to] = take_left ? entries[left++] : entries[right++];
      }
    }
    struct entry* swap = entries;
    entries = spare;
    spare = swap;
  }
  return entries;
}

/* Sorts each row and adds up the products of the same place in the order in which they were made. */
static void merge_products(struct matrix* a) {
  int longest = 0, kept = 0;
  for (int i = 0; i < a->rows; ++i)
    if (a->start[i + 1] - a->start[i] > longest) longest = a->start[i + 1] - a->start[i];
  struct entry* room = app_allocate((size_t)longest * 2, sizeof *room);
  for (int i = 0; i < a->rows; ++i) {
    int from = a->start[i], count = a->start[i + 1] - from, last = -1;
    for (int k = 0; k < count; ++k) {
      room[k].value = a->value[from + k];
      room[k].column = a->column[from + k];
    }
    const struct entry* sorted = sort_row(room, room + longest, count);
    a->start[i] = kept;
    for (int k = 0; k < count; ++k) {
      if (sorted[k].column == last) {
        a->value[kept - 1] += sorted[k].value;
      } else {
        last = a->column[kept] = sorted[k].column;
        a->value[kept++] = sorted[k].value;
      }
    }
  }
  a->start[a->rows] = kept;
  free(room);
}

static void make_matrix(const struct problem* problem, const struct place* at, struct matrix* a) {
  size_t rows = (size_t)at->row_part.count;
  int* next = app_allocate(rows, sizeof *next);
  a->rows = at->row_part.count;
  a->start = app_allocate(rows + 1, sizeof *a->start);
  walk_products(problem, at, next, NULL, a);
  for (size_t i = 0; i < rows; ++i) {
    a->start[i + 1] = a->start[i] + next[i];
    next[i] = a->start[i];
  }
  size_t products = (size_t)a->start[rows];
  a->column = app_allocate(products, sizeof *a->column);
  a->value = app_allocate(products, sizeof *a->value);
  walk_products(problem, at, NULL, next, a);
  free(next);
  merge_products(a);
}

/* Everything that the iterations work on. Vectors are segments of column_part.count numbers where nothing else is said.
 */
struct solver {
  struct place at;
  struct matrix a;
  double *x, *z, *p, *q, *r;
  double* products; /* of the block, [row_part.count] */
  double* received; /* the same of a neighbour, [row_part.count] */
};

/* Adds up `count` numbers over the ranks of the grid row. */
static void sum_over_row(const struct place* at, double* values, int count) {
  for (int bit = at->bits - 1; bit >= 0; --bit) {
    int partner = at->rank ^ (1 << bit);
    double other[2];
    MPI_Request request;
    MPI_Irecv(other, count, MPI_DOUBLE, partner, TAG, MPI_COMM_WORLD, &request);
    MPI_Send(values, count, MPI_DOUBLE, partner, TAG, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < count; ++i) values[i] += other[i];
  }
}

/* The inner product of two vectors of n numbers. Four sums, so that no addition waits for the one before. */
static inline double inner_product(int n, const double* restrict a, const double* restrict b) {
  double sum[4] = {0, 0, 0, 0};
  int i = 0;
  for (; i + 4 <= n; i += 4)
    for (int k = 0; k < 4; ++k) sum[k] += a[i + k] * b[i + k];
  for (; i < n; ++i) sum[0] += a[i] * b[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* The same of a vector with itself. */
static inline double square(int n, const double* restrict a) {
  double sum[4] = {0, 0, 0, 0};
  int i = 0;
  for (; i + 4 <= n; i += 4)
    for (int k = 0; k < 4; ++k) sum[k] += a[i + k] * a[i + k];
  for (; i < n; ++i) sum[0] += a[i] * a[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* to += from, n numbers. */
static inline void add(int n, const double* restrict from, double* restrict to) {
  for (int i = 0; i < n; ++i) to[i] += from[i];
}

/* to = factor from, n numbers. */
static inline void scale(int n, double factor, const double* restrict from, double* restrict to) {
  for (int i = 0; i < n; ++i) to[i] = factor * from[i];
}

/* The block of A times the segment `from`. */
static void multiply_block(const struct matrix* a, const double* restrict from, double* restrict to) {
  const int* restrict start = a->start, * restrict column = a->column;
  const double* restrict value = a->value;
  for (int i = 0; i < a->rows; ++i) {
    double sum[4] = {0, 0, 0, 0};
    int k = start[i];
    const int end = start[i + 1];
    for (; k + 4 <= end; k += 4)
      for (int j = 0; j < 4; ++j) sum[j] += value[k + j] * from[column[k + j]];
    for (; k < end; ++k) sum[0] += value[k] * from[column[k]];
    to[i] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
}

/* to = A from, both segments of columns. */
static void multiply(const struct solver* s, const double* from, double* to) {
  const struct place* at = &s->at;
  if (at->ranks == 1) {
    multiply_block(&s->a, from, to);
    return;
  }
  MPI_Request request;
  multiply_block(&s->a, from, s->products);
  double* kept = s->products + at->kept.first;
  for (int bit = 0; bit < at->bits; ++bit) {
    int partner = at->rank ^ (1 << bit);
    struct segment given = bit == 0 ? at->given : at->kept;
    MPI_Irecv(s->received, at->kept.count, MPI_DOUBLE, partner, TAG, MPI_COMM_WORLD, &request);
    MPI_Send(s->products + given.first, given.count, MPI_DOUBLE, partner, TAG, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    add(at->kept.count, s->received, kept);
  }
  MPI_Irecv(to, at->column_part.count, MPI_DOUBLE, at->across, TAG, MPI_COMM_WORLD, &request);
  MPI_Send(kept, at->kept.count, MPI_DOUBLE, at->across, TAG, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Solves A z = x roughly and returns the length of x - A z. */
static double solve(const struct solver* s) {
  const int n = s->at.column_part.count;
  const double* restrict x = s->x;
  double* restrict z = s->z, * restrict p = s->p, * restrict q = s->q, * restrict r = s->r;
  for (int i = 0; i < n; ++i) {
    z[i] = 0;
    r[i] = p[i] = x[i];
  }
  double rho = square(n, r);
  sum_over_row(&s->at, &rho, 1);
  for (int step = 0; step < STEPS; ++step) {
    multiply(s, p, q);
    double product = inner_product(n, p, q);
    sum_over_row(&s->at, &product, 1);
    const double alpha = rho / product;
    for (int i = 0; i < n; ++i) {
      z[i] += alpha * p[i];
      r[i] -= alpha * q[i];
    }
    double before = rho;
    rho = square(n, r);
    sum_over_row(&s->at, &rho, 1);
    const double beta = rho / before;
    for (int i = 0; i < n; ++i) p[i] = r[i] + beta * p[i];
  }
  multiply(s, z, q);
  for (int i = 0; i < n; ++i) r[i] = x[i] - q[i];
  double residual = square(n, r);
  sum_over_row(&s->at, &residual, 1);
  return sqrt(residual);
}

/* One step of the inverse iteration: returns the estimate of the eigenvalue and writes the residual. */
static double iterate(const struct solver* s, double shift, double* residual) {
  const int n = s->at.column_part.count;
  *residual = solve(s);
  double products[2] = {inner_product(n, s->x, s->z), square(n, s->z)};
  sum_over_row(&s->at, products, 2);
  scale(n, 1.0 / sqrt(products[1]), s->z, s->x);
  return shift + 1.0 / products[0];
}

static const struct application cg = {"CG", "floating point", "S W A B C D", "", fits, memory_bytes};

int main(int argc, char** argv) {
  app_begin(&cg, argc, argv);
  const struct problem* problem = problem_of(app.problem);
  int iterations = app.rank == 0 ? problem->iterations : 0;
  MPI_Bcast(&iterations, 1, MPI_INT, 0, MPI_COMM_WORLD);

  struct solver s;
  memset(&s, 0, sizeof s);
  s.at = place_of(problem->n, app.ranks, app.rank);
  make_matrix(problem, &s.at, &s.a);
  const size_t n = (size_t)s.at.column_part.count, rows = (size_t)s.at.row_part.count;
  s.x = app_allocate(n, sizeof(double));
  s.z = app_allocate(n, sizeof(double));
  s.p = app_allocate(n, sizeof(double));
  s.q = app_allocate(n, sizeof(double));
  s.r = app_allocate(n, sizeof(double));
  s.products = app_allocate(rows, sizeof(double));
  s.received = app_allocate(rows, sizeof(double));

  double zeta = 0, residual = 0;
  for (size_t i = 0; i < n; ++i) s.x[i] = 1.0;
  iterate(&s, problem->shift, &residual); /* not timed: touches the memory and opens the connections */
  for (size_t i = 0; i < n; ++i) s.x[i] = 1.0;
  MPI_Barrier(MPI_COMM_WORLD);
  double start = MPI_Wtime();
  for (int i = 0; i < iterations; ++i) zeta = iterate(&s, problem->shift, &residual);
  double seconds = MPI_Wtime() - start, slowest = 0;
  MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);

  app_check("zeta", zeta, problem->zeta, 1e-10);
  app_check("residual is below 1e-8", residual < 1e-8, 1, 0); /* not published; a sound run has about 1e-13 */
  free(s.a.start);
  free(s.a.column);
  free(s.a.value);
  free(s.x);
  free(s.z);
  free(s.p);
  free(s.q);
  free(s.r);
  free(s.products);
  free(s.received);
  char size[32];
  snprintf(size, sizeof size, "%d", problem->n);
  const double entries = problem->entries * (problem->entries + 1.0);
  return app_end(size, iterations, slowest, 2.0 * iterations * problem->n * (3 + entries + STEPS * (5 + entries) + 3));
}
