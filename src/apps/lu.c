/* SPDX-License-Identifier: Apache-2.0
 *
 * In short: flow: plane sweeps, short messages
 * Ranks: a x b, b <= a <= 2 b
 * Classes: S W A B C D
 *
 * LU of the NAS parallel benchmarks: the flow problem of flow.h by symmetric successive over-relaxation, verified by
 * the residual, the error and a surface integral.
 *
 * Decomposition: pencils on px x py ranks, rank = ix + px * iy; x is split over px, y over py, z is whole.
 * North and south are the neighbours at smaller and larger x, west and east those at smaller and larger y.
 * Messages: every evaluation of the residual exchanges two layers of points with each neighbour (Irecv, Send, Wait);
 * every sweep passes, plane by plane, the edge of the plane on to the next ranks (blocking Recv and Send), so that the
 * ranks work as a pipeline over the planes.
 */
#include "flow.h"

#define OMEGA 1.2
#define WORDS FLOW_UNKNOWNS /* unknowns of a point, innermost in every array */
#define HALO 2              /* layers around the points of a rank, in all three directions */

enum { TAG_HALO = 1, TAG_SWEEP, TAG_SURFACE };

static const struct flow_class classes[] = {
    {"S",
     12,
     50,
     0.5,
     {1.6196343210976702e-02, 2.1976745164821318e-03, 1.5179927653399185e-03, 1.5029584435994323e-03,
      3.4264073155896461e-02},
     {6.4223319957960924e-04, 8.4144342047347926e-05, 5.8588269616485186e-05, 5.8474222595157350e-05,
      1.3103347914111294e-03}},
    {"W",
     33,
     300,
     1.5e-3,
     {0.1236511638192e+02, 0.1317228477799e+01, 0.2550120713095e+01, 0.2326187750252e+01, 0.2826799444189e+02},
     {0.4867877144216e+00, 0.5064652880982e-01, 0.9281818101960e-01, 0.8570126542733e-01, 0.1084277417792e+01}},
    {"A",
     64,
     250,
     2.0,
     {7.7902107606689367e+02, 6.3402765259692870e+01, 1.9499249727292479e+02, 1.7845301160418537e+02,
      1.8384760349464247e+03},
     {2.9964085685471943e+01, 2.8194576365003349e+00, 7.3473412698774742e+00, 6.7139225687777051e+00,
      7.0715315688392578e+01}},
    {"B",
     102,
     250,
     2.0,
     {3.5532672969982736e+03, 2.6214750795310692e+02, 8.8333721850952190e+02, 7.7812774739425265e+02,
      7.3087969592545314e+03},
     {1.1401176380212709e+02, 8.1098963655421574e+00, 2.8480597317698308e+01, 2.5905394567832939e+01,
      2.6054907504857413e+02}},
    {"C",
     162,
     250,
     2.0,
     {1.03766980323537846e+04, 8.92212458801008552e+02, 2.56238814582660871e+03, 2.19194343857831427e+03,
      1.78078057261061185e+04},
     {2.15986399716949279e+02, 1.55789559239863600e+01, 5.41318863077207766e+01, 4.82262643154045421e+01,
      4.55902910043250358e+02}},
    {"D",
     408,
     300,
     1.0,
     {0.4868417937025e+05, 0.4696371050071e+04, 0.1218114549776e+05, 0.1033801493461e+05, 0.7142398413817e+05},
     {0.3752393004482e+03, 0.3084128893659e+02, 0.9434276905469e+02, 0.8230686681928e+02, 0.7002620636210e+03}},
};
#define CLASSES (sizeof classes / sizeof classes[0])

/* The published surface integral of each class, in the order of the classes. */
static const double surfaces[CLASSES] = {7.8418928865937083e+00, 0.1161399311023e+02,     2.6030925604886277e+01,
                                         4.7887162703308227e+01, 6.66404553572181300e+01, 0.8334101392503e+02};

/* The parameters of a run, as rank 0 gives them to all. */
static struct {
  int n[3];     /* points along x, y, z */
  int steps;    /* time steps */
  int interval; /* the norms are taken after every so many steps */
  int warm_up;  /* time steps before the timed ones */
  int row;      /* of the table of classes */
  double dt, omega;
  double tolerance[WORDS]; /* the run ends early when every norm of the residual is smaller */
} run;

/* This rank's pencil and its arrays. Points count from 0 in the pencil; those of the halo are negative or beyond. */
static struct {
  int ranks[2];                 /* px, py */
  int north, south, west, east; /* ranks, or MPI_PROC_NULL */
  int first[2];                 /* global x and y of the first point */
  int nx, ny, nz;               /* points of this rank */
  int x0, x1, y0, y1, z0, z1;   /* those inside the cube, the ends excluded */
  size_t row, plane;            /* words from a point to the next one along y and along z */
  double *u, *r, *forcing;      /* unknowns, residual or update, forcing: [z][y][x][WORDS] with the halo */
  double *line, *window;        /* fluxes of one row, and of three rows: see add_xy and add_z */
  double *out, *in;             /* message buffers */
} lu;

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Splits a number of ranks into px x py with py <= px, py as large as can be. */
static void split(int ranks, int parts[2]) {
  parts[1] = 1;
  for (int p = 1; p * p <= ranks; ++p)
    if (ranks % p == 0) parts[1] = p;
  parts[0] = ranks / parts[1];
}

static int lu_fits(const char* problem, int ranks, char* why, size_t room) {
  int n = flow_find(classes, CLASSES, problem)->n, parts[2];
  split(ranks, parts);
  if (parts[0] > 2 * parts[1]) {
    snprintf(why, room, "the number of ranks must be a product px * py with py <= px <= 2 * py, as a power of two is");
    return 0;
  }
  if (parts[0] > 1 && n / parts[0] < 3) {
    snprintf(why, room, "a rank needs at least 3 points along x and y, so at most %d ranks a side", n / 3);
    return 0;
  }
  return 1;
}

/* Words of an array of points, of the fluxes of a row and of a message buffer, for nx x ny x nz points. */
static size_t point_words(size_t nx, size_t ny, size_t nz) {
  return (nx + 2 * HALO) * (ny + 2 * HALO) * (nz + 2 * HALO) * WORDS;
}
static size_t flux_words(size_t nx) { return (nx + 2 * HALO) * WORDS; }
static size_t message_words(size_t nx, size_t ny, size_t nz) {
  return larger(HALO * WORDS * larger(nx, ny) * nz, 2 * (ny + 2));
}

static double lu_memory_bytes(const char* problem, int ranks) {
  int n = flow_find(classes, CLASSES, problem)->n, parts[2];
  split(ranks, parts);
  size_t nx = (size_t)((n + parts[0] - 1) / parts[0]), ny = (size_t)((n + parts[1] - 1) / parts[1]), nz = (size_t)n;
  size_t faces = 2 * (nx + 2) * (ny + 2) + 2 * (larger(nx, ny) + 1) * nz;
  return 8.0 * (double)(3 * point_words(nx, ny, nz) + 8 * flux_words(nx) + 2 * message_words(nx, ny, nz) + faces);
}

/* Where the unknowns of a point stand. */
static inline size_t at(int x, int y, int z) {
  return (size_t)(z + HALO) * lu.plane + (size_t)(y + HALO) * lu.row + (size_t)(x + HALO) * WORDS;
}

/* Takes the parameters from rank 0, finds this rank's place and allocates its arrays. */
static void set_up(void) {
  if (app.rank == 0) {
    for (size_t c = 0; c < CLASSES; ++c)
      if (strcmp(classes[c].problem, app.problem) == 0) run.row = (int)c;
    run.n[0] = run.n[1] = run.n[2] = classes[run.row].n;
    run.steps = run.interval = classes[run.row].steps;
    run.warm_up = 1;
    run.dt = classes[run.row].dt;
    run.omega = OMEGA;
    for (int m = 0; m < WORDS; ++m) run.tolerance[m] = 1e-8;
  }
  for (int d = 0; d < 3; ++d) MPI_Bcast(&run.n[d], 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Bcast(&run.steps, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Bcast(&run.interval, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Bcast(&run.warm_up, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Bcast(&run.row, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Bcast(&run.dt, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Bcast(&run.omega, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Bcast(run.tolerance, WORDS, MPI_DOUBLE, 0, MPI_COMM_WORLD);

  split(app.ranks, lu.ranks);
  int place[2] = {app.rank % lu.ranks[0], app.rank / lu.ranks[0]}, points[2];
  for (int d = 0; d < 2; ++d) {
    int each = run.n[d] / lu.ranks[d], more = run.n[d] % lu.ranks[d];
    points[d] = each + (place[d] < more);
    lu.first[d] = place[d] * each + (place[d] < more ? place[d] : more);
  }
  lu.north = place[0] > 0 ? app.rank - 1 : MPI_PROC_NULL;
  lu.south = place[0] < lu.ranks[0] - 1 ? app.rank + 1 : MPI_PROC_NULL;
  lu.west = place[1] > 0 ? app.rank - lu.ranks[0] : MPI_PROC_NULL;
  lu.east = place[1] < lu.ranks[1] - 1 ? app.rank + lu.ranks[0] : MPI_PROC_NULL;
  lu.nx = points[0];
  lu.ny = points[1];
  lu.nz = run.n[2];
  lu.x0 = lu.north == MPI_PROC_NULL;
  lu.x1 = lu.nx - (lu.south == MPI_PROC_NULL);
  lu.y0 = lu.west == MPI_PROC_NULL;
  lu.y1 = lu.ny - (lu.east == MPI_PROC_NULL);
  lu.z0 = 1;
  lu.z1 = lu.nz - 1;
  lu.row = (size_t)(lu.nx + 2 * HALO) * WORDS;
  lu.plane = (size_t)(lu.ny + 2 * HALO) * lu.row;

  size_t nx = (size_t)lu.nx, ny = (size_t)lu.ny, nz = (size_t)lu.nz, word = sizeof(double);
  lu.u = app_allocate(point_words(nx, ny, nz), word);
  lu.r = app_allocate(point_words(nx, ny, nz), word);
  lu.forcing = app_allocate(point_words(nx, ny, nz), word);
  lu.line = app_allocate(2 * flux_words(nx), word);
  lu.window = app_allocate(6 * flux_words(nx), word);
  lu.out = app_allocate(message_words(nx, ny, nz), word);
  lu.in = app_allocate(message_words(nx, ny, nz), word);
}

/* Gives every point of this rank the exact solution or the first guess. */
static void fill(void (*field)(int n, int i, int j, int k, double u[WORDS])) {
  for (int z = 0; z < lu.nz; ++z) {
    for (int y = 0; y < lu.ny; ++y)
      for (int x = 0; x < lu.nx; ++x) field(run.n[0], lu.first[0] + x, lu.first[1] + y, z, lu.u + at(x, y, z));
  }
}

/* Copies the box of points [x, x + wide) x [y, y + deep) x all z between the unknowns and a buffer; returns words. */
static int copy_box(int x, int y, int wide, int deep, double* buffer, int pack) {
  size_t words = (size_t)wide * WORDS, done = 0;
  for (int z = 0; z < lu.nz; ++z) {
    for (int line = 0; line < deep; ++line, done += words) {
      double* points = lu.u + at(x, y + line, z);
      if (pack) {
        memcpy(buffer + done, points, words * sizeof(double));
      } else {
        memcpy(points, buffer + done, words * sizeof(double));
      }
    }
  }
  return (int)done;
}

/* Sends the box of points at (x, y) to one neighbour and takes that at (halo_x, halo_y) from the one opposite. */
static void shift_box(int from, int halo_x, int halo_y, int to, int x, int y, int wide, int deep) {
  MPI_Request request = MPI_REQUEST_NULL;
  int words = wide * deep * lu.nz * WORDS;
  if (from != MPI_PROC_NULL) MPI_Irecv(lu.in, words, MPI_DOUBLE, from, TAG_HALO, MPI_COMM_WORLD, &request);
  if (to != MPI_PROC_NULL) {
    copy_box(x, y, wide, deep, lu.out, 1);
    MPI_Send(lu.out, words, MPI_DOUBLE, to, TAG_HALO, MPI_COMM_WORLD);
  }
  if (from != MPI_PROC_NULL) {
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    copy_box(halo_x, halo_y, wide, deep, lu.in, 0);
  }
}

/* Brings two layers of the neighbours' unknowns, without the corners. */
static void exchange_halo(void) {
  shift_box(lu.north, -HALO, 0, lu.south, lu.nx - HALO, 0, HALO, lu.ny);
  shift_box(lu.south, lu.nx, 0, lu.north, 0, 0, HALO, lu.ny);
  shift_box(lu.west, 0, -HALO, lu.east, 0, lu.ny - HALO, lu.nx, HALO);
  shift_box(lu.east, 0, lu.ny, lu.west, 0, 0, lu.nx, HALO);
}

/* Weights of the five points around position q of n in the second and fourth differences of the unknowns. */
static void weigh(int q, int n, double diffusion, double weights[5]) {
  static const double fourth[5][5] = {
      {0, 0, 5, -4, 1}, {0, -4, 6, -4, 1}, {1, -4, 6, -4, 1}, {1, -4, 6, -4, 0}, {1, -4, 5, 0, 0}};
  const double second[5] = {0, 1, -2, 1, 0};
  int which = q == 1 ? 0 : q == 2 ? 1 : q == n - 3 ? 3 : q == n - 2 ? 4 : 2;
  for (int w = 0; w < 5; ++w) weights[w] = diffusion * second[w] - FLOW_DISSIPATION * fourth[which][w];
}

/* Adds one direction's part of the operator to `count` words of a row. `u` are the unknowns, whose neighbours in the
 * direction stand `step` words away; the fluxes f and potentials g are those of the points before, at and behind. */
FLOW_INLINE void add_row(size_t count, double* restrict out, const double* restrict u, size_t step,
                         const double* restrict f_before, const double* restrict f_behind,
                         const double* restrict g_before, const double* restrict g, const double* restrict g_behind,
                         double convective, double viscous, const double weights[5]) {
  const double *u1 = u - 2 * step, *u2 = u - step, *u4 = u + step, *u5 = u + 2 * step;
  double w1 = weights[0], w2 = weights[1], w3 = weights[2], w4 = weights[3], w5 = weights[4];
  for (size_t e = 0; e < count; ++e) {
    out[e] += viscous * (g_behind[e] - 2.0 * g[e] + g_before[e]) - convective * (f_behind[e] - f_before[e]) +
              (w1 * u1[e] + w2 * u2[e]) + (w4 * u4[e] + w5 * u5[e]) + w3 * u[e];
  }
}

/* The fluxes of `count` points from u on. */
FLOW_INLINE void flux_row(int count, const double* restrict u, int direction, double* restrict f, double* restrict g) {
  for (int p = 0; p < count; ++p) flow_fluxes(u + p * WORDS, direction, f + p * WORDS, g + p * WORDS);
}

/* r = -forcing + the parts of x and y of one plane. Rows of fluxes along y are kept for three rows at a time. */
static void add_xy(int z) {
  double h = 1.0 / (run.n[0] - 1), convective = 0.5 / h, viscous = FLOW_KAPPA / (h * h), weights[5];
  size_t flux = flux_words((size_t)lu.nx), words = (size_t)(lu.x1 - lu.x0) * WORDS;
  int points = lu.x1 - lu.x0;
  for (int y = lu.y0 - 1; y <= lu.y1; ++y) {
    double* newest = lu.window + (size_t)((y + 1) % 3) * 2 * flux;
    flux_row(points, lu.u + at(lu.x0, y, z), 2, newest, newest + flux);
    int row = y - 1;
    if (row < lu.y0) continue;
    const double* restrict u = lu.u + at(lu.x0, row, z);
    const double* restrict forcing = lu.forcing + at(lu.x0, row, z);
    double* restrict r = lu.r + at(lu.x0, row, z);
    for (size_t e = 0; e < words; ++e) r[e] = -forcing[e];
    const double* middle = lu.window + (size_t)((y + 0) % 3) * 2 * flux;
    const double* oldest = lu.window + (size_t)((y + 2) % 3) * 2 * flux;
    weigh(lu.first[1] + row, run.n[1], flow_diffusion(2) / (h * h), weights);
    add_row(words, r, u, lu.row, oldest, newest, oldest + flux, middle + flux, newest + flux, convective, viscous,
            weights);
    double *f = lu.line + WORDS, *g = f + flux;
    flux_row(points + 2, u - WORDS, 1, f - WORDS, g - WORDS);
    /* The points next to a face of the cube have weights of their own. */
    for (int x = 0, length; x < points; x += length) {
      int q = lu.first[0] + lu.x0 + x, n = run.n[0], inner = q >= 3 && q <= n - 4;
      length = inner ? (n - 3 - q < points - x ? n - 3 - q : points - x) : 1;
      size_t e = (size_t)x * WORDS;
      weigh(q, n, flow_diffusion(1) / (h * h), weights);
      add_row((size_t)length * WORDS, r + e, u + e, WORDS, f + e - WORDS, f + e + WORDS, g + e - WORDS, g + e,
              g + e + WORDS, convective, viscous, weights);
    }
  }
}

/* r += the part of z of the points with one y. */
static void add_z(int y) {
  double h = 1.0 / (run.n[0] - 1), convective = 0.5 / h, viscous = FLOW_KAPPA / (h * h), weights[5];
  size_t flux = flux_words((size_t)lu.nx), words = (size_t)(lu.x1 - lu.x0) * WORDS;
  for (int z = 0; z < lu.nz; ++z) {
    double* newest = lu.window + (size_t)(z % 3) * 2 * flux;
    flux_row(lu.x1 - lu.x0, lu.u + at(lu.x0, y, z), 3, newest, newest + flux);
    if (z < 2) continue;
    const double* middle = lu.window + (size_t)((z + 2) % 3) * 2 * flux;
    const double* oldest = lu.window + (size_t)((z + 1) % 3) * 2 * flux;
    weigh(z - 1, run.n[2], flow_diffusion(3) / (h * h), weights);
    add_row(words, lu.r + at(lu.x0, y, z - 1), lu.u + at(lu.x0, y, z - 1), lu.plane, oldest, newest, oldest + flux,
            middle + flux, newest + flux, convective, viscous, weights);
  }
}

/* r = the residual of the unknowns, inside the cube. */
static void residual(void) {
  exchange_halo();
  for (int z = lu.z0; z < lu.z1; ++z) add_xy(z);
  for (int y = lu.y0; y < lu.y1; ++y) add_z(y);
}

/* Passes r at the edges of a plane: the column at x and the row at y, of all points of this rank inside the cube. */
static void receive_edges(int from_x, int x, int from_y, int y, int z) {
  int column = (lu.y1 - lu.y0) * WORDS, row = (lu.x1 - lu.x0) * WORDS;
  if (from_x != MPI_PROC_NULL) {
    MPI_Recv(lu.in, column, MPI_DOUBLE, from_x, TAG_SWEEP, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int p = lu.y0; p < lu.y1; ++p) memcpy(lu.r + at(x, p, z), lu.in + (p - lu.y0) * WORDS, WORDS * sizeof(double));
  }
  if (from_y != MPI_PROC_NULL)
    MPI_Recv(lu.r + at(lu.x0, y, z), row, MPI_DOUBLE, from_y, TAG_SWEEP, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void send_edges(int to_x, int x, int to_y, int y, int z) {
  int column = (lu.y1 - lu.y0) * WORDS, row = (lu.x1 - lu.x0) * WORDS;
  if (to_x != MPI_PROC_NULL) {
    for (int p = lu.y0; p < lu.y1; ++p)
      memcpy(lu.out + (p - lu.y0) * WORDS, lu.r + at(x, p, z), WORDS * sizeof(double));
    MPI_Send(lu.out, column, MPI_DOUBLE, to_x, TAG_SWEEP, MPI_COMM_WORLD);
  }
  if (to_y != MPI_PROC_NULL) MPI_Send(lu.r + at(lu.x0, y, z), row, MPI_DOUBLE, to_y, TAG_SWEEP, MPI_COMM_WORLD);
}

/* sum += block * vector */
FLOW_INLINE void multiply_add(double block[restrict WORDS][WORDS], const double* restrict vector,
                              double sum[restrict WORDS]) {
  for (int column = 0; column < WORDS; ++column)
    for (int row = 0; row < WORDS; ++row) sum[row] += block[column][row] * vector[column];
}

/* Solves block * x = v by elimination without pivoting; v becomes x, the block is used up. */
FLOW_INLINE void solve(double block[restrict WORDS][WORDS], double v[restrict WORDS]) {
  for (int pivot = 0; pivot < WORDS; ++pivot) {
    double inverse = 1.0 / block[pivot][pivot];
    v[pivot] *= inverse;
    for (int column = pivot + 1; column < WORDS; ++column) block[column][pivot] *= inverse;
    for (int row = pivot + 1; row < WORDS; ++row) {
      for (int column = pivot + 1; column < WORDS; ++column)
        block[column][row] -= block[pivot][row] * block[column][pivot];
      v[row] -= block[pivot][row] * v[pivot];
    }
  }
  for (int row = WORDS - 2; row >= 0; --row)
    for (int column = row + 1; column < WORDS; ++column) v[row] -= block[column][row] * v[column];
}

/* One plane of a sweep. `towards` is -1 in the lower sweep, whose points depend on those before them, and +1 in the
 * upper one, which runs backward. The lower sweep takes the residual and makes r the update of half a step. */
FLOW_INLINE void sweep_plane(int z, int towards) {
  const double h = 1.0 / (run.n[0] - 1), viscous = run.dt / (h * h), convective = towards * run.dt * 0.5 / h;
  const double omega = run.omega, dt = run.dt, kappa = FLOW_KAPPA * 10.0 / 3.0;
  const double diffusion = flow_diffusion(1) + flow_diffusion(2) + flow_diffusion(3);
  const long to_x = towards * WORDS, to_y = towards * (long)lu.row, to_z = towards * (long)lu.plane;
  int rows = lu.y1 - lu.y0, points = lu.x1 - lu.x0;
  for (int y = 0; y < rows; ++y) {
    for (int x = 0; x < points; ++x) {
      size_t here = at(towards < 0 ? lu.x0 + x : lu.x1 - 1 - x, towards < 0 ? lu.y0 + y : lu.y1 - 1 - y, z);
      const double* restrict u = lu.u + here;
      double* r = lu.r + here;
      double block[WORDS][WORDS], v[WORDS] = {0.0, 0.0, 0.0, 0.0, 0.0};
      flow_neighbour_block(u + to_z, 3, convective, viscous, block);
      multiply_add(block, r + to_z, v);
      flow_neighbour_block(u + to_y, 2, convective, viscous, block);
      multiply_add(block, r + to_y, v);
      flow_neighbour_block(u + to_x, 1, convective, viscous, block);
      multiply_add(block, r + to_x, v);
      for (int m = 0; m < WORDS; ++m) v[m] = towards < 0 ? dt * r[m] - omega * v[m] : omega * v[m];
      flow_viscous_block(u, kappa, kappa, kappa, 3.0 * FLOW_BETA, diffusion, 1.0, 2.0 * viscous, block);
      solve(block, v);
      for (int m = 0; m < WORDS; ++m) r[m] = towards < 0 ? v[m] : r[m] - v[m];
    }
  }
}

static void lower_plane(int z) { sweep_plane(z, -1); }
static void upper_plane(int z) { sweep_plane(z, +1); }

/* One time step: both sweeps, the update of the unknowns and their new residual. */
static void step(void) {
  for (int z = lu.z0; z < lu.z1; ++z) {
    receive_edges(lu.north, -1, lu.west, -1, z);
    lower_plane(z);
    send_edges(lu.south, lu.nx - 1, lu.east, lu.ny - 1, z);
  }
  for (int z = lu.z1 - 1; z >= lu.z0; --z) {
    receive_edges(lu.south, lu.nx, lu.east, lu.ny, z);
    upper_plane(z);
    send_edges(lu.north, 0, lu.west, 0, z);
  }
  double scale = 1.0 / (run.omega * (2.0 - run.omega));
  size_t words = (size_t)(lu.x1 - lu.x0) * WORDS;
  for (int z = lu.z0; z < lu.z1; ++z) {
    for (int y = lu.y0; y < lu.y1; ++y) {
      double* restrict u = lu.u + at(lu.x0, y, z);
      const double* restrict r = lu.r + at(lu.x0, y, z);
      for (size_t e = 0; e < words; ++e) u[e] += scale * r[e];
    }
  }
  residual();
}

/* RMS over the inside of the cube of r, or of the difference of the unknowns to the exact solution. */
static void norms(int of_error, double found[WORDS]) {
  double sum[WORDS] = {0.0, 0.0, 0.0, 0.0, 0.0}, value[WORDS];
  for (int z = lu.z0; z < lu.z1; ++z) {
    for (int y = lu.y0; y < lu.y1; ++y) {
      for (int x = lu.x0; x < lu.x1; ++x) {
        const double* point = (of_error ? lu.u : lu.r) + at(x, y, z);
        if (of_error) {
          flow_exact(run.n[0], lu.first[0] + x, lu.first[1] + y, z, value);
        } else {
          memset(value, 0, sizeof value);
        }
        for (int m = 0; m < WORDS; ++m) sum[m] += (point[m] - value[m]) * (point[m] - value[m]);
      }
    }
  }
  MPI_Allreduce(sum, found, WORDS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  double inside = (double)(run.n[0] - 2) * (run.n[1] - 2) * (run.n[2] - 2);
  for (int m = 0; m < WORDS; ++m) found[m] = sqrt(found[m] / inside);
}

/* Runs so many time steps and returns the seconds of the slowest rank; `found` are the norms of the last residual. */
static double march(int steps, double found[WORDS]) {
  residual();
  norms(0, found);
  MPI_Barrier(MPI_COMM_WORLD);
  double seconds = -MPI_Wtime();
  for (int s = 1; s <= steps; ++s) {
    step();
    if (s % run.interval != 0 && s != steps) continue;
    norms(0, found);
    int small = 1;
    for (int m = 0; m < WORDS; ++m) small = small && found[m] < run.tolerance[m];
    if (small) break;
  }
  seconds += MPI_Wtime();
  double slowest = 0.0;
  MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

/* The pressure at a point. */
static double pressure(int x, int y, int z) {
  const double* u = lu.u + at(x, y, z);
  return FLOW_C2 * (u[4] - 0.5 * (u[1] * u[1] + u[2] * u[2] + u[3] * u[3]) / u[0]);
}

/* Sends `words` of lu.out to one neighbour and takes as many from the other into lu.in; 0 if there is no other. */
static int shift(int from, int to, int words) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (from != MPI_PROC_NULL) MPI_Irecv(lu.in, words, MPI_DOUBLE, from, TAG_SURFACE, MPI_COMM_WORLD, &request);
  if (to != MPI_PROC_NULL) MPI_Send(lu.out, words, MPI_DOUBLE, to, TAG_SURFACE, MPI_COMM_WORLD);
  if (from != MPI_PROC_NULL) MPI_Wait(&request, MPI_STATUS_IGNORE);
  return from != MPI_PROC_NULL;
}

/* Sum over cells [a0, a1) x [b0, b1) of the four corners of `face`, which has `stride` values for each a. */
static double sum_cells(const double* face, size_t stride, int a0, int a1, int b0, int b1) {
  double sum = 0.0;
  for (int a = a0; a < a1; ++a) {
    for (int b = b0; b < b1; ++b) {
      const double* corner = face + (size_t)a * stride + b;
      sum += corner[0] + corner[1] + corner[stride] + corner[stride + 1];
    }
  }
  return sum;
}

/* The points of this rank among the global ones [low, high), along x (0) or y (1). */
static void mine(int direction, int low, int high, int* begin, int* end) {
  int points = direction == 0 ? lu.nx : lu.ny, first = lu.first[direction];
  *begin = low > first ? low - first : 0;
  *end = high < first + points ? high - first : points;
}

/* The sum over all ranks. */
static double reduce(double sum) {
  double all = 0.0;
  MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

/* The two faces across z: values [nx + 1][ny + 2] of each, from y = -1 on. */
static double faces_across_z(int x0, int x1, int y0, int y1) {
  size_t stride = (size_t)lu.ny + 2, size = ((size_t)lu.nx + 1) * stride;
  double* faces = app_allocate(2 * size, sizeof(double));
  for (int f = 0; f < 2; ++f) {
    for (int x = 0; x < lu.nx; ++x) {
      for (int y = 0; y < lu.ny; ++y)
        faces[(size_t)f * size + (size_t)x * stride + y + 1] = pressure(x, y, f == 0 ? 2 : lu.nz - 2);
    }
  }
  for (int f = 0; f < 2; ++f)
    for (int x = 0; x < lu.nx; ++x) lu.out[f * lu.nx + x] = faces[(size_t)f * size + (size_t)x * stride + 1];
  if (shift(lu.east, lu.west, 2 * lu.nx)) {
    for (int f = 0; f < 2; ++f)
      for (int x = 0; x < lu.nx; ++x) faces[(size_t)f * size + (size_t)x * stride + lu.ny + 1] = lu.in[f * lu.nx + x];
  }
  for (int f = 0; f < 2; ++f) memcpy(lu.out + (size_t)f * stride, faces + (size_t)f * size, stride * sizeof(double));
  if (shift(lu.south, lu.north, 2 * (int)stride)) {
    for (int f = 0; f < 2; ++f)
      memcpy(faces + (size_t)f * size + (size_t)lu.nx * stride, lu.in + (size_t)f * stride, stride * sizeof(double));
  }
  double sum = 0.0;
  for (int f = 0; f < 2; ++f) sum += sum_cells(faces + (size_t)f * size + 1, stride, x0, x1, y0, y1);
  free(faces);
  return sum;
}

/* One face across x (0) or y (1) at a global coordinate, if this rank has points of it: values [z][points + 1]. */
static double face_across(int direction, int global, int low, int high) {
  int along = 1 - direction, here = global - lu.first[direction];
  int points = along == 0 ? lu.nx : lu.ny;
  if (here < 0 || here >= (direction == 0 ? lu.nx : lu.ny)) return 0.0;
  size_t stride = (size_t)points + 1;
  double* face = app_allocate(stride * (size_t)lu.nz, sizeof(double));
  for (int z = 0; z < lu.nz; ++z) {
    for (int p = 0; p < points; ++p)
      face[(size_t)z * stride + p] = direction == 0 ? pressure(here, p, z) : pressure(p, here, z);
  }
  for (int z = 0; z < lu.nz; ++z) lu.out[z] = face[(size_t)z * stride];
  if (shift(along == 0 ? lu.south : lu.east, along == 0 ? lu.north : lu.west, lu.nz))
    for (int z = 0; z < lu.nz; ++z) face[(size_t)z * stride + points] = lu.in[z];
  double sum = sum_cells(face, stride, 2, lu.nz - 2, low, high);
  free(face);
  return sum;
}

/* The integral of the pressure over the surface of a box inside the cube. */
static double surface_integral(void) {
  int n = run.n[0], x0, x1, y0, y1;
  double h = 1.0 / (n - 1);
  mine(0, 1, n - 2, &x0, &x1);
  mine(1, 1, n - 3, &y0, &y1);
  double sum = reduce(faces_across_z(x0, x1, y0, y1));
  double low = face_across(1, 1, x0, x1), high = face_across(1, n - 3, x0, x1);
  sum += reduce(low + high);
  low = face_across(0, 1, y0, y1);
  high = face_across(0, n - 2, y0, y1);
  sum += reduce(low + high);
  return 0.25 * h * h * sum;
}

static const struct application application = {"LU", "floating point", "S W A B C D", "", lu_fits, lu_memory_bytes};

int main(int argc, char** argv) {
  app_begin(&application, argc, argv);
  set_up();
  fill(flow_exact);
  residual(); /* the forcing is still zero, so this is the forcing */
  memcpy(lu.forcing, lu.r, point_words((size_t)lu.nx, (size_t)lu.ny, (size_t)lu.nz) * sizeof(double));
  double residuals[WORDS], errors[WORDS];
  fill(flow_initial);
  march(run.warm_up, residuals);
  fill(flow_initial);
  double seconds = march(run.steps, residuals);
  norms(1, errors);
  double surface = surface_integral();
  const struct flow_class* expected = &classes[run.row];
  flow_check("residual", residuals, expected->residual);
  flow_check("error", errors, expected->error);
  app_check("surface integral", surface, surfaces[run.row], FLOW_TOLERANCE);
  double n = run.n[0];
  char size[32];
  snprintf(size, sizeof size, "%dx%dx%d", run.n[0], run.n[1], run.n[2]);
  return app_end(size, run.steps, seconds,
                 run.steps * (1984.77 * n * n * n - 10923.3 * n * n + 27770.9 * n - 144010.0));
}
