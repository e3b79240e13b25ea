/* SPDX-License-Identifier: Apache-2.0
 *
 * In short: particle transport, wavefronts
 * Ranks: any number
 * Classes: 20 50 150
 * Settings: mk planes of a block, mmi angles of a block, columns of ranks
 *
 * Sweep3D, the wavefront code of the ASCI programme: one energy group of neutron transport with discrete ordinates in a
 * box of n x n x n cells, whose scattering is solved by iteration. Every iteration makes a source from the moments of
 * the last flux and then sweeps the box in the directions of 8 octants with 6 angles each.
 *
 * Decomposition: the box is cut in i and j into columns x rows ranks; k stays whole. An octant is swept in blocks of mk
 * planes of k and mmi angles, so that the ranks work one after the other as in a pipeline.
 *
 * Messages of a rank and block: a blocking receive of what flows in through its i face (jt mk mmi numbers) and its j
 * face (it mk mmi numbers), then blocking sends of what flows out through the opposite faces; none at the rim of the
 * box. Before: 4 broadcasts of the input and a barrier. The timed loop lies between two barriers and has two reductions
 * in each iteration; 8 reductions of the balance of particles end the run.
 */
#include "app.h"
#include "sweep3d_values.h"

enum {
  MOMENTS = 4,       /* of the flux that are kept: the scalar flux and the three of linear scattering */
  GROUP = 3,         /* most angles that are computed at the same time */
  FIXUPS_AFTER = 7,  /* iterations without corrections of negative flows */
  ROW_ALIGNMENT = 4, /* numbers: rows begin at multiples of 32 bytes */
  ROOM = 160         /* numbers of a work line: the faces of the longest row */
};

/* The whole numbers of the input in the order of its lines; rank 0 broadcasts them as 16 ints. */
struct deck {
  int columns, rows, mk, mmi, processors; /* decomposition and blocking; `processors` fed only a printed estimate */
  int it, jt, kt, mm, scattering_order;   /* cells of the whole box, angles, 1: linear scattering */
  int i_boundary, j_boundary, k_boundary; /* 0: nothing flows in */
  int print, face_currents, fixups;       /* -n: fix-ups in the iterations after n */
};

/* What one angle of one octant multiplies with. */
struct angle {
  double c[3], sum;       /* 2 cosine / width of a cell, along i, j, k, and their sum */
  double p[3];            /* cosines with sign: the moments 1 to 3 of the angle */
  double weight[MOMENTS]; /* weight of the angle times its moments */
};

/* Work lines of a group of angles. See prepare and march. */
struct work {
  double start[GROUP][ROOM], slope[GROUP][ROOM], face[GROUP][ROOM], mean[GROUP][ROOM];
  double flow_j[ANGLES][ROOM]; /* what flows into the next row, of each angle of the block */
};

/* One rank's part of the box. A row is it cells, padded to `row` numbers. */
struct domain {
  int it, jt, kt, row;          /* cells here, and numbers in a row */
  int west, east, south, north; /* neighbours' ranks, or -1 at the rim of the box */
  double width[3], epsilon;
  double *memory, *total, *external, *previous; /* all arrays; [kt][jt][row] */
  double *source, *flux;                        /* [kt][jt][MOMENTS][row] */
  double *current_i, *current_j, *current_k;    /* of faces: [kt][jt][row + 4], [kt][jt + 1][row], [kt + 1][jt][row] */
  double *face_i, *face_j;                      /* messages: [mmi][mk][jt] and [mmi][mk][it] */
  double* flow_k;                               /* what flows into the next plane: [mmi][jt][row] */
  struct work* work;
  double leakage[6];
};

/* Cells of the place-th of `parts` parts; the first ones have one more where it does not divide. */
static int share(int cells, int parts, int place) { return cells / parts + (place < cells % parts); }
static int first_of(int cells, int parts, int place) {
  return cells / parts * place + (place < cells % parts ? place : cells % parts);
}

/* The input for so many ranks and the options of the command line, or a sentence that says what is wrong with them. */
static const char* make_deck(const char* problem, int ranks, int with_options, struct deck* deck) {
  int n = find_problem(problem)->cells;
  long columns = 1;
  for (long c = 1; c * c <= ranks; ++c)
    if (ranks % c == 0) columns = c;
  long mk = ranks > 1 ? 1 : n, mmi = ranks > 1 ? 3 : ANGLES;
  if (with_options) {
    columns = app_option("columns", columns);
    mk = app_option("mk", mk);
    mmi = app_option("mmi", mmi);
  }
  if (columns < 1 || columns > ranks || ranks % columns != 0) return "columns must divide the number of ranks";
  if (columns > n || ranks / columns > n) return "it needs a grid of ranks with at least one cell for each in i and j";
  if (mk < 1 || mk > n) return "mk must be at least 1 and at most the number of planes";
  if (mmi < 1 || ANGLES % mmi != 0) return "mmi must divide 6, the number of angles";
  *deck = (struct deck){.columns = (int)columns,
                        .rows = (int)(ranks / columns),
                        .mk = (int)mk,
                        .mmi = (int)mmi,
                        .processors = ranks,
                        .it = n,
                        .jt = n,
                        .kt = n,
                        .mm = ANGLES,
                        .scattering_order = 1,
                        .face_currents = 1,
                        .fixups = -FIXUPS_AFTER};
  return NULL;
}

static int fits(const char* problem, int ranks, char* why, size_t room) {
  struct deck deck;
  const char* refusal = make_deck(problem, ranks, 1, &deck);
  if (refusal != NULL) snprintf(why, room, "%s", refusal);
  return refusal == NULL;
}

/* Sets the lengths of the arrays of a rank with it x jt cells of each plane and, if `allocate`, allocates them.
 * Returns their bytes. */
static double make_arrays(struct domain* domain, const struct deck* deck, int it, int jt, int allocate) {
  domain->it = it;
  domain->jt = jt;
  domain->kt = deck->kt;
  domain->row = (it + ROW_ALIGNMENT - 1) / ROW_ALIGNMENT * ROW_ALIGNMENT;
  const size_t row = (size_t)domain->row, j = (size_t)jt, k = (size_t)deck->kt, cells = k * j * row;
  const size_t block = (size_t)deck->mk * (size_t)deck->mmi;
  const struct {
    double** array;
    size_t count;
  } arrays[] = {{&domain->total, cells},
                {&domain->external, cells},
                {&domain->previous, cells},
                {&domain->source, cells * MOMENTS},
                {&domain->flux, cells * MOMENTS},
                {&domain->current_i, cells + k * j * ROW_ALIGNMENT},
                {&domain->current_j, cells + k * row},
                {&domain->current_k, cells + j * row},
                {&domain->flow_k, (size_t)deck->mmi * j * row},
                {&domain->face_i, block * j},
                {&domain->face_j, block * (size_t)it}};
  size_t all = 0;
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; ++i) all += arrays[i].count;
  if (allocate) {
    double* next = domain->memory = app_allocate(all, sizeof(double));
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; next += arrays[i++].count) *arrays[i].array = next;
    domain->work = app_allocate(1, sizeof *domain->work);
  }
  return (double)(all * sizeof(double) + sizeof *domain->work);
}

static double memory_bytes(const char* problem, int ranks) {
  struct deck deck;
  struct domain domain;
  if (make_deck(problem, ranks, 1, &deck) != NULL && make_deck(problem, ranks, 0, &deck) != NULL) return 0;
  return make_arrays(&domain, &deck, share(deck.it, deck.columns, 0), share(deck.jt, deck.rows, 0), 0);
}

/* Broadcasts the input from rank 0 and makes this rank's part of the box. */
static void set_up(struct domain* domain, struct deck* deck) {
  int ranks = app.ranks;
  MPI_Bcast(&ranks, 1, MPI_INT, 0, MPI_COMM_WORLD);
  int* places = app_allocate((size_t)ranks, sizeof(int)); /* of every rank in the grid, row by row */
  if (app.rank == 0)
    for (int r = 0; r < ranks; ++r) places[r] = r;
  MPI_Bcast(places, ranks, MPI_INT, 0, MPI_COMM_WORLD);
  double lengths[4] = {0.1, 0.1, 0.1, -ITERATIONS}; /* of a cell, and minus the number of iterations */
  MPI_Bcast(deck, 16, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Bcast(lengths, 4, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  memcpy(domain->width, lengths, sizeof domain->width);
  domain->epsilon = lengths[3];

  int column = places[app.rank] % deck->columns, line = places[app.rank] / deck->columns;
  free(places);
  domain->west = column > 0 ? app.rank - 1 : -1;
  domain->east = column < deck->columns - 1 ? app.rank + 1 : -1;
  domain->south = line > 0 ? app.rank - deck->columns : -1;
  domain->north = line < deck->rows - 1 ? app.rank + deck->columns : -1;
  make_arrays(domain, deck, share(deck->it, deck->columns, column), share(deck->jt, deck->rows, line), 1);

  int third = (deck->it + 1) / 3; /* the source fills the third in the middle */
  int first_i = first_of(deck->it, deck->columns, column), first_j = first_of(deck->jt, deck->rows, line);
  for (int k = 0; k < domain->kt; ++k) {
    for (int j = 0; j < domain->jt; ++j) {
      for (int i = 0; i < domain->it; ++i) {
        size_t cell = ((size_t)k * (size_t)domain->jt + (size_t)j) * (size_t)domain->row + (size_t)i;
        int gi = first_i + i, gj = first_j + j;
        int inside = gi >= third && gi < deck->it - third && gj >= third && gj < deck->jt - third && k >= third &&
                     k < deck->kt - third;
        domain->total[cell] = total_cross_section;
        domain->external[cell] = inside ? external_source : 0.0;
      }
    }
  }
}

/* A row of cells along i, and all that a group of angles reads and writes there. */
struct line {
  int cells, row, up; /* up: i grows on the way */
  const struct angle* angles;
  const double *total, *source;              /* [row], [MOMENTS][row] */
  double* flux;                              /* [MOMENTS][row] */
  double *current_i, *current_j, *current_k; /* at the faces where it flows out */
  double (*flow_j)[ROOM], *flow_k;           /* inflow, then outflow: [angles][ROOM], [angles][flow_k_step] */
  size_t flow_k_step;
  struct work* work;
};

/* With the flows through j and k known, the flow out of a cell along i is start + slope * (flow into it): this has all
 * of the work that does not wait for the cell before. */
static inline __attribute__((always_inline)) void prepare(const struct line* line, int count) {
  const double* restrict total = line->total, * restrict s0 = line->source, * restrict s1 = s0 + line->row;
  const double* restrict s2 = s1 + line->row, * restrict s3 = s2 + line->row, * restrict flow_k = line->flow_k;
  double (*restrict start)[ROOM] = line->work->start, (*restrict slope)[ROOM] = line->work->slope;
  double (*restrict flow_j)[ROOM] = line->flow_j;
  const size_t step = line->flow_k_step;
  const int cells = line->cells;
  struct angle angle[GROUP];
  for (int m = 0; m < count; ++m) angle[m] = line->angles[m];
#pragma GCC ivdep
  for (int i = 0; i < cells; ++i) {
    const double sigma = total[i], q0 = s0[i], q1 = s1[i], q2 = s2[i], q3 = s3[i];
#pragma GCC unroll 3
    for (int m = 0; m < count; ++m) {
      const double twice = 2.0 / (sigma + angle[m].sum);
      const double q = q0 + angle[m].p[0] * q1 + angle[m].p[1] * q2 + angle[m].p[2] * q3 +
                       angle[m].c[1] * flow_j[m][i] + angle[m].c[2] * flow_k[(size_t)m * step + (size_t)i];
      start[m][i] = twice * q;
      slope[m][i] = twice * angle[m].c[0] - 1.0;
    }
  }
}

/* Follows the flow along i; several angles, as each waits for its own last cell. face[i] and face[i + 1] are the flows
 * through the low and the high face of cell i. */
static inline __attribute__((always_inline)) void march(const struct line* line, int count) {
  double (*restrict start)[ROOM] = line->work->start, (*restrict slope)[ROOM] = line->work->slope;
  double (*restrict face)[ROOM] = line->work->face;
  const int cells = line->cells;
  double flow[GROUP];
  for (int m = 0; m < count; ++m) flow[m] = face[m][line->up ? 0 : cells];
  if (line->up) {
    for (int i = 0; i < cells; ++i) {
#pragma GCC unroll 3
      for (int m = 0; m < count; ++m) face[m][i + 1] = flow[m] = start[m][i] + slope[m][i] * flow[m];
    }
  } else {
    for (int i = cells - 1; i >= 0; --i) {
#pragma GCC unroll 3
      for (int m = 0; m < count; ++m) face[m][i] = flow[m] = start[m][i] + slope[m][i] * flow[m];
    }
  }
}

/* Whether an angle's flow out of a cell of the row is negative. */
static int has_negative(int cells, int up, const double* restrict face, const double* restrict flow_j,
                        const double* restrict flow_k) {
  int64_t negative = 0;
  for (int i = 0; i < cells; ++i) {
    const double twice = face[i] + face[i + 1], out = face[i + up];
    negative |= (int64_t)(out < 0.0) | (int64_t)(twice < flow_j[i]) | (int64_t)(twice < flow_k[i]);
  }
  return negative != 0;
}

/* Sets the negative flows out of a cell to zero and balances the cell again. `q` is the source and the flow in through
 * all faces; in and out: flows through the i, j and k face. Returns the mean flux of the cell. */
static double fix_up(const struct angle* angle, double sigma, double q, const double in[3], double out[3]) {
  double balance = sigma + angle->sum, mean = q / balance;
  for (int d = 0; d < 3; ++d) out[d] = 2.0 * mean - in[d];
  for (int d = 0; d < 3;) {
    if (out[d] >= 0.0) {
      ++d;
      continue;
    }
    balance -= angle->c[d];
    q -= 0.5 * angle->c[d] * in[d];
    mean = q / balance;
    out[d] = 0.0;
    for (int other = 0; other < 3; ++other)
      if (out[other] != 0.0) out[other] = 2.0 * mean - in[other];
    d = d > 0 ? 0 : 1; /* after i the others, after them all again */
  }
  return mean;
}

/* Follows one angle of a row and corrects each cell with a negative flow; m counts from the first angle of the line.
 * Leaves the mean flux and the flows as `advance` does. Returns the number of cells it corrected. */
static __attribute__((noinline)) int march_with_fixups(const struct line* line, int m) {
  const struct angle* angle = &line->angles[m];
  const double* restrict start = line->work->start[m], * restrict slope = line->work->slope[m];
  double* restrict face = line->work->face[m], * restrict mean = line->work->mean[m];
  double* restrict flow_j = line->flow_j[m], * restrict flow_k = line->flow_k + (size_t)m * line->flow_k_step;
  int fixed = 0, i = line->up ? 0 : line->cells - 1, step = line->up ? 1 : -1, out_face = line->up;
  double flow = face[i + !line->up];
  for (int n = 0; n < line->cells; ++n, i += step) {
    double out = start[i] + slope[i] * flow, twice = flow + out;
    double out_j = twice - flow_j[i], out_k = twice - flow_k[i];
    if (__builtin_expect(out < 0.0 || out_j < 0.0 || out_k < 0.0, 0)) {
      const double in[3] = {flow, flow_j[i], flow_k[i]};
      double flows[3], q = 0.5 * start[i] * (line->total[i] + angle->sum) + angle->c[0] * flow;
      twice = 2.0 * fix_up(angle, line->total[i], q, in, flows);
      out = flows[0];
      out_j = flows[1];
      out_k = flows[2];
      ++fixed;
    }
    face[i + out_face] = flow = out;
    mean[i] = 0.5 * twice;
    flow_j[i] = out_j;
    flow_k[i] = out_k;
  }
  return fixed;
}

/* The mean flux of the cells of a row, and the flow out through their j and k faces, of one angle. */
static void advance(int cells, const double* restrict face, double* restrict mean, double* restrict flow_j,
                    double* restrict flow_k) {
  for (int i = 0; i < cells; ++i) {
    const double twice = face[i] + face[i + 1];
    mean[i] = 0.5 * twice;
    flow_j[i] = twice - flow_j[i];
    flow_k[i] = twice - flow_k[i];
  }
}

/* Adds the angles' share to the moments of the flux and to the currents through the faces. */
static inline __attribute__((always_inline)) void accumulate(const struct line* line, int count) {
  double* restrict f0 = line->flux, * restrict f1 = f0 + line->row, * restrict f2 = f1 + line->row;
  double* restrict f3 = f2 + line->row, * restrict current_i = line->current_i;
  double* restrict current_j = line->current_j, * restrict current_k = line->current_k;
  const double* restrict face = &line->work->face[0][line->up], * restrict flow_k = line->flow_k;
  double (*restrict mean)[ROOM] = line->work->mean, (*restrict flow_j)[ROOM] = line->flow_j;
  const size_t step = line->flow_k_step;
  const int cells = line->cells;
  struct angle angle[GROUP];
  for (int m = 0; m < count; ++m) angle[m] = line->angles[m];
#pragma GCC ivdep
  for (int i = 0; i < cells; ++i) {
    double sum[MOMENTS] = {f0[i], f1[i], f2[i], f3[i]}, current[3] = {current_i[i], current_j[i], current_k[i]};
#pragma GCC unroll 3
    for (int m = 0; m < count; ++m) {
      for (int n = 0; n < MOMENTS; ++n) sum[n] += angle[m].weight[n] * mean[m][i];
      current[0] += angle[m].weight[1] * face[m * ROOM + i];
      current[1] += angle[m].weight[2] * flow_j[m][i];
      current[2] += angle[m].weight[3] * flow_k[(size_t)m * step + (size_t)i];
    }
    f0[i] = sum[0];
    f1[i] = sum[1];
    f2[i] = sum[2];
    f3[i] = sum[3];
    current_i[i] = current[0];
    current_j[i] = current[1];
    current_k[i] = current[2];
  }
}

/* Sweeps a row for `count` angles; returns the number of cells and angles that it corrected. */
static inline __attribute__((always_inline)) int sweep_line(const struct line* line, int count, int fixups) {
  int fixed = 0;
  prepare(line, count);
  march(line, count);
  for (int m = 0; m < count; ++m) {
    double *face = line->work->face[m], *flow_j = line->flow_j[m],
           *flow_k = line->flow_k + (size_t)m * line->flow_k_step;
    if (fixups && has_negative(line->cells, line->up, face, flow_j, flow_k)) {
      fixed += march_with_fixups(line, m);
    } else {
      advance(line->cells, face, line->work->mean[m], flow_j, flow_k);
    }
  }
  accumulate(line, count);
  return fixed;
}
static __attribute__((noinline)) int sweep_line_1(const struct line* l, int fixups) { return sweep_line(l, 1, fixups); }
static __attribute__((noinline)) int sweep_line_2(const struct line* l, int fixups) { return sweep_line(l, 2, fixups); }
static __attribute__((noinline)) int sweep_line_3(const struct line* l, int fixups) { return sweep_line(l, 3, fixups); }

/* Sweeps `planes` planes of k from first_k on (in the direction of the octant) for the angles of a block, with the
 * inflow in face_i, face_j and flow_k, and leaves the outflow there. signs: 1 or -1 along i, j, k. Returns the number
 * of cells and angles that it corrected. */
static int sweep_block(struct domain* domain, const struct deck* deck, const int signs[3], const struct angle* angles,
                       int first_k, int planes, int fixups) {
  const int it = domain->it, jt = domain->jt, mk = deck->mk, mmi = deck->mmi;
  const int group = mmi % 3 == 0 ? 3 : mmi;
  const size_t row = (size_t)domain->row, plane = (size_t)jt * row, next = (size_t)mk * (size_t)jt;
  const int i_in = signs[0] > 0 ? 0 : it, i_out = it - i_in;
  const size_t high_i = signs[0] > 0, high_j = signs[1] > 0, high_k = signs[2] > 0;
  int fixed = 0;
  struct work* work = domain->work;
  struct line line = {.cells = it, .row = domain->row, .up = signs[0] > 0, .flow_k_step = plane, .work = work};
  for (int kk = 0; kk < planes; ++kk) {
    const int above = first_k + signs[2] * kk;
    const size_t k = (size_t)above, line_bytes = (size_t)it * sizeof(double);
    double* const face_j = domain->face_j + (size_t)kk * (size_t)it;
    const size_t next_j = (size_t)mk * (size_t)it;
    for (int m = 0; m < mmi; ++m) memcpy(work->flow_j[m], face_j + (size_t)m * next_j, line_bytes);
    for (int jj = 0; jj < jt; ++jj) {
      const size_t j = (size_t)(signs[1] > 0 ? jj : jt - 1 - jj), at = k * (size_t)jt + j;
      line.total = domain->total + at * row;
      line.source = domain->source + at * MOMENTS * row;
      line.flux = domain->flux + at * MOMENTS * row;
      line.current_i = domain->current_i + at * (row + ROW_ALIGNMENT) + high_i;
      line.current_j = domain->current_j + (k * (size_t)(jt + 1) + j + high_j) * row;
      line.current_k = domain->current_k + ((k + high_k) * (size_t)jt + j) * row;
      for (int m = 0; m < mmi; m += group) {
        double* face_i = domain->face_i + (size_t)(m * mk + kk) * (size_t)jt + j;
        line.angles = angles + m;
        line.flow_j = work->flow_j + m;
        line.flow_k = domain->flow_k + (size_t)m * plane + j * row;
        for (int g = 0; g < group; ++g) work->face[g][i_in] = face_i[(size_t)g * next];
        fixed += group == 3   ? sweep_line_3(&line, fixups)
                 : group == 2 ? sweep_line_2(&line, fixups)
                              : sweep_line_1(&line, fixups);
        for (int g = 0; g < group; ++g) face_i[(size_t)g * next] = work->face[g][i_out];
      }
    }
    for (int m = 0; m < mmi; ++m) memcpy(face_j + (size_t)m * next_j, work->flow_j[m], line_bytes);
  }
  return fixed;
}

/* signs: 1 or -1 along i, j, k; width: of a cell. */
static void make_angle(int number, const int signs[3], const double width[3], struct angle* angle) {
  const double mu = quadrature[number].mu, eta = quadrature[number].eta, weight = quadrature[number].weight / 8.0;
  const double cosines[3] = {mu, eta, sqrt(1.0 - mu * mu - eta * eta)};
  angle->sum = 0;
  angle->weight[0] = weight;
  for (int d = 0; d < 3; ++d) {
    angle->c[d] = 2.0 * cosines[d] / width[d];
    angle->sum += angle->c[d];
    angle->p[d] = signs[d] * cosines[d];
    angle->weight[1 + d] = weight * angle->p[d];
  }
}

/* Adds flows of an angle along direction d out of the box to the leakage. */
static void leak(struct domain* domain, int d, const struct angle* angle, const double* flow, size_t count) {
  const double* width = domain->width;
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += flow[i];
  domain->leakage[2 * d + (angle->p[d] > 0)] +=
      angle->weight[1 + d] * (width[0] * width[1] * width[2] / width[d]) * sum;
}

/* Receives an inflow; nothing flows in at the rim of the box (from is -1). */
static void receive(double* flow, size_t count, int from, int tag) {
  if (from < 0) {
    memset(flow, 0, count * sizeof(double));
  } else {
    MPI_Recv(flow, (int)count, MPI_DOUBLE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

/* Sends an outflow of [mmi][mk][length], or adds it to the leakage along direction d at the rim of the box. */
static void pass_on(struct domain* domain, const struct deck* deck, int d, const struct angle* angles, int planes,
                    int to, int tag) {
  double* flow = d == 0 ? domain->face_i : domain->face_j;
  const size_t length = (size_t)(d == 0 ? domain->jt : domain->it), step = length * (size_t)deck->mk;
  if (to < 0) {
    for (int m = 0; m < deck->mmi; ++m) leak(domain, d, &angles[m], flow + (size_t)m * step, length * (size_t)planes);
  } else {
    MPI_Send(flow, (int)step * deck->mmi, MPI_DOUBLE, to, tag, MPI_COMM_WORLD);
  }
}

/* Sweeps all angles of an octant (0 to 7) with its messages; returns the number of cells and angles corrected. */
static int sweep_octant(struct domain* domain, const struct deck* deck, int octant, int fixups) {
  const int signs[3] = {octant & 4 ? 1 : -1, octant & 2 ? 1 : -1, octant & 1 ? 1 : -1};
  const int from_i = signs[0] > 0 ? domain->west : domain->east, to_i = signs[0] > 0 ? domain->east : domain->west;
  const int from_j = signs[1] > 0 ? domain->south : domain->north, to_j = signs[1] > 0 ? domain->north : domain->south;
  const int tag_i = (octant + 1) * (signs[0] > 0 ? 1000 : 3000), tag_j = (octant + 1) * (signs[1] > 0 ? 2000 : 4000);
  const size_t block = (size_t)deck->mk * (size_t)deck->mmi, plane = (size_t)domain->jt * (size_t)domain->row;
  const size_t size_i = (size_t)domain->jt * block, size_j = (size_t)domain->it * block;
  int fixed = 0;
  for (int first = 0; first < deck->mm; first += deck->mmi) {
    struct angle angles[ANGLES];
    for (int m = 0; m < deck->mmi; ++m) make_angle(first + m, signs, domain->width, &angles[m]);
    memset(domain->flow_k, 0, (size_t)deck->mmi * plane * sizeof(double));
    for (int done = 0; done < domain->kt; done += deck->mk) {
      const int planes = domain->kt - done < deck->mk ? domain->kt - done : deck->mk;
      const int first_k = signs[2] > 0 ? done : domain->kt - 1 - done;
      receive(domain->face_i, size_i, from_i, tag_i);
      receive(domain->face_j, size_j, from_j, tag_j);
      fixed += sweep_block(domain, deck, signs, angles, first_k, planes, fixups);
      pass_on(domain, deck, 0, angles, planes, to_i, tag_i);
      pass_on(domain, deck, 1, angles, planes, to_j, tag_j);
    }
    for (int m = 0; m < deck->mmi; ++m) /* the padding of the rows is zero */
      leak(domain, 2, &angles[m], domain->flow_k + (size_t)m * plane, plane);
  }
  return fixed;
}

/* Makes the source from the last flux, keeps its scalar part and clears what the sweep adds to. */
static void make_source(struct domain* domain) {
  const size_t row = (size_t)domain->row, rows = (size_t)domain->kt * (size_t)domain->jt, it = (size_t)domain->it;
  for (size_t r = 0; r < rows; ++r) {
    double* restrict source = domain->source + r * MOMENTS * row, * restrict flux = domain->flux + r * MOMENTS * row;
    double* restrict previous = domain->previous + r * row;
    const double* restrict external = domain->external + r * row;
    for (size_t i = 0; i < it; ++i) {
      source[i] = external[i] + scattering[0] * flux[i];
      previous[i] = flux[i];
      flux[i] = 0.0;
    }
    for (size_t i = row; i < MOMENTS * row; ++i) {
      source[i] = scattering[1] * flux[i];
      flux[i] = 0.0;
    }
  }
  const size_t jt = (size_t)domain->jt, kt = (size_t)domain->kt;
  memset(domain->current_i, 0, rows * (row + ROW_ALIGNMENT) * sizeof(double));
  memset(domain->current_j, 0, (rows + kt) * row * sizeof(double));
  memset(domain->current_k, 0, (rows + jt) * row * sizeof(double));
  memset(domain->leakage, 0, sizeof domain->leakage);
}

/* The greatest relative change of the scalar flux in this rank's cells. */
static double greatest_change(const struct domain* domain) {
  const size_t row = (size_t)domain->row, rows = (size_t)domain->kt * (size_t)domain->jt;
  double greatest = 0;
  for (size_t r = 0; r < rows; ++r) {
    const double *flux = domain->flux + r * MOMENTS * row, *previous = domain->previous + r * row;
    for (int i = 0; i < domain->it; ++i) {
      const double change = flux[i] != 0.0 ? fabs((flux[i] - previous[i]) / flux[i]) : 0.0;
      if (change > greatest) greatest = change;
    }
  }
  return greatest;
}

/* Sums the external source, the absorption and the leakages over all ranks, in the order of `published`. */
static void sum_balance(const struct domain* domain, double balance[8]) {
  const size_t row = (size_t)domain->row, rows = (size_t)domain->kt * (size_t)domain->jt;
  const double volume = domain->width[0] * domain->width[1] * domain->width[2];
  double mine[8] = {0};
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < (size_t)domain->it; ++i) {
      mine[0] += domain->external[r * row + i] * volume;
      mine[1] += (domain->total[r * row + i] - scattering[0]) * domain->flux[r * MOMENTS * row + i] * volume;
    }
  }
  memcpy(mine + 2, domain->leakage, sizeof domain->leakage);
  for (int n = 0; n < 8; ++n) MPI_Allreduce(&mine[n], &balance[n], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static const struct application sweep3d = {.name = "Sweep3D",
                                           .operations = "cell-angle updates",
                                           .classes = "20 50 150",
                                           .options = "mk mmi columns",
                                           .fits = fits,
                                           .memory_bytes = memory_bytes};

int main(int argc, char** argv) {
  app_begin(&sweep3d, argc, argv);
  struct deck deck;
  const char* refusal = make_deck(app.problem, app.ranks, 1, &deck);
  if (refusal != NULL) app_refuse(2, "%s", refusal);
  struct domain domain = {0};
  set_up(&domain, &deck);
  MPI_Barrier(MPI_COMM_WORLD);

  const int iterations = (int)-domain.epsilon;
  double change[ITERATIONS], balance[8];
  int fixed[ITERATIONS];
  MPI_Barrier(MPI_COMM_WORLD);
  double seconds = -MPI_Wtime();
  for (int n = 0; n < iterations; ++n) {
    make_source(&domain);
    int fixed_here = 0;
    for (int octant = 0; octant < 8; ++octant) fixed_here += sweep_octant(&domain, &deck, octant, n >= -deck.fixups);
    MPI_Allreduce(&fixed_here, &fixed[n], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    double greatest = greatest_change(&domain);
    MPI_Allreduce(&greatest, &change[n], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  seconds += MPI_Wtime();
  sum_balance(&domain, balance);

  const struct published* expected = find_problem(app.problem);
  char text[40];
  for (int n = 0; n < iterations; ++n) {
    snprintf(text, sizeof text, "change in iteration %d", n + 1);
    if (!isnan(expected->change[n])) app_check(text, change[n], expected->change[n], 1e-10);
    snprintf(text, sizeof text, "fix-ups in iteration %d", n + 1);
    app_check(text, fixed[n], expected->fixups[n], 0);
  }
  for (int n = 0; n < 8; ++n) app_check(balance_names[n], balance[n], expected->balance[n], 1e-10);
  free(domain.work);
  free(domain.memory);
  snprintf(text, sizeof text, "%dx%dx%d", deck.it, deck.jt, deck.kt);
  return app_end(text, iterations, seconds, (double)iterations * deck.it * deck.jt * deck.kt * deck.mm * 8.0);
}
