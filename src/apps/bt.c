/* SPDX-License-Identifier: Apache-2.0
 *
 * In short: flow: block tridiagonal solves
 * Ranks: a square
 * Classes: S W A B C D
 *
 * BT of the NAS parallel benchmarks: time steps of the flow problem by an approximate factorisation; each line of the
 * grid, along x, then y, then z, is a block tridiagonal system of 5 x 5 blocks.
 *
 * Decomposition: the multipartition of multipartition.h on a square number of ranks, side^2. Messages of a step: the
 * halo exchange, then for each direction side - 1 messages to the rank behind while eliminating (30 words for each
 * line: a block and a right-hand side) and as many to the rank before while substituting (5 words for each line). They
 * hold a whole padded face of (n / side + 1)^2 lines.
 *
 * As many lines as a vector register has words are solved at once, one in each lane.
 */
#include "multipartition.h"

#if defined(__AVX512F__)
#define LANES 8
#elif defined(__AVX__)
#define LANES 4
#else
#define LANES 2
#endif

/* One number of LANES lines. The second type stands anywhere in an array of double. */
typedef double lanes __attribute__((vector_size(8 * LANES)));
typedef double loose_lanes __attribute__((vector_size(8 * LANES), aligned(8), may_alias));

#define EACH(i, from, to) _Pragma("GCC unroll 5") for (int i = (from); i < (to); ++i)

enum { BLOCK = FLOW_UNKNOWNS * FLOW_UNKNOWNS, FORWARD = BLOCK + FLOW_UNKNOWNS, BACKWARD = FLOW_UNKNOWNS };

static const struct flow_class classes[] = {
    {"S",
     12,
     60,
     0.01,
     {1.7034283709541311e-01, 1.2975252070034097e-02, 3.2527926989486055e-02, 2.6436421275166801e-02,
      1.9211784131744430e-01},
     {4.9976913345811579e-04, 4.5195666782961927e-05, 7.3973765172921357e-05, 7.3821238632439731e-05,
      8.9269630987491446e-04}},
    {"W",
     24,
     200,
     0.0008,
     {0.1125590409344e+03, 0.1180007595731e+02, 0.2710329767846e+02, 0.2469174937669e+02, 0.2638427874317e+03},
     {0.4419655736008e+01, 0.4638531260002e+00, 0.1011551749967e+01, 0.9235878729944e+00, 0.1018045837718e+02}},
    {"A",
     64,
     200,
     0.0008,
     {1.0806346714637264e+02, 1.1319730901220813e+01, 2.5974354511582465e+01, 2.3665622544678910e+01,
      2.5278963211748344e+02},
     {4.2348416040525025e+00, 4.4390282496995698e-01, 9.6692480136345650e-01, 8.8302063039765474e-01,
      9.7379901770829278e+00}},
    {"B",
     102,
     200,
     0.0003,
     {1.4233597229287254e+03, 9.9330522590150238e+01, 3.5646025644535285e+02, 3.2485447959084092e+02,
      3.2707541254659363e+03},
     {5.2969847140936856e+01, 4.4632896115670668e+00, 1.3122573342210174e+01, 1.2006925323559144e+01,
      1.2459576151035986e+02}},
    {"C",
     162,
     200,
     0.0001,
     {0.62398116551764615e+04, 0.50793239190423964e+03, 0.15423530093013596e+04, 0.13302387929291190e+04,
      0.11604087428436455e+05},
     {0.16462008369091265e+03, 0.11497107903824313e+02, 0.41207446207461508e+02, 0.37087651059694167e+02,
      0.36211053051841265e+03}},
    {"D",
     408,
     250,
     0.00002,
     {0.2533188551738e+05, 0.2346393716980e+04, 0.6294554366904e+04, 0.5352565376030e+04, 0.3905864038618e+05},
     {0.3100009377557e+03, 0.2424086324913e+02, 0.7782212022645e+02, 0.6835623860116e+02, 0.6065737200368e+03}},
};

#define CLASSES (sizeof classes / sizeof classes[0])

/* Shared by rank 0: steps, steps of the warm-up, lines along a side of a message's face, its words of a line. */
static int parameters[4];

/* What the solves need beside the grid. Rows of a line count from -1. */
static struct {
  lanes* r; /* [row + 1][unknown]: right-hand sides of a group of lines, then solutions */
  lanes* v; /* [row + 1][5]: 1 / density, three velocities, energy / density */
  lanes*
      blocks; /* [group][row + 1][row of block][column]: what elimination leaves above the diagonal; group 0 is of the
                 last cell along a direction, which is solved group by group, then come those of the other cells */
  ptrdiff_t group;                  /* vectors of one of these */
  double *forward[2], *backward[2]; /* messages: to send, received; [number][line], a face of lines */
} work;

static int groups_of(int most) { return (most + LANES - 1) / LANES; }

static void prepare(const struct grid* grid) {
  size_t most = (size_t)grid->most, side = (size_t)grid->side, face = (size_t)parameters[2];
  work.group = (grid->most + 1) * BLOCK;
  work.r = app_allocate((most + 2) * FLOW_UNKNOWNS, sizeof(lanes));
  work.v = app_allocate((most + 2) * 5, sizeof(lanes));
  work.blocks =
      app_allocate(((side - 1) * most * (size_t)groups_of(grid->most) + 1) * (size_t)work.group, sizeof(lanes));
  for (int b = 0; b < 2 && side > 1; ++b) {
    work.forward[b] = app_allocate(face * face * (size_t)parameters[3], sizeof(double));
    work.backward[b] = app_allocate(face * face * BACKWARD, sizeof(double));
  }
}

/* What `prepare` allocates, and the grid. */
static double memory_bytes(const char* problem, int ranks) {
  int n = flow_find(classes, CLASSES, problem)->n, side = grid_side(ranks);
  const int wide = n / side + 1;
  double most = grid_most(n, side), face = wide;
  double vectors = (most + 2) * 10 + ((side - 1) * most * groups_of((int)most) + 1) * (most + 1) * BLOCK;
  return grid_memory(n, ranks) + sizeof(lanes) * vectors + (side > 1 ? 16 * face * face * (FORWARD + BACKWARD) : 0) +
         512;
}

/* `count` numbers `stride` words apart, the last of them again in lanes that are left. */
FLOW_INLINE void load_lanes(const double* from, ptrdiff_t stride, int count, lanes* to) {
  if (count == LANES && stride == 1) {
    *to = *(const loose_lanes*)from;
  } else {
    for (int t = 0; t < LANES; ++t) (*to)[t] = from[(t < count ? t : count - 1) * stride];
  }
}

FLOW_INLINE void store_lanes(double* to, ptrdiff_t stride, int count, const lanes* from) {
  if (count == LANES && stride == 1) {
    *(loose_lanes*)to = *from;
  } else {
    for (int t = 0; t < count; ++t) to[t * stride] = (*from)[t];
  }
}

/* Whether the inviscid or viscous Jacobian along a direction, 1 to 3, has that entry. */
FLOW_INLINE int filled(int direction, int row, int column) {
  return row == 4 || row == direction || column == direction || column == row || (row > 0 && column == 0);
}

/* The block that couples a row to its neighbour with the values v: convective * A - viscous * (N + diffusion * I). */
FLOW_INLINE void couple(int direction, const lanes v[5], double convective, double viscous,
                        lanes block[FLOW_UNKNOWNS][FLOW_UNKNOWNS]) {
  const double own = -viscous * flow_diffusion(direction);
  const lanes w = v[direction], e = v[4], carried = convective * w, thin = viscous * v[0];
  const lanes half = 0.5 * (v[1] * v[1] + v[2] * v[2] + v[3] * v[3]);
  lanes heat = FLOW_BETA * e;
  EACH(m, 1, 4) {
    const double k = m == direction ? FLOW_KAPPA * 4 / 3 : FLOW_KAPPA;
    const lanes drag = carried - k * thin;
    heat += (k - FLOW_BETA) * (v[m] * v[m]);
    block[m][0] = -v[m] * drag;
    block[m][m] = own + drag;
    block[4][m] = v[m] * ((FLOW_BETA - k) * thin - FLOW_C2 * carried);
    if (m != direction) {
      block[m][direction] = convective * v[m];
      block[direction][m] = (-FLOW_C2 * convective) * v[m];
    }
  }
  block[0][0] = own + (lanes){0};
  block[0][direction] = convective + (lanes){0};
  block[direction][0] += (FLOW_C2 * convective) * half;
  block[direction][direction] += (1 - FLOW_C2) * carried;
  block[direction][4] = FLOW_C2 * convective + (lanes){0};
  block[4][0] = carried * (2 * FLOW_C2 * half - FLOW_C1 * e) + thin * heat;
  block[4][direction] += convective * (FLOW_C1 * e - FLOW_C2 * half);
  block[4][4] = own + FLOW_C1 * carried - FLOW_BETA * thin;
}

/* The block on the diagonal: I + 2 viscous (N + diffusion I). */
FLOW_INLINE void centre(int direction, const lanes v[5], double viscous, lanes block[FLOW_UNKNOWNS][FLOW_UNKNOWNS]) {
  const double own = 1 + 2 * viscous * flow_diffusion(direction);
  const lanes thin = (2 * viscous) * v[0];
  lanes heat = FLOW_BETA * v[4];
  EACH(i, 0, 5) {
    EACH(j, 0, 5) { block[i][j] = (lanes){0}; }
  }
  EACH(m, 1, 4) {
    const double k = m == direction ? FLOW_KAPPA * 4 / 3 : FLOW_KAPPA;
    heat += (k - FLOW_BETA) * (v[m] * v[m]);
    block[m][0] = -k * v[m] * thin;
    block[m][m] = own + k * thin;
    block[4][m] = (k - FLOW_BETA) * v[m] * thin;
  }
  block[0][0] = own + (lanes){0};
  block[4][0] = -thin * heat;
  block[4][4] = own + FLOW_BETA * thin;
}

/* Replaces x by the solution of the system with the factors that `factorise` leaves. x is every `stride`-th vector. */
FLOW_INLINE void apply_factors(lanes f[FLOW_UNKNOWNS][FLOW_UNKNOWNS], lanes* x, int stride) {
  lanes y[FLOW_UNKNOWNS];
  EACH(i, 0, 5) { y[i] = x[i * stride]; }
  EACH(i, 1, 5) {
    EACH(j, 0, i) { y[i] -= f[i][j] * y[j]; }
  }
  EACH(back, 0, 5) {
    const int i = 4 - back;
    EACH(j, i + 1, 5) { y[i] -= f[i][j] * y[j]; }
    y[i] *= f[i][i];
    x[i * stride] = y[i];
  }
}

/* Gauss without pivots: multipliers below the diagonal, reciprocals of the pivots on it. */
FLOW_INLINE void factorise(lanes f[FLOW_UNKNOWNS][FLOW_UNKNOWNS]) {
  EACH(p, 0, 5) {
    f[p][p] = 1 / f[p][p];
    EACH(i, p + 1, 5) {
      f[i][p] *= f[p][p];
      EACH(j, p + 1, 5) f[i][j] -= f[i][p] * f[p][j];
    }
  }
}

/* Eliminates the lines of a group: rows first to last. Row first - 1 of `blocks` and of work.r must be there. */
FLOW_INLINE void eliminate(const struct grid* grid, int direction, int first, int last, lanes* blocks) {
  const double convective = grid->dt * grid->t2, viscous = grid->dt * grid->t1;
  for (int q = first; q < last; ++q) {
    const lanes *v = work.v + (q + 1) * 5, *before = blocks + q * BLOCK, *known = work.r + q * FLOW_UNKNOWNS;
    lanes *block = blocks + (q + 1) * BLOCK, *r = work.r + (q + 1) * FLOW_UNKNOWNS;
    lanes middle[FLOW_UNKNOWNS][FLOW_UNKNOWNS], beside[FLOW_UNKNOWNS][FLOW_UNKNOWNS];
    centre(direction, v, viscous, middle);
    couple(direction, v - 5, -convective, viscous, beside);
    EACH(i, 0, 5) {
      EACH(l, 0, 5) {
        if (filled(direction, i, l)) {
          r[i] -= beside[i][l] * known[l];
          EACH(j, 0, 5) { middle[i][j] -= beside[i][l] * before[l * 5 + j]; }
        }
      }
    }
    factorise(middle);
    couple(direction, v + 5, convective, viscous, beside);
    EACH(i, 0, 5) {
      EACH(j, 0, 5) { block[i * 5 + j] = filled(direction, i, j) ? beside[i][j] : (lanes){0}; }
    }
    EACH(j, 0, 5) { apply_factors(middle, block + j, 5); }
    apply_factors(middle, r, 1);
  }
}

/* Substitutes from row last - 1 down to `first`. Row `last` of work.r must be there. */
static void substitute(int first, int last, const lanes* blocks) {
  for (int q = last - 1; q >= first; --q) {
    const lanes* block = blocks + (q + 1) * BLOCK;
    lanes *r = work.r + (q + 1) * FLOW_UNKNOWNS, *known = r + FLOW_UNKNOWNS;
    EACH(i, 0, 5) {
      lanes sum = r[i];
      EACH(j, 0, 5) { sum -= block[i * 5 + j] * known[j]; }
      r[i] = sum;
    }
  }
}

/* A group of `count` lines of a cell along one direction, side by side; point 0 of the first is (k, j, i). */
struct group {
  int k, j, i, count;
};

/* The lines along d from index `across` on, in plane `outer`: k for x and y, j for z. */
FLOW_INLINE struct group group_of(const struct cell* cell, int d, int outer, int across) {
  const int left = cell->last[d == 0 ? 1 : 0] - across;
  const struct group x = {outer, across, 0, left}, y = {outer, 0, across, left}, z = {0, outer, across, left};
  struct group g = d == 0 ? x : d == 1 ? y : z;
  if (g.count > LANES) g.count = LANES;
  return g;
}

/* Words between the points of a line along d, and between lines, in a field with so many components. */
FLOW_INLINE ptrdiff_t along_line(const struct grid* grid, int d, int components) {
  return d == 0 ? 1 : components * (d == 1 ? grid->row : grid->plane);
}

FLOW_INLINE ptrdiff_t between_lines(const struct grid* grid, int d, int components) {
  return d == 0 ? components * grid->row : 1;
}

/* Right-hand sides of a group to work.r, */
FLOW_INLINE void load_sides(const struct grid* grid, const struct cell* cell, int d, const struct group* g) {
  const ptrdiff_t along = along_line(grid, d, FLOW_UNKNOWNS), between = between_lines(grid, d, FLOW_UNKNOWNS);
  const double* from = cell->r + grid_at(grid, FLOW_UNKNOWNS, g->k, g->j) + g->i;
  for (int q = cell->first[d]; q < cell->last[d]; ++q) {
    lanes* r = work.r + (q + 1) * FLOW_UNKNOWNS;
    EACH(m, 0, 5) { load_lanes(from + q * along + m * grid->row, between, g->count, &r[m]); }
  }
}

/* and back. */
FLOW_INLINE void store_sides(const struct grid* grid, const struct cell* cell, int d, const struct group* g) {
  const ptrdiff_t along = along_line(grid, d, FLOW_UNKNOWNS), between = between_lines(grid, d, FLOW_UNKNOWNS);
  double* to = cell->r + grid_at(grid, FLOW_UNKNOWNS, g->k, g->j) + g->i;
  for (int q = cell->first[d]; q < cell->last[d]; ++q) {
    const lanes* r = work.r + (q + 1) * FLOW_UNKNOWNS;
    EACH(m, 0, 5) { store_lanes(to + q * along + m * grid->row, between, g->count, &r[m]); }
  }
}

/* After the solve along z, the step itself: U += r. */
FLOW_INLINE void add_sides(const struct grid* grid, const struct cell* cell, int d, const struct group* g) {
  const ptrdiff_t along = along_line(grid, d, FLOW_UNKNOWNS), between = between_lines(grid, d, FLOW_UNKNOWNS);
  double* u = cell->u + grid_at(grid, FLOW_UNKNOWNS, g->k, g->j) + g->i;
  for (int q = cell->first[d]; q < cell->last[d]; ++q) {
    const lanes* r = work.r + (q + 1) * FLOW_UNKNOWNS;
    EACH(m, 0, 5) {
      lanes sum;
      load_lanes(u + q * along + m * grid->row, between, g->count, &sum);
      sum += r[m];
      store_lanes(u + q * along + m * grid->row, between, g->count, &sum);
    }
  }
}

/* Values of the points of a group, and of those before and behind it, to work.v. */
FLOW_INLINE void load_values(const struct grid* grid, const struct cell* cell, int d, const struct group* g) {
  const ptrdiff_t along = along_line(grid, d, VALUES), between = between_lines(grid, d, VALUES);
  const double* from = cell->values + grid_at(grid, VALUES, g->k, g->j) + g->i;
  for (int q = cell->first[d] - 1; q <= cell->last[d]; ++q) {
    lanes* v = work.v + (q + 1) * 5;
    EACH(m, 0, 5) { load_lanes(from + q * along + m * grid->row, between, g->count, &v[m]); }
    v[4] = (1 / FLOW_C2) * v[VALUE_PRESSURE] * v[0] + 0.5 * (v[1] * v[1] + v[2] * v[2] + v[3] * v[3]);
  }
}

/* `count` vectors to or from a message, from its number `number` on; NULL makes them zero. */
static void unpack(const double* message, int number, int count, int outer, int across, int lines, lanes* to) {
  const ptrdiff_t face = parameters[2];
  for (int e = 0; e < count; ++e) {
    if (message == NULL) {
      to[e] = (lanes){0};
    } else {
      load_lanes(message + ((number + e) * face + outer) * face + across, 1, lines, &to[e]);
    }
  }
}

static void pack(double* message, int number, int count, int outer, int across, int lines, const lanes* from) {
  const ptrdiff_t face = parameters[2];
  for (int e = 0; e < count; ++e)
    store_lanes(message + ((number + e) * face + outer) * face + across, 1, lines, &from[e]);
}

/* Elimination and, for the last cell along the direction, substitution of a cell; or, with `only_back`, just the
 * substitution of another cell. Messages are NULL where there is none. */
FLOW_INLINE void solve_cell(const struct grid* grid, const struct cell* cell, int d, int stage, int only_back,
                            const double* in, double* out, double* back) {
  const int plane = d == 2 ? 1 : 2, line = d == 0 ? 1 : 0, first = cell->first[d], last = cell->last[d];
  const int ends = stage == grid->side - 1, groups = groups_of(grid->most);
  for (int outer = cell->first[plane]; outer < cell->last[plane]; ++outer) {
    for (int across = cell->first[line]; across < cell->last[line]; across += LANES) {
      const struct group g = group_of(cell, d, outer, across);
      lanes *blocks = work.blocks, *edge = work.r + first * FLOW_UNKNOWNS;
      if (!ends) {
        blocks +=
            (1 + ((ptrdiff_t)stage * grid->most + outer) * groups + (across - cell->first[line]) / LANES) * work.group;
      }
      load_sides(grid, cell, d, &g);
      if (!only_back) {
        load_values(grid, cell, d, &g);
        unpack(in, 0, BLOCK, outer, across, g.count, blocks + first * BLOCK);
        unpack(in, BLOCK, FLOW_UNKNOWNS, outer, across, g.count, edge);
        eliminate(grid, d + 1, first, last, blocks);
        if (!ends) {
          pack(out, 0, BLOCK, outer, across, g.count, blocks + last * BLOCK);
          pack(out, BLOCK, FLOW_UNKNOWNS, outer, across, g.count, work.r + last * FLOW_UNKNOWNS);
          store_sides(grid, cell, d, &g);
          continue;
        }
      }
      unpack(only_back ? in : NULL, 0, FLOW_UNKNOWNS, outer, across, g.count, work.r + (last + 1) * FLOW_UNKNOWNS);
      substitute(first, last, blocks);
      if (back != NULL) pack(back, 0, FLOW_UNKNOWNS, outer, across, g.count, edge + FLOW_UNKNOWNS);
      if (d == 2) {
        add_sides(grid, cell, d, &g);
      } else {
        store_sides(grid, cell, d, &g);
      }
    }
  }
}

static void solve_any_cell(const struct grid* grid, int d, int stage, int only_back, const double* in, double* out,
                           double* back) {
  const struct cell* cell = &grid->cells[grid->slice[d * grid->side + stage]];
  if (d == 0) {
    solve_cell(grid, cell, 0, stage, only_back, in, out, back);
  } else if (d == 1) {
    solve_cell(grid, cell, 1, stage, only_back, in, out, back);
  } else {
    solve_cell(grid, cell, 2, stage, only_back, in, out, back);
  }
}

static void solve(const struct grid* grid, int d) {
  const int side = grid->side, lines = parameters[2] * parameters[2];
  const int before = grid->neighbour[d][0], behind = grid->neighbour[d][1];
  MPI_Request received, sent = MPI_REQUEST_NULL;
  MPI_Status status;
  for (int stage = 0; stage < side; ++stage) {
    if (stage > 0) {
      MPI_Irecv(work.forward[1], lines * parameters[3], MPI_DOUBLE, before, 2 * d, grid->solve_group, &received);
      MPI_Wait(&sent, &status);
      MPI_Wait(&received, &status);
    }
    solve_any_cell(grid, d, stage, 0, stage > 0 ? work.forward[1] : NULL, work.forward[0], work.backward[0]);
    if (stage < side - 1)
      MPI_Isend(work.forward[0], lines * parameters[3], MPI_DOUBLE, behind, 2 * d, grid->solve_group, &sent);
  }
  for (int stage = side - 1; stage >= 0; --stage) {
    if (stage < side - 1) {
      MPI_Irecv(work.backward[1], lines * BACKWARD, MPI_DOUBLE, behind, 2 * d + 1, grid->solve_group, &received);
      MPI_Wait(&sent, &status);
      MPI_Wait(&received, &status);
      solve_any_cell(grid, d, stage, 1, work.backward[1], NULL, stage > 0 ? work.backward[0] : NULL);
    }
    if (stage > 0)
      MPI_Isend(work.backward[0], lines * BACKWARD, MPI_DOUBLE, before, 2 * d + 1, grid->solve_group, &sent);
  }
}

static void step(const struct grid* grid) {
  grid_exchange(grid);
  for (int c = 0; c < grid->side; ++c) grid_residual(grid, &grid->cells[c], grid->dt);
  for (int d = 0; d < 3; ++d) solve(grid, d);
}

static int fits(const char* problem, int ranks, char* why, size_t room) {
  return grid_fits(flow_find(classes, CLASSES, problem)->n, ranks, why, room);
}

static const struct application application = {"BT", "floating point", "S W A B C D", "", fits, memory_bytes};

int main(int argc, char** argv) {
  app_begin(&application, argc, argv);
  const struct flow_class* own = flow_find(classes, CLASSES, app.problem);
  parameters[0] = own->steps;
  parameters[1] = 1;
  parameters[2] = own->n / grid_side(app.ranks) + 1;
  parameters[3] = FORWARD;
  const double operations[4] = {3478.8, -17655.7, 28023.7, 0};
  return grid_run(own, parameters, 4, prepare, step, operations);
}
