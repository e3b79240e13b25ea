/* SPDX-License-Identifier: Apache-2.0
 *
 * In short: multigrid, neighbours near and far
 * Ranks: a power of two
 * Classes: S W A B C D
 *
 * MG of the NAS parallel benchmarks: V-cycles of a multigrid solver for A u = v on a periodic cube of n = 2^L points a
 * side, with levels L .. 1 of 2^level points a side. All operators reach the 27 nearest points and have one weight for
 * the centre, the 6 faces, the 12 edges and the 8 corners.
 *
 * Decomposition: px * py * pz blocks, px <= py <= pz powers of two; rank = ix + px (iy + py iz). A local field has one
 * ghost layer on each side. Point c of a coarse level lies on point 2c + 1 of the next finer one. A level with fewer
 * points than ranks on an axis keeps only the ranks whose point is still there; the others are idle on it.
 *
 * Messages: after each operator, for axis 1, 2, 3 in turn, two Irecv and two Send with the neighbours' ghost layers,
 * also where the neighbour is the rank itself. On the way up, ranks that were idle get their whole block from both
 * sides: two layers from below and one from above. Receives are posted with the size of the whole buffer.
 */
#include "app.h"
#include "random.h"

#define MG_LEVELS 10 /* of class D */
#define MG_ROW ((1 << MG_LEVELS) + 2)
#define MG_CHARGES 10 /* points with +1 in the right-hand side, and as many with -1 */

static const struct mg_class {
  const char* name;
  int level, iterations, strong; /* strong: the smoother of the larger classes */
  double norm;                   /* root mean square of the last residual, published */
} mg_classes[] = {
    {"S", 5, 4, 0, 0.5307707005734e-04},  {"W", 7, 4, 0, 0.6467329375339e-05},  {"A", 8, 4, 0, 0.2433365309069e-05},
    {"B", 8, 20, 1, 0.1800564401355e-05}, {"C", 9, 20, 1, 0.5706732285740e-06}, {"D", 10, 50, 1, 0.1583275060440e-09},
};

/* What this rank does when a finer level takes its idle ranks back. */
enum mg_wake { MG_NOTHING, MG_GIVE, MG_TAKE };

/* One level as this rank sees it. Arrays of three are axis x, y, z. */
struct mg_level {
  int active;           /* whether this rank has points here */
  int n[3];             /* its own points */
  size_t m[3];          /* with ghosts: n + 2; a field is m[2] planes of m[1] rows of m[0] doubles */
  size_t offset;        /* doubles, of this level in u and r */
  int peer[3][2];       /* rank of the neighbour below and above */
  int halved[3];        /* whether the next coarser level has half the points here, and not the same single one */
  enum mg_wake wake[3]; /* when u comes up to this level */
};

/* The state of a run. */
static struct {
  int top, bottom;   /* finest level, and the coarsest on which this rank is active */
  int parts[3];      /* px, py, pz */
  int at[3];         /* of this rank */
  size_t capacity;   /* doubles of each buffer */
  double* buffer[4]; /* received from below, from above; to be sent up, down */
  double weights[4]; /* of the smoother */
  double *u, *r, *v; /* u and r on all levels, v on the finest */
  struct mg_level levels[MG_LEVELS + 1];
} mg;

static const struct mg_class* mg_find(const char* problem) {
  for (size_t i = 0; i < sizeof mg_classes / sizeof *mg_classes; ++i)
    if (strcmp(mg_classes[i].name, problem) == 0) return &mg_classes[i];
  return &mg_classes[0];
}

/* The exponents of px, py, pz for 2^exponent ranks. */
static void mg_split(int exponent, int parts[3]) {
  parts[0] = exponent / 3;
  parts[1] = (exponent - parts[0]) / 2;
  parts[2] = exponent - parts[0] - parts[1];
}

static int mg_exponent(int ranks) {
  int exponent = 0;
  while ((2 << exponent) <= ranks && exponent < 30) exponent++;
  return exponent;
}

static int mg_fits(const char* problem, int ranks, char* why, size_t room) {
  int most = 3 * mg_find(problem)->level, exponent = mg_exponent(ranks);
  if (1 << exponent == ranks && exponent <= most) return 1;
  snprintf(why, room, "the number of ranks must be a power of two and at most 2^%d", most);
  return 0;
}

/* Doubles of a buffer: two layers of the largest face. */
static size_t mg_capacity(int level, int exponent) {
  size_t side = ((size_t)1 << (level - exponent / 3)) + 2;
  return 2 * side * side;
}

static double mg_memory(const char* problem, int ranks) {
  int level = mg_find(problem)->level, parts[3];
  mg_split(mg_exponent(ranks), parts);
  double doubles = 4.0 * (double)mg_capacity(level, mg_exponent(ranks));
  for (int k = 1; k <= level; ++k) {
    double field = 1;
    for (int a = 0; a < 3; ++a) field *= (double)(1 << (k > parts[a] ? k - parts[a] : 0)) + 2;
    doubles += (k == level ? 3 : 2) * field;
  }
  return 8 * doubles + 4 * 64;
}

static const struct application mg_application = {
    .name = "MG",
    .operations = "floating point",
    .classes = "S W A B C D",
    .options = "",
    .fits = mg_fits,
    .memory_bytes = mg_memory,
};

/* ---- the levels ---- */

/* How many ranks of an axis share one point of level k; 1 if each has its own. */
static int mg_stride(int k, int parts) { return parts >> k > 1 ? parts >> k : 1; }

static int mg_rank_of(const int at[3]) { return at[0] + mg.parts[0] * (at[1] + mg.parts[1] * at[2]); }

/* Fills `levels` and returns the doubles of a field on all levels. */
static size_t mg_set_levels(void) {
  size_t doubles = 0;
  mg.bottom = mg.top;
  for (int k = mg.top; k >= 1; --k) {
    struct mg_level* g = &mg.levels[k];
    g->active = 1;
    for (int a = 0; a < 3; ++a) {
      int stride = mg_stride(k, mg.parts[a]);
      g->n[a] = (1 << k) > mg.parts[a] ? (1 << k) / mg.parts[a] : 1;
      g->m[a] = (size_t)g->n[a] + 2;
      g->halved[a] = g->n[a] > 1;
      g->active = g->active && (mg.at[a] + 1) % stride == 0;
      for (int side = 0; side < 2; ++side) {
        int at[3] = {mg.at[0], mg.at[1], mg.at[2]};
        at[a] = (at[a] + (side ? stride : mg.parts[a] - stride)) % mg.parts[a];
        g->peer[a][side] = mg_rank_of(at);
      }
    }
    g->offset = doubles;
    doubles += g->m[0] * g->m[1] * g->m[2];
    if (g->active) mg.bottom = k;
    /* A rank that is idle below on several axes is woken on the last of them, by one that was woken before it. */
    int awake = 1;
    for (int a = 2; a >= 0; --a) {
      int stride = mg_stride(k, mg.parts[a]), coarse = mg_stride(k - 1, mg.parts[a]);
      int stays = (mg.at[a] + 1) % coarse == 0;
      g->wake[a] = MG_NOTHING;
      if (k > 1 && g->active && awake && coarse > stride) g->wake[a] = stays ? MG_GIVE : MG_TAKE;
      awake = awake && stays;
    }
  }
  return doubles;
}

/* ---- messages ---- */

/* Copies one layer of a field to a buffer, or from it if `back`; returns its doubles. `full`: with the ghosts of the
 * other axes; otherwise with those of the axes before this one only. */
static size_t mg_layer(const struct mg_level* g, double* restrict field, int axis, int index, int full, int back,
                       double* restrict buffer) {
  size_t row = g->m[0], rows = g->m[1], at = (size_t)index;
  size_t first = full ? 0 : 1, last_j = rows - first, last_k = g->m[2] - first, count = 0;
  if (axis == 2) {
    double* plane = field + at * row * rows;
    count = row * rows;
    memcpy(back ? plane : buffer, back ? buffer : plane, count * sizeof *field);
  } else if (axis == 1) {
    for (size_t k = first; k < last_k; ++k, count += row) {
      double* line = field + (k * rows + at) * row;
      memcpy(back ? line : buffer + count, back ? buffer + count : line, row * sizeof *field);
    }
  } else {
    for (size_t k = first; k < last_k; ++k) {
      double* point = field + (k * rows + first) * row + at;
      if (back) {
        for (size_t j = first; j < last_j; ++j, point += row) *point = buffer[count++];
      } else {
        for (size_t j = first; j < last_j; ++j, point += row) buffer[count++] = *point;
      }
    }
  }
  return count;
}

/* Posts the receives from below and above. Tags say the axis and the direction of travel. */
static void mg_post(const struct mg_level* g, int axis, MPI_Request requests[2]) {
  for (int side = 0; side < 2; ++side) {
    MPI_Irecv(mg.buffer[side], (int)mg.capacity, MPI_DOUBLE, g->peer[axis][side], 2 * axis + side, MPI_COMM_WORLD,
              &requests[side]);
  }
}

/* Sends a buffer of so many doubles up (side 1) or down (side 0). */
static void mg_send(const struct mg_level* g, int axis, int side, size_t count) {
  MPI_Send(mg.buffer[3 - side], (int)count, MPI_DOUBLE, g->peer[axis][side], 2 * axis + 1 - side, MPI_COMM_WORLD);
}

/* Fills the ghost layers of a field from the neighbours. */
static void mg_exchange(const struct mg_level* g, double* field) {
  for (int axis = 0; axis < 3; ++axis) {
    int n = g->n[axis];
    if (app.ranks == 1) {
      mg_layer(g, field, axis, n, 0, 0, mg.buffer[0]);
      mg_layer(g, field, axis, 0, 0, 1, mg.buffer[0]);
      mg_layer(g, field, axis, 1, 0, 0, mg.buffer[1]);
      mg_layer(g, field, axis, n + 1, 0, 1, mg.buffer[1]);
      continue;
    }
    MPI_Request requests[2];
    mg_post(g, axis, requests);
    mg_send(g, axis, 1, mg_layer(g, field, axis, n, 0, 0, mg.buffer[2]));
    mg_send(g, axis, 0, mg_layer(g, field, axis, 1, 0, 0, mg.buffer[3]));
    for (int side = 0; side < 2; ++side) {
      MPI_Wait(&requests[side], MPI_STATUS_IGNORE);
      mg_layer(g, field, axis, side ? n + 1 : 0, 0, 1, mg.buffer[side]);
    }
  }
}

/* Gives u to the ranks that were idle on the next coarser level. Such an axis has one point a rank: a rank that was
 * active knows its own layer and both ghosts, so that the one above it lacks nothing but its upper ghost layer. */
static void mg_wake_up(const struct mg_level* g, double* u) {
  for (int axis = 0; axis < 3; ++axis) {
    if (g->wake[axis] == MG_TAKE) {
      MPI_Request requests[2];
      mg_post(g, axis, requests);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
      size_t count = mg_layer(g, u, axis, 0, 1, 1, mg.buffer[0]);
      mg_layer(g, u, axis, 1, 1, 1, mg.buffer[0] + count);
      MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
      mg_layer(g, u, axis, 2, 1, 1, mg.buffer[1]);
    } else if (g->wake[axis] == MG_GIVE) {
      size_t count = mg_layer(g, u, axis, 1, 1, 0, mg.buffer[2]);
      mg_send(g, axis, 1, count + mg_layer(g, u, axis, 2, 1, 0, mg.buffer[2] + count));
      mg_send(g, axis, 0, mg_layer(g, u, axis, 1, 1, 0, mg.buffer[3]));
    }
  }
}

/* ---- operators ---- */

/* For a row of a field: the sums over the four rows beside it (`near`) and the four diagonal to it (`far`). */
static inline void mg_row_sums(const double* restrict row, size_t length, size_t plane, double* restrict near,
                               double* restrict far) {
  const double *below = row - plane, *above = row + plane;
  for (size_t i = 0; i < length; ++i) {
    near[i] = row[i - length] + row[i + length] + below[i] + above[i];
    far[i] = below[i - length] + below[i + length] + above[i - length] + above[i + length];
  }
}

/* r = v - A u on the own points; v and r may be the same field. The weight of A for the faces is zero. */
static void mg_residual(const struct mg_level* g, const double* restrict u, const double* v, double* r) {
  const double centre = -8.0 / 3.0, edge = 1.0 / 6.0, corner = 1.0 / 12.0;
  const size_t length = g->m[0], plane = length * g->m[1];
  double near[MG_ROW], far[MG_ROW];
  for (int k = 1; k <= g->n[2]; ++k) {
    for (int j = 1; j <= g->n[1]; ++j) {
      const size_t at = (size_t)k * plane + (size_t)j * length;
      const double* restrict row = u + at, *right = v + at;
      double* out = r + at;
      mg_row_sums(row, length, plane, near, far);
#pragma GCC ivdep
      for (size_t i = 1; i < length - 1; ++i) {
        out[i] = right[i] - centre * row[i] - edge * (far[i] + near[i - 1] + near[i + 1]) -
                 corner * (far[i - 1] + far[i + 1]);
      }
    }
  }
}

/* u += S r on the own points. The weight of S for the corners is zero. */
static void mg_smooth(const struct mg_level* g, const double* restrict r, double* restrict u) {
  const double centre = mg.weights[0], face = mg.weights[1], edge = mg.weights[2];
  const size_t length = g->m[0], plane = length * g->m[1];
  double near[MG_ROW], far[MG_ROW];
  for (int k = 1; k <= g->n[2]; ++k) {
    for (int j = 1; j <= g->n[1]; ++j) {
      const size_t at = (size_t)k * plane + (size_t)j * length;
      const double* restrict row = r + at;
      double* restrict out = u + at;
      mg_row_sums(row, length, plane, near, far);
      for (size_t i = 1; i < length - 1; ++i) {
        out[i] +=
            centre * row[i] + face * (row[i - 1] + row[i + 1] + near[i]) + edge * (far[i] + near[i - 1] + near[i + 1]);
      }
    }
  }
}

/* The restriction of `fine`, with weights 1/2, 1/4, 1/8, 1/16, on the own points of the coarse level. As the weights
 * are products of 1/2 and 1 over the axes, a row is summed over y and z first. */
static void mg_restrict(const struct mg_level* f, const double* restrict fine, const struct mg_level* c,
                        double* restrict coarse) {
  const size_t length = f->m[0], plane = length * f->m[1];
  const size_t step_x = f->halved[0] ? 2 : 1, step_y = f->halved[1] ? 2 : 1, step_z = f->halved[2] ? 2 : 1;
  double near[MG_ROW], far[MG_ROW], sum[MG_ROW];
  for (size_t k = 1; k <= (size_t)c->n[2]; ++k) {
    for (size_t j = 1; j <= (size_t)c->n[1]; ++j) {
      const double* restrict row = fine + step_z * k * plane + step_y * j * length;
      double* restrict out = coarse + (k * c->m[1] + j) * c->m[0];
      mg_row_sums(row, length, plane, near, far);
      for (size_t i = 0; i < length; ++i) sum[i] = 0.5 * row[i] + 0.25 * near[i] + 0.125 * far[i];
      if (step_x == 2) {
        for (size_t i = 1; i < c->m[0] - 1; ++i) out[i] = sum[2 * i] + 0.5 * (sum[2 * i - 1] + sum[2 * i + 1]);
      } else {
        out[1] = sum[1] + 0.5 * (sum[0] + sum[2]);
      }
    }
  }
}

/* The two coarse indices whose mean a fine index takes; the same one twice if it lies on a coarse point. */
static inline void mg_parents(size_t index, int halved, size_t* low, size_t* high) {
  *low = halved ? index / 2 : index > 0;                  /* a single point: 0, 1, 1 */
  *high = halved ? (index + 1) / 2 : (index > 1 ? 2 : 1); /* and 1, 1, 2 */
}

/* The prolongation of `coarse` is added to `fine`, or put there, on all points and the ghosts. */
static inline void mg_prolong(const struct mg_level* c, const double* restrict coarse, const struct mg_level* f,
                              double* restrict fine, const int add) {
  const size_t length = c->m[0];
  double sum[MG_ROW];
  for (size_t k = 0; k < f->m[2]; ++k) {
    for (size_t j = 0; j < f->m[1]; ++j) {
      size_t j_low, j_high, k_low, k_high;
      mg_parents(j, f->halved[1], &j_low, &j_high);
      mg_parents(k, f->halved[2], &k_low, &k_high);
      const double* restrict a = coarse + (k_low * c->m[1] + j_low) * length;
      const double* restrict b = coarse + (k_low * c->m[1] + j_high) * length;
      const double* restrict d = coarse + (k_high * c->m[1] + j_low) * length;
      const double* restrict e = coarse + (k_high * c->m[1] + j_high) * length;
      double* restrict out = fine + (k * f->m[1] + j) * f->m[0];
      for (size_t i = 0; i < length; ++i) sum[i] = 0.25 * ((a[i] + b[i]) + (d[i] + e[i]));
      if (f->halved[0]) {
        for (size_t i = 0; i < length - 1; ++i) {
          double even = sum[i], odd = 0.5 * (sum[i] + sum[i + 1]);
          out[2 * i] = add ? out[2 * i] + even : even;
          out[2 * i + 1] = add ? out[2 * i + 1] + odd : odd;
        }
      } else {
        double values[3] = {0.5 * (sum[0] + sum[1]), sum[1], 0.5 * (sum[1] + sum[2])};
        for (size_t i = 0; i < 3; ++i) out[i] = add ? out[i] + values[i] : values[i];
      }
    }
  }
}

/* The root mean square of a field over all points of the finest level, and its largest absolute value, on every rank.
 * Each x has its own sum, so that the loop over a row has no chain of additions. */
static double mg_norm(const double* restrict field, double* largest) {
  const struct mg_level* g = &mg.levels[mg.top];
  const size_t n = (size_t)g->n[0];
  double row_sums[MG_ROW] = {0}, row_most[MG_ROW] = {0}, sum = 0, most = 0, sums = 0;
  for (int k = 1; k <= g->n[2]; ++k) {
    for (int j = 1; j <= g->n[1]; ++j) {
      const double* restrict row = field + ((size_t)k * g->m[1] + (size_t)j) * g->m[0] + 1;
      for (size_t i = 0; i < n; ++i) {
        const double size = fabs(row[i]);
        row_sums[i] += size * size;
        row_most[i] = size > row_most[i] ? size : row_most[i];
      }
    }
  }
  for (size_t i = 0; i < n; ++i) {
    sum += row_sums[i];
    most = row_most[i] > most ? row_most[i] : most;
  }
  MPI_Allreduce(&sum, &sums, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(&most, largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return sqrt(sums / pow(8, mg.top));
}

/* ---- the right-hand side ---- */

struct mg_point {
  double value;
  int at[3]; /* in the whole grid */
};

/* Puts a point into a list that is ordered by sign * value, the largest first; the last one falls out. */
static void mg_insert(struct mg_point* list, struct mg_point point, int sign) {
  int place = MG_CHARGES - 1;
  for (; place > 0 && sign * list[place - 1].value < sign * point.value; --place) list[place] = list[place - 1];
  list[place] = point;
}

/* v = +1 at the points with the largest of the random numbers, -1 at those with the smallest, 0 elsewhere. */
static void mg_right_side(int charges) {
  const struct mg_level* g = &mg.levels[mg.top];
  struct mg_point lists[2][MG_CHARGES];
  const uint64_t side = UINT64_C(1) << mg.top;
  int first[3];
  MPI_Barrier(MPI_COMM_WORLD);
  for (int a = 0; a < 3; ++a) first[a] = mg.at[a] * g->n[a];
  for (int i = 0; i < MG_CHARGES; ++i) {
    lists[0][i] = (struct mg_point){.value = -1}; /* no number is so small or so large */
    lists[1][i] = (struct mg_point){.value = 2};
  }
  for (int k = first[2]; k < first[2] + g->n[2]; ++k) {
    for (int j = first[1]; j < first[1] + g->n[1]; ++j) {
      uint64_t state = random_after(314159265, (uint64_t)first[0] + side * ((uint64_t)j + side * (uint64_t)k));
      for (int i = first[0]; i < first[0] + g->n[0]; ++i) {
        struct mg_point point = {random_next(&state), {i, j, k}};
        if (point.value > lists[0][MG_CHARGES - 1].value) mg_insert(lists[0], point, 1);
        if (point.value < lists[1][MG_CHARGES - 1].value) mg_insert(lists[1], point, -1);
      }
    }
  }
  memset(mg.v, 0, g->m[0] * g->m[1] * g->m[2] * sizeof *mg.v);
  int next[2] = {0, 0};
  for (int charge = 0; charge < charges; ++charge) {
    for (int sign = 0; sign < 2; ++sign) { /* 0: the largest, 1: the smallest */
      struct mg_point own = lists[sign][next[sign]];
      double best = own.value;
      MPI_Allreduce(&own.value, &best, 1, MPI_DOUBLE, sign ? MPI_MIN : MPI_MAX, MPI_COMM_WORLD);
      int mine[4] = {-1, -1, -1, -1}, winner[4]; /* rank and place of the point */
      if (best == own.value) {
        mine[0] = app.rank;
        memcpy(mine + 1, own.at, sizeof own.at);
      }
      MPI_Allreduce(mine, winner, 4, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
      if (winner[0] != app.rank) continue;
      size_t x = (size_t)(winner[1] - first[0]) + 1, y = (size_t)(winner[2] - first[1]) + 1;
      mg.v[x + g->m[0] * (y + g->m[1] * ((size_t)(winner[3] - first[2]) + 1))] = sign ? -1 : 1;
      next[sign] += next[sign] < MG_CHARGES - 1;
    }
  }
  mg_exchange(g, mg.v);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- the solver ---- */

/* r = v - A u on the finest level. */
static void mg_top_residual(void) {
  const struct mg_level* g = &mg.levels[mg.top];
  mg_residual(g, mg.u + g->offset, mg.v, mg.r + g->offset);
  mg_exchange(g, mg.r + g->offset);
}

/* One V-cycle: improves u by what the residual r asks for. Coarse levels of r are overwritten. */
static void mg_cycle(void) {
  for (int k = mg.top; k > mg.bottom; --k) {
    const struct mg_level *f = &mg.levels[k], *c = &mg.levels[k - 1];
    mg_restrict(f, mg.r + f->offset, c, mg.r + c->offset);
    mg_exchange(c, mg.r + c->offset);
  }
  for (int k = mg.bottom; k <= mg.top; ++k) {
    const struct mg_level *g = &mg.levels[k], *c = &mg.levels[k - 1];
    double *u = mg.u + g->offset, *r = mg.r + g->offset;
    if (k == 1) {
      memset(u, 0, g->m[0] * g->m[1] * g->m[2] * sizeof *u);
    } else {
      if (k > mg.bottom && k < mg.top) {
        mg_prolong(c, mg.u + c->offset, g, u, 0);
      } else if (k > mg.bottom) {
        mg_prolong(c, mg.u + c->offset, g, u, 1);
      }
      mg_wake_up(g, u);
      mg_residual(g, u, k == mg.top ? mg.v : r, r);
      mg_exchange(g, r);
    }
    mg_smooth(g, r, u);
    mg_exchange(g, u);
  }
}

/* u = 0 on the finest level, and the right-hand side. */
static void mg_start(int charges) {
  const struct mg_level* g = &mg.levels[mg.top];
  memset(mg.u + g->offset, 0, g->m[0] * g->m[1] * g->m[2] * sizeof *mg.u);
  mg_right_side(charges);
}

int main(int argc, char** argv) {
  app_begin(&mg_application, argc, argv);
  const struct mg_class* class = mg_find(app.problem);
  int numbers[6] = {0};
  if (app.rank == 0) {
    const double weak[4] = {-3.0 / 8, 1.0 / 32, -1.0 / 64, 0}, strong[4] = {-3.0 / 17, 1.0 / 33, -1.0 / 61, 0};
    const int values[6] = {class->level,      1 << class->level, 1 << class->level,
                           1 << class->level, class->iterations, MG_CHARGES};
    memcpy(numbers, values, sizeof numbers);
    memcpy(mg.weights, class->strong ? strong : weak, sizeof mg.weights);
  }
  for (int i = 0; i < 6; ++i) MPI_Bcast(&numbers[i], 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Bcast(mg.weights, 4, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  const int iterations = numbers[4], charges = numbers[5];
  const double points = (double)numbers[1] * numbers[2] * numbers[3];

  mg.top = numbers[0];
  mg_split(mg_exponent(app.ranks), mg.parts);
  for (int a = 0, rest = app.rank; a < 3; ++a) {
    mg.parts[a] = 1 << mg.parts[a];
    mg.at[a] = rest % mg.parts[a];
    rest /= mg.parts[a];
  }
  size_t doubles = mg_set_levels();
  const struct mg_level* finest = &mg.levels[mg.top];
  mg.u = app_allocate(doubles, sizeof *mg.u);
  mg.r = app_allocate(doubles, sizeof *mg.r);
  mg.v = app_allocate(finest->m[0] * finest->m[1] * finest->m[2], sizeof *mg.v);
  mg.capacity = mg_capacity(mg.top, mg_exponent(app.ranks));
  double* buffers = app_allocate(4 * mg.capacity, sizeof *buffers);
  for (size_t i = 0; i < 4; ++i) mg.buffer[i] = buffers + i * mg.capacity;

  /* untimed: everything once */
  double largest = 0;
  mg_start(charges);
  double norm = mg_norm(mg.v, &largest);
  app_check("sum of squares of v", norm * norm * points, 2 * charges, 1e-12);
  mg_top_residual();
  mg_norm(mg.r + finest->offset, &largest);
  mg_cycle();
  mg_top_residual();
  mg_start(charges);

  MPI_Barrier(MPI_COMM_WORLD);
  double begun = MPI_Wtime();
  mg_top_residual();
  mg_norm(mg.r + finest->offset, &largest);
  for (int i = 0; i < iterations; ++i) {
    mg_cycle();
    mg_top_residual();
  }
  norm = mg_norm(mg.r + finest->offset, &largest);
  double own = MPI_Wtime() - begun, seconds = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Reduce(&own, &seconds, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);

  app_check("rms of the residual", norm, class->norm, 1e-8);
  char size[48];
  snprintf(size, sizeof size, "%dx%dx%d", numbers[1], numbers[2], numbers[3]);
  free(mg.u);
  free(mg.r);
  free(mg.v);
  free(buffers);
  return app_end(size, iterations, seconds, 58.0 * iterations * points);
}
