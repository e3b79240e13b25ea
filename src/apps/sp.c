/* SPDX-License-Identifier: Apache-2.0
 *
 * In short: flow: pentadiagonal solves
 * Ranks: a square
 * Classes: S W A B C D
 *
 * SP of the NAS parallel benchmarks: time steps of the flow problem by an approximate factorisation that is made
 * diagonal, so that each line of the grid, along x, then y, then z, is solved for five independent unknowns with five
 * bands each.
 *
 * Decomposition: the multipartition of multipartition.h on a square number of ranks, side^2. Messages of a step: the
 * halo exchange, then for each direction side - 1 messages to the rank behind while eliminating (22 words for each
 * line: two rows of three pairs of bands and five right-hand sides) and as many to the rank before while substituting
 * (10 words for each line: two rows of five solutions).
 *
 * A cell is solved plane by plane, all lines of a plane side by side, so that the innermost loop runs across lines.
 */
#define GRID_SPEED
#include "multipartition.h"

enum { PAIRS = 3, BANDS = 2 * PAIRS, FORWARD = 2 * (BANDS + FLOW_UNKNOWNS), BACKWARD = 2 * FLOW_UNKNOWNS };

static const struct flow_class classes[] = {
    {"S",
     12,
     100,
     0.015,
     {2.7470315451339479e-02, 1.0360746705285417e-02, 1.6235745065095532e-02, 1.5840557224455615e-02,
      3.4849040609362460e-02},
     {2.7289258557377227e-05, 1.0364446640837285e-05, 1.6154798287166471e-05, 1.5750704994480102e-05,
      3.4177666183390531e-05}},
    {"W",
     36,
     400,
     0.0015,
     {0.1893253733584e-02, 0.1717075447775e-03, 0.2778153350936e-03, 0.2887475409984e-03, 0.3143611161242e-02},
     {0.7542088599534e-04, 0.6512852253086e-05, 0.1049092285688e-04, 0.1128838671535e-04, 0.1212845639773e-03}},
    {"A",
     64,
     400,
     0.0015,
     {2.4799822399300195e0, 1.1276337964368832e0, 1.5028977888770491e0, 1.4217816211695179e0, 2.1292113035138280e0},
     {1.0900140297820550e-04, 3.7343951769282091e-05, 5.0092785406541633e-05, 4.7671093939528255e-05,
      1.3621613399213001e-04}},
    {"B",
     102,
     400,
     0.001,
     {0.6903293579998e+02, 0.3095134488084e+02, 0.4103336647017e+02, 0.3864769009604e+02, 0.5643482272596e+02},
     {0.9810006190188e-02, 0.1022827905670e-02, 0.1720597911692e-02, 0.1694479428231e-02, 0.1847456263981e-01}},
    {"C",
     162,
     400,
     0.00067,
     {0.5881691581829e+03, 0.2454417603569e+03, 0.3293829191851e+03, 0.3081924971891e+03, 0.4597223799176e+03},
     {0.2598120500183e+00, 0.2590888922315e-01, 0.5132886416320e-01, 0.4806073419454e-01, 0.5483377491301e+00}},
    {"D",
     408,
     500,
     0.0003,
     {0.1044696216887e+05, 0.3204427762578e+04, 0.4648680733032e+04, 0.4238923283697e+04, 0.7588412036136e+04},
     {0.5089471423669e+01, 0.5323514855894e+00, 0.1187051008971e+01, 0.1083734951938e+01, 0.1164108338568e+02}},
};

#define CLASSES (sizeof classes / sizeof classes[0])

/* What the solves need beside the grid. */
static struct {
  ptrdiff_t pitch;                  /* words between rows of one component in the work arrays */
  double* fourth;                   /* [global index][5]: dt times the dissipation of a row */
  double* bands;                    /* of every cell but the last along a direction: [stage][plane][row][band][line] */
  double *lines, *beside;           /* a plane of x lines: [row][component][line], right-hand sides and values */
  double *forward[2], *backward[2]; /* messages: to send, received */
} work;

/* A plane of lines of a cell along one direction. Row q of line t of component m is r[q * row + m * component + t]. */
struct plane {
  int direction;          /* 0, 1, 2 */
  int first, last, width; /* rows that are solved; number of lines */
  double* r;
  ptrdiff_t row, component;
  const double *inverse, *velocity, *speed; /* of row 0: 1 / density, along the direction, of sound */
  ptrdiff_t beside;                         /* words between rows of these */
  double* bands;                            /* [row + 2][band][line]: what elimination leaves above the diagonal */
  const double* fourth;                     /* of row 0: [row][5] */
};

static size_t words_of_bands(const struct grid* grid) {
  return (size_t)((grid->most + 2) * BANDS) * (size_t)work.pitch;
}

static void prepare(const struct grid* grid) {
  size_t most = (size_t)grid->most, side = (size_t)grid->side;
  work.pitch = (grid->most + 7) / 8 * 8 + 8;
  size_t pitch = (size_t)work.pitch;
  work.fourth = app_allocate((size_t)grid->n * 5, sizeof(double));
  for (int q = 0; q < grid->n; ++q) {
    double fourth[5];
    grid_fourth_difference(grid->n, q, fourth);
    for (int s = 0; s < 5; ++s) work.fourth[q * 5 + s] = grid->dt * FLOW_DISSIPATION * fourth[s];
  }
  work.bands = app_allocate(((side - 1) * most + 1) * words_of_bands(grid), sizeof(double));
  work.lines = app_allocate((most + 4) * FLOW_UNKNOWNS * pitch, sizeof(double));
  work.beside = app_allocate((most + 2) * 3 * pitch, sizeof(double));
  for (int b = 0; b < 2 && side > 1; ++b) {
    work.forward[b] = app_allocate(most * most * FORWARD, sizeof(double));
    work.backward[b] = app_allocate(most * most * BACKWARD, sizeof(double));
  }
}

/* What `prepare` allocates. */
static double memory_bytes(const char* problem, int ranks) {
  int n = flow_find(classes, CLASSES, problem)->n, side = grid_side(ranks);
  double most = grid_most(n, side), pitch = most + 15;
  double words = 5.0 * n + ((side - 1) * most + 1) * (most + 2) * BANDS * pitch + (most + 4) * FLOW_UNKNOWNS * pitch +
                 (most + 2) * 3 * pitch + (side > 1 ? 2 * most * most * (FORWARD + BACKWARD) : 0);
  return grid_memory(n, ranks) + 8 * words + 512;
}

/* The first change of variables, at the inner points of plane k, right after their residual. */
static void change_first(const struct grid* grid, const struct cell* cell, int k) {
  const double root = sqrt(0.5);
  const ptrdiff_t row = grid->row;
  const int from = cell->first[0], to = cell->last[0];
  for (int j = cell->first[1]; j < cell->last[1]; ++j) {
    double* restrict r = cell->r + grid_at(grid, FLOW_UNKNOWNS, k, j);
    const double* restrict v = cell->values + grid_at(grid, VALUES, k, j);
#pragma GCC ivdep
    for (int i = from; i < to; ++i) {
      double inverse = v[VALUE_INVERSE * row + i], a = v[VALUE_SPEED * row + i];
      double x = v[1 * row + i], y = v[2 * row + i], z = v[3 * row + i], q = 0.5 * (x * x + y * y + z * z);
      double r1 = r[i], r2 = r[row + i], r3 = r[2 * row + i], r4 = r[3 * row + i], r5 = r[4 * row + i];
      double t1 = FLOW_C2 / (a * a) * (q * r1 - x * r2 - y * r3 - z * r4 + r5);
      double t2 = root * inverse * (x * r1 - r2), t3 = root * inverse * a * t1;
      r[i] = r1 - t1;
      r[row + i] = (r4 - z * r1) * inverse;
      r[2 * row + i] = (y * r1 - r3) * inverse;
      r[3 * row + i] = t3 - t2;
      r[4 * row + i] = t3 + t2;
    }
  }
}

/* Changes of variables after the solves along x and y, for a plane of lines. */
FLOW_INLINE void change_between(const struct plane* p, int direction) {
  const double root = sqrt(0.5);
  const ptrdiff_t component = p->component;
  for (int q = p->first; q < p->last; ++q) {
    double* restrict r = p->r + q * p->row;
    for (int t = 0; t < p->width; ++t) {
      double r1 = r[t], r2 = r[component + t], r3 = r[2 * component + t];
      double r4 = r[3 * component + t], r5 = r[4 * component + t];
      double difference = root * (r4 - r5), mean = 0.5 * (r4 + r5);
      if (direction == 0) {
        r[t] = -r2;
        r[component + t] = r1;
        r[2 * component + t] = difference;
        r[3 * component + t] = mean - root * r3;
        r[4 * component + t] = mean + root * r3;
      } else {
        r[t] = difference;
        r[component + t] = -r3;
        r[2 * component + t] = r2;
        r[3 * component + t] = mean - root * r1;
        r[4 * component + t] = mean + root * r1;
      }
    }
  }
}

/* The last change of variables, after the solve along z, and the step itself: U += r. For the points of row j. */
static void change_last(const struct grid* grid, const struct cell* cell, int j) {
  const double root = sqrt(0.5);
  const ptrdiff_t row = grid->row;
  const int from = cell->first[0], to = cell->last[0];
  for (int k = cell->first[2]; k < cell->last[2]; ++k) {
    const double* restrict r = cell->r + grid_at(grid, FLOW_UNKNOWNS, k, j);
    const double* restrict v = cell->values + grid_at(grid, VALUES, k, j);
    double* restrict u = cell->u + grid_at(grid, FLOW_UNKNOWNS, k, j);
#pragma GCC ivdep
    for (int i = from; i < to; ++i) {
      double density = u[i], a = v[VALUE_SPEED * row + i];
      double x = v[1 * row + i], y = v[2 * row + i], z = v[3 * row + i], q = 0.5 * (x * x + y * y + z * z);
      double r1 = r[i], r2 = r[row + i], r3 = r[2 * row + i], r4 = r[3 * row + i], r5 = r[4 * row + i];
      double t1 = root * density / a * (r4 + r5), t2 = r3 + t1, t3 = root * density * (r4 - r5);
      u[i] += t2;
      u[row + i] += x * t2 - density * r2;
      u[2 * row + i] += density * r1 + y * t2;
      u[3 * row + i] += z * t2 + t3;
      u[4 * row + i] += density * (y * r1 - x * r2) + q * t2 + 2.5 * (a * a) * t1 + z * t3;
    }
  }
}

/* Eliminates row q for the unknowns m of `from` <= m < `to`, which share a pair of bands and move at the velocity plus
 * `sign` times the speed of sound. The diffusion is that of the energy, c1 c5 kappa / density, the largest of all. */
FLOW_INLINE void eliminate_row(const struct grid* grid, const struct plane* p, int q, int pair, int sign, int from,
                               int to) {
  const double* fourth = p->fourth + q * 5;
  const double convective = grid->dt * grid->t2, diffusive = grid->dt * grid->t1;
  const double constant = diffusive * flow_diffusion(p->direction + 1), slope = diffusive * FLOW_C1C5 * FLOW_KAPPA;
  const double lowest = fourth[0], lower = fourth[1] - constant, middle = 1 + fourth[2] + 2 * constant;
  const double upper = fourth[3] - constant, highest = fourth[4];
  const ptrdiff_t beside = p->beside, component = p->component, pitch = work.pitch, width = p->width;
  const double *inverse = p->inverse + q * beside, *velocity = p->velocity + q * beside;
  const double* speed = p->speed + q * beside;
  double *near0 = p->bands + (q + 2) * BANDS * pitch + 2 * pair * pitch, *far0 = near0 + pitch;
  const double *near1 = near0 - BANDS * pitch, *far1 = far0 - BANDS * pitch;
  const double *near2 = near1 - BANDS * pitch, *far2 = far1 - BANDS * pitch;
  double *r0 = p->r + q * p->row, *r1 = r0 - p->row, *r2 = r1 - p->row;
#pragma GCC ivdep
  for (ptrdiff_t t = 0; t < width; ++t) {
    double before = velocity[t - beside], behind = velocity[t + beside];
    if (sign != 0) {
      before += sign * speed[t - beside];
      behind += sign * speed[t + beside];
    }
    double below = lower - slope * inverse[t - beside] - convective * before - lowest * near2[t];
    double diagonal = middle + 2 * slope * inverse[t] - lowest * far2[t] - below * near1[t];
    double above = upper - slope * inverse[t + beside] + convective * behind - below * far1[t];
    double scale = 1 / diagonal;
    near0[t] = above * scale;
    far0[t] = highest * scale;
    for (int m = from; m < to; ++m) {
      ptrdiff_t at = m * component + t;
      r0[at] = (r0[at] - lowest * r2[at] - below * r1[at]) * scale;
    }
  }
}

static void eliminate(const struct grid* grid, const struct plane* p) {
  for (int q = p->first; q < p->last; ++q) {
    eliminate_row(grid, p, q, 0, 0, 0, 3);
    eliminate_row(grid, p, q, 1, 1, 3, 4);
    eliminate_row(grid, p, q, 2, -1, 4, 5);
  }
}

static void substitute(const struct plane* p) {
  const ptrdiff_t component = p->component, pitch = work.pitch, width = p->width, row = p->row;
  for (int q = p->last - 1; q >= p->first; --q) {
    for (int m = 0; m < FLOW_UNKNOWNS; ++m) {
      const double* near = p->bands + (q + 2) * BANDS * pitch + (m < 3 ? 0 : m - 2) * 2 * pitch;
      const double* far = near + pitch;
      double* r = p->r + q * row + m * component;
#pragma GCC ivdep
      for (ptrdiff_t t = 0; t < width; ++t) r[t] -= near[t] * r[t + row] + far[t] * r[t + 2 * row];
    }
  }
}

/* Copies `count` rows of a plane from row q on, right-hand sides and (`bands`) bands too, to a message or back; without
 * a message the rows become zero. Returns the rest of the message. */
static double* copy_rows(const struct plane* p, int q, int bands, double* message, int back) {
  size_t bytes = (size_t)p->width * sizeof(double);
  for (int e = 0; e < 2; ++e) {
    for (int m = bands ? -BANDS : 0; m < FLOW_UNKNOWNS; ++m) {
      double* row = m < 0 ? p->bands + (q + e + 2) * BANDS * work.pitch + (m + BANDS) * work.pitch
                          : p->r + (q + e) * p->row + m * p->component;
      if (message == NULL) {
        memset(row, 0, bytes);
        continue;
      }
      if (back) {
        memcpy(row, message, bytes);
      } else {
        memcpy(message, row, bytes);
      }
      message += p->width;
    }
  }
  return message;
}

/* Transposes a plane of x lines: component by component, rows [first, last) of all lines. `field` points at row 0 of
 * line 0; its lines are `line` words apart. `turned` is [row][component][line] with so many components. */
FLOW_INLINE void turn(double* field, ptrdiff_t line, double* turned, int components, int component, int first, int last,
                      int width, int back) {
  const ptrdiff_t pitch = work.pitch;
  turned += component * pitch;
  int t = 0;
  for (; t + 4 <= width; t += 4) {
    for (int q = first; q < last; ++q) {
      double *a = field + t * line + q, *b = turned + q * components * pitch + t;
      for (int lane = 0; lane < 4; ++lane) {
        if (back) {
          a[lane * line] = b[lane];
        } else {
          b[lane] = a[lane * line];
        }
      }
    }
  }
  for (; t < width; ++t) {
    for (int q = first; q < last; ++q) {
      double *a = field + t * line + q, *b = turned + q * components * pitch + t;
      if (back) {
        *a = *b;
      } else {
        *b = *a;
      }
    }
  }
}

/* Right-hand sides of the x lines of plane k to the work array or back. */
static void turn_lines(const struct grid* grid, const struct cell* cell, const struct plane* p, int k, int back) {
  double* r = cell->r + grid_at(grid, FLOW_UNKNOWNS, k, cell->first[1]);
  for (int m = 0; m < FLOW_UNKNOWNS; ++m)
    turn(r + m * grid->row, FLOW_UNKNOWNS * grid->row, p->r, FLOW_UNKNOWNS, m, p->first, p->last, p->width, back);
}

/* The lines along direction d of plane `outer` of a cell: k for x and y, j for z. */
static struct plane lines_of(const struct grid* grid, const struct cell* cell, int d, int stage, int outer) {
  const int across = d == 0 ? 1 : 0; /* direction across the lines of a plane */
  struct plane p = {.direction = d, .first = cell->first[d], .last = cell->last[d]};
  p.width = cell->last[across] - cell->first[across];
  p.fourth = work.fourth + cell->start[d] * 5;
  p.bands = work.bands; /* the last cell is solved plane by plane and needs its bands no longer than that */
  if (stage < grid->side - 1) p.bands += (size_t)(1 + stage * grid->most + outer) * words_of_bands(grid);
  if (d == 0) {
    p.row = FLOW_UNKNOWNS * work.pitch;
    p.component = work.pitch;
    p.r = work.lines + 2 * p.row;
    p.beside = 3 * work.pitch;
    p.inverse = work.beside + p.beside;
    p.velocity = p.inverse + work.pitch;
    p.speed = p.velocity + work.pitch;
  } else {
    ptrdiff_t words = d == 1 ? grid->row : grid->plane;
    int k = d == 1 ? outer : 0, j = d == 1 ? 0 : outer;
    const double* values = cell->values + grid_at(grid, VALUES, k, j) + cell->first[0];
    p.row = FLOW_UNKNOWNS * words;
    p.component = grid->row;
    p.r = cell->r + grid_at(grid, FLOW_UNKNOWNS, k, j) + cell->first[0];
    p.beside = VALUES * words;
    p.inverse = values + VALUE_INVERSE * grid->row;
    p.velocity = values + (d + 1) * grid->row;
    p.speed = values + VALUE_SPEED * grid->row;
  }
  return p;
}

/* Substitutes a plane, whose elimination is done, and changes its variables; returns the rest of the message out. */
static double* finish(const struct grid* grid, const struct cell* cell, const struct plane* p, int outer, double* out) {
  substitute(p);
  if (out != NULL) out = copy_rows(p, p->first, 0, out, 0);
  if (p->direction == 0) {
    change_between(p, 0);
    turn_lines(grid, cell, p, outer, 1);
  } else if (p->direction == 1) {
    change_between(p, 1);
  } else {
    change_last(grid, cell, outer);
  }
  return out;
}

/* Words of a message for the lines along d of a cell. */
static int face_words(const struct cell* cell, int d, int words) {
  int a = (d + 1) % 3, b = (d + 2) % 3;
  return (cell->last[a] - cell->first[a]) * (cell->last[b] - cell->first[b]) * words;
}

static void solve(const struct grid* grid, int d) {
  const int side = grid->side, *slice = grid->slice + d * side, out_of_plane = d == 2 ? 1 : 2;
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}; /* of the receive and of the send before it */
  MPI_Status statuses[2];
  for (int stage = 0; stage < side; ++stage) {
    const struct cell* cell = &grid->cells[slice[stage]];
    const int ends = stage == side - 1;
    if (stage > 0) {
      MPI_Irecv(work.forward[1], face_words(cell, d, FORWARD), MPI_DOUBLE, grid->neighbour[d][0], 2 * d,
                grid->solve_group, &requests[0]);
      MPI_Waitall(2, requests, statuses);
    }
    double *in = stage > 0 ? work.forward[1] : NULL, *out = work.forward[0];
    double* back = side > 1 ? work.backward[0] : NULL;
    for (int outer = cell->first[out_of_plane]; outer < cell->last[out_of_plane]; ++outer) {
      struct plane p = lines_of(grid, cell, d, stage, outer);
      if (d == 0) {
        double* values = cell->values + grid_at(grid, VALUES, outer, cell->first[1]);
        const int kept[3] = {VALUE_INVERSE, VALUE_VELOCITY, VALUE_SPEED};
        for (int m = 0; m < 3; ++m) {
          turn(values + kept[m] * grid->row, VALUES * grid->row, work.beside + 3 * work.pitch, 3, m, p.first - 1,
               p.last + 1, p.width, 0);
        }
        turn_lines(grid, cell, &p, outer, 0);
      }
      in = copy_rows(&p, p.first - 2, 1, in, 1);
      eliminate(grid, &p);
      if (ends) {
        copy_rows(&p, p.last, 0, NULL, 1);
        back = finish(grid, cell, &p, outer, back);
      } else {
        out = copy_rows(&p, p.last - 2, 1, out, 0);
        if (d == 0) turn_lines(grid, cell, &p, outer, 1);
      }
    }
    if (!ends) {
      MPI_Isend(work.forward[0], face_words(cell, d, FORWARD), MPI_DOUBLE, grid->neighbour[d][1], 2 * d,
                grid->solve_group, &requests[1]);
    }
  }
  for (int stage = side - 1; stage >= 0; --stage) {
    const struct cell* cell = &grid->cells[slice[stage]];
    if (stage < side - 1) {
      MPI_Irecv(work.backward[1], face_words(cell, d, BACKWARD), MPI_DOUBLE, grid->neighbour[d][1], 2 * d + 1,
                grid->solve_group, &requests[0]);
      MPI_Waitall(2, requests, statuses);
      double *in = work.backward[1], *out = stage > 0 ? work.backward[0] : NULL;
      for (int outer = cell->first[out_of_plane]; outer < cell->last[out_of_plane]; ++outer) {
        struct plane p = lines_of(grid, cell, d, stage, outer);
        if (d == 0) turn_lines(grid, cell, &p, outer, 0);
        in = copy_rows(&p, p.last, 0, in, 1);
        out = finish(grid, cell, &p, outer, out);
      }
    }
    if (stage > 0) {
      MPI_Isend(work.backward[0], face_words(cell, d, BACKWARD), MPI_DOUBLE, grid->neighbour[d][0], 2 * d + 1,
                grid->solve_group, &requests[1]);
    }
  }
}

static void step(const struct grid* grid) {
  grid_exchange(grid);
  for (int c = 0; c < grid->side; ++c) {
    const struct cell* cell = &grid->cells[c];
    for (int k = cell->first[2] - 1; k <= cell->first[2]; ++k) grid_values(grid, cell, k);
    for (int k = cell->first[2]; k < cell->last[2]; ++k) {
      grid_values(grid, cell, k + 1);
      grid_residual_plane(grid, cell, k, grid->dt);
      change_first(grid, cell, k);
    }
  }
  for (int d = 0; d < 3; ++d) solve(grid, d);
}

static int fits(const char* problem, int ranks, char* why, size_t room) {
  return grid_fits(flow_find(classes, CLASSES, problem)->n, ranks, why, room);
}

static const struct application application = {"SP", "floating point", "S W A B C D", "", fits, memory_bytes};

int main(int argc, char** argv) {
  app_begin(&application, argc, argv);
  const struct flow_class* own = flow_find(classes, CLASSES, app.problem);
  int parameters[2] = {own->steps, 1};
  const double operations[4] = {881.174, -4683.91, 11484.5, -19272.4};
  return grid_run(own, parameters, 2, prepare, step, operations);
}
