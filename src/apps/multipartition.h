/* SPDX-License-Identifier: Apache-2.0
 *
 * What SP and BT share: the multipartition of an n^3 grid over side^2 ranks, the halo exchange, the residual of the
 * flow problem and its norms. The grid is cut into side^3 cells; a rank owns `side` of them, one in every slab of x, y
 * and z, so that all ranks have work at every stage of a sweep along any direction.
 *
 * Messages: grid_exchange sends one message to each of six neighbours, which holds two layers of five unknowns of every
 * owned cell with a neighbour on that side. Directions of this file are 0, 1, 2 for x, y, z.
 *
 * A field of a cell is stored as [k][j][component][i] with two layers of halo around it, so that a row of one component
 * along x is contiguous. Indices of points are local to the cell and count from 0; -1 and -2 are halo.
 * Define GRID_SPEED before including this to have the speed of sound kept beside the other values of a point.
 */
#ifndef NETPIPE_APPS_MULTIPARTITION_H
#define NETPIPE_APPS_MULTIPARTITION_H

#include <stddef.h>

#include "flow.h"

#define GRID_HALO 2

/* What is kept of each point beside its unknowns. The velocities stand at 1, 2, 3, the directions of flow.h. */
enum {
  VALUE_INVERSE,      /* 1 / density */
  VALUE_VELOCITY,     /* three of them */
  VALUE_PRESSURE = 4, /* c2 (energy - kinetic energy) */
  VALUE_HEAT,         /* viscous potential of the energy without the square of the velocity along the direction */
#ifdef GRID_SPEED
  VALUE_SPEED, /* of sound */
#endif
  VALUES
};

struct cell {
  int at[3];             /* place among the side^3 cells */
  int start[3];          /* global index of its first point */
  int size[3];           /* its points along x, y, z */
  int first[3], last[3]; /* its points inside the boundary of the grid: first <= index < last */
  /* Each points at component 0 of point (0, 0, 0). */
  double* u;       /* unknowns */
  double* r;       /* right-hand side, then solution of a solve; zero on the boundary of the grid */
  double* forcing; /* what makes the exact solution steady */
  double* values;  /* VALUES numbers of each point, valid in the cell and one layer around it */
};

struct grid {
  int n, side, most;     /* points and cells along a direction; points of the largest cell along one */
  int neighbour[3][2];   /* ranks before and behind along x, y, z; the same for all cells */
  int* slice;            /* [direction][slab]: which of this rank's cells lies in that slab */
  struct cell* cells;    /* `side` of them */
  ptrdiff_t row, plane;  /* words of a row of one component; words of a plane k divided by the number of components */
  double dt, t1, t2;     /* time step, 1 / h^2, 1 / 2h */
  double* weights;       /* [direction][offset -2..2][global index]: diffusion and dissipation of the unknowns */
  double* halo[3][2][2]; /* [direction][before, behind][to send, received] */
  int halo_words[3][2];
  MPI_Comm setup_group, halo_group, solve_group;
};

/* Word of component 0 of point (0, j, k) of a field with so many components. */
FLOW_INLINE ptrdiff_t grid_at(const struct grid* grid, int components, int k, int j) {
  return components * (k * grid->plane + j * grid->row);
}

static int grid_side(int ranks) {
  int side = 1;
  while (side * side < ranks) ++side;
  return side;
}

/* For `fits` of struct application. */
static int grid_fits(int n, int ranks, char* why, size_t room) {
  int side = grid_side(ranks);
  if (side * side != ranks) {
    snprintf(why, room, "it needs a square number of ranks");
    return 0;
  }
  if (n / side < 3) {
    snprintf(why, room, "a cell would have fewer than 3 points along a side; it takes at most %d ranks",
             (n / 3) * (n / 3));
    return 0;
  }
  return 1;
}

static int grid_most(int n, int side) { return (n + side - 1) / side; }

static ptrdiff_t grid_row(int most) { return (most + 2 * GRID_HALO + 7) / 8 * 8; }

/* The eight words keep rows of neighbouring planes off the same lines of the cache. */
static ptrdiff_t grid_plane(int most) { return grid_row(most) * (most + 2 * GRID_HALO) + 8; }

/* Bytes that grid_make allocates, at most. */
static double grid_memory(int n, int ranks) {
  int side = grid_side(ranks), most = grid_most(n, side);
  double points = (double)grid_plane(most) * (most + 2 * GRID_HALO) * side;
  double halo = side > 1 ? 12.0 * 10 * (side - 1) * most * most : 0;
  return 8 * (points * (3 * FLOW_UNKNOWNS + VALUES) + halo + 15.0 * (n + 8)) + side * 256.0 + 4096;
}

/* Coefficients of the fourth difference for offsets -2 to 2 at global index q, which leaves the boundary out. */
static void grid_fourth_difference(int n, int q, double coefficients[5]) {
  static const double inner[5] = {1, -4, 6, -4, 1};
  for (int s = 0; s < 5; ++s) coefficients[s] = q + s - 2 >= 1 && q + s - 2 <= n - 2 ? inner[s] : 0;
  if (q == 1 || q == n - 2) coefficients[2] = 5;
}

/* Makes the cells of this rank and all memory, zero. */
static void grid_make(struct grid* grid, int n, double dt) {
  int side = grid_side(app.ranks), i0 = app.rank % side, j0 = app.rank / side, most = grid_most(n, side);
  double h = 1.0 / (n - 1);
  grid->n = n;
  grid->side = side;
  grid->most = most;
  grid->dt = dt;
  grid->t1 = 1 / (h * h);
  grid->t2 = 1 / (2 * h);
  grid->row = grid_row(most);
  grid->plane = grid_plane(most);
  int up = (i0 + 1) % side, down = (i0 + side - 1) % side, left = (j0 + side - 1) % side, right = (j0 + 1) % side;
  const int neighbour[3][2] = {{down + side * j0, up + side * j0},
                               {i0 + side * left, i0 + side * right},
                               {up + side * left, down + side * right}};
  memcpy(grid->neighbour, neighbour, sizeof neighbour);

  grid->cells = app_allocate((size_t)side, sizeof *grid->cells);
  grid->slice = app_allocate((size_t)side * 3, sizeof *grid->slice);
  ptrdiff_t words = grid->plane * (most + 2 * GRID_HALO), corner = GRID_HALO * (grid->plane + grid->row);
  double* u = app_allocate((size_t)(words * side * FLOW_UNKNOWNS), sizeof(double));
  double* r = app_allocate((size_t)(words * side * FLOW_UNKNOWNS), sizeof(double));
  double* forcing = app_allocate((size_t)(words * side * FLOW_UNKNOWNS), sizeof(double));
  double* values = app_allocate((size_t)(words * side * VALUES), sizeof(double));
  for (int c = 0; c < side; ++c) {
    struct cell* cell = &grid->cells[c];
    const int at[3] = {(i0 + c) % side, (j0 - c + side) % side, c};
    for (int d = 0; d < 3; ++d) {
      int base = n / side, more = n % side;
      cell->at[d] = at[d];
      cell->start[d] = at[d] * base + (at[d] < more ? at[d] : more);
      cell->size[d] = base + (at[d] < more);
      cell->first[d] = at[d] == 0 ? 1 : 0;
      cell->last[d] = cell->size[d] - (at[d] == side - 1 ? 1 : 0);
      grid->slice[d * side + at[d]] = c;
    }
    ptrdiff_t field = FLOW_UNKNOWNS * (c * words + corner) + GRID_HALO;
    cell->u = u + field;
    cell->r = r + field;
    cell->forcing = forcing + field;
    cell->values = values + VALUES * (c * words + corner) + GRID_HALO;
    for (int d = 0; d < 3; ++d) {
      int face = GRID_HALO * FLOW_UNKNOWNS * cell->size[(d + 1) % 3] * cell->size[(d + 2) % 3];
      if (cell->at[d] > 0) grid->halo_words[d][0] += face;
      if (cell->at[d] < side - 1) grid->halo_words[d][1] += face;
    }
  }
  for (int d = 0; d < 3 && side > 1; ++d) {
    for (int e = 0; e < 2; ++e)
      for (int b = 0; b < 2; ++b) grid->halo[d][e][b] = app_allocate((size_t)grid->halo_words[d][e], sizeof(double));
  }

  grid->weights = app_allocate(15 * (size_t)n, sizeof(double));
  for (int d = 0; d < 3; ++d) {
    double diffusion = flow_diffusion(d + 1) * grid->t1;
    const double second[5] = {0, diffusion, -2 * diffusion, diffusion, 0};
    for (int q = 0; q < n; ++q) {
      double fourth[5];
      grid_fourth_difference(n, q, fourth);
      for (int s = 0; s < 5; ++s) grid->weights[(d * 5 + s) * n + q] = second[s] - FLOW_DISSIPATION * fourth[s];
    }
  }
}

/* Copies the unknowns of a box of a cell, halo included, to a message or back. Returns the words copied. */
static size_t grid_copy_box(const struct grid* grid, const struct cell* cell, const int from[3], const int to[3],
                            double* message, int back) {
  size_t words = 0, length = (size_t)(to[0] - from[0]);
  for (int k = from[2]; k < to[2]; ++k) {
    for (int j = from[1]; j < to[1]; ++j) {
      double* u = cell->u + grid_at(grid, FLOW_UNKNOWNS, k, j) + from[0];
      for (int m = 0; m < FLOW_UNKNOWNS; ++m, u += grid->row, words += length) {
        if (length == GRID_HALO) { /* a face across x: two words at a time */
          double* a = back ? u : message + words;
          const double* b = back ? message + words : u;
          a[0] = b[0];
          a[1] = b[1];
        } else if (back) {
          memcpy(u, message + words, length * sizeof(double));
        } else {
          memcpy(message + words, u, length * sizeof(double));
        }
      }
    }
  }
  return words;
}

/* All the faces of one message: of the cells with a neighbour before (end 0) or behind (end 1) along d. */
static void grid_copy_faces(const struct grid* grid, int d, int end, int back) {
  double* message = grid->halo[d][end][back];
  for (int c = 0; c < grid->side; ++c) {
    const struct cell* cell = &grid->cells[c];
    if (cell->at[d] == (end ? grid->side - 1 : 0)) continue;
    int from[3] = {0, 0, 0}, to[3] = {cell->size[0], cell->size[1], cell->size[2]};
    from[d] = end ? cell->size[d] - (back ? 0 : GRID_HALO) : (back ? -GRID_HALO : 0);
    to[d] = from[d] + GRID_HALO;
    message += grid_copy_box(grid, cell, from, to, message, back);
  }
}

/* Fills the halos of all cells: six receives, six sends, one wait. */
static void grid_exchange(const struct grid* grid) {
  if (grid->side == 1) return;
  MPI_Request requests[12];
  MPI_Status statuses[12];
  int count = 0;
  for (int d = 0; d < 3; ++d) { /* a message is tagged by the side of its sender */
    for (int end = 0; end < 2; ++end) {
      MPI_Irecv(grid->halo[d][end][1], grid->halo_words[d][end], MPI_DOUBLE, grid->neighbour[d][end], 2 * d + !end,
                grid->halo_group, &requests[count++]);
    }
  }
  for (int d = 0; d < 3; ++d) {
    for (int end = 0; end < 2; ++end) {
      grid_copy_faces(grid, d, end, 0);
      MPI_Isend(grid->halo[d][end][0], grid->halo_words[d][end], MPI_DOUBLE, grid->neighbour[d][end], 2 * d + end,
                grid->halo_group, &requests[count++]);
    }
  }
  MPI_Waitall(count, requests, statuses);
  for (int d = 0; d < 3; ++d)
    for (int end = 0; end < 2; ++end) grid_copy_faces(grid, d, end, 1);
}

/* Sets the unknowns of a cell to the first guess, or to the exact solution, then including the halo. */
static void grid_fill(const struct grid* grid, const struct cell* cell, int exact) {
  int from[3], to[3];
  for (int d = 0; d < 3; ++d) {
    from[d] = exact && cell->at[d] > 0 ? -GRID_HALO : 0;
    to[d] = cell->size[d] + (exact && cell->at[d] < grid->side - 1 ? GRID_HALO : 0);
  }
  for (int k = from[2]; k < to[2]; ++k) {
    for (int j = from[1]; j < to[1]; ++j) {
      for (int i = from[0]; i < to[0]; ++i) {
        double u[FLOW_UNKNOWNS];
        int x = cell->start[0] + i, y = cell->start[1] + j, z = cell->start[2] + k;
        if (exact) {
          flow_exact(grid->n, x, y, z, u);
        } else {
          flow_initial(grid->n, x, y, z, u);
        }
        for (int m = 0; m < FLOW_UNKNOWNS; ++m) cell->u[grid_at(grid, FLOW_UNKNOWNS, k, j) + m * grid->row + i] = u[m];
      }
    }
  }
}

static void grid_first_guess(const struct grid* grid) {
  for (int c = 0; c < grid->side; ++c) grid_fill(grid, &grid->cells[c], 0);
}

/* The values of the points of plane k of a cell and of one layer around it, but not beyond the grid. */
static void grid_values(const struct grid* grid, const struct cell* cell, int k) {
  int from[3], to[3];
  for (int d = 0; d < 3; ++d) {
    from[d] = cell->at[d] > 0 ? -1 : 0;
    to[d] = cell->size[d] + (cell->at[d] < grid->side - 1 ? 1 : 0);
  }
  if (k < from[2] || k >= to[2]) return;
  const ptrdiff_t row = grid->row;
  const int left = from[0], right = to[0];
  for (int j = from[1]; j < to[1]; ++j) {
    const double* restrict u = cell->u + grid_at(grid, FLOW_UNKNOWNS, k, j);
    double* restrict v = cell->values + grid_at(grid, VALUES, k, j);
#pragma GCC ivdep
    for (int i = left; i < right; ++i) {
      double inverse = 1 / u[i], x = u[row + i] * inverse, y = u[2 * row + i] * inverse, z = u[3 * row + i] * inverse;
      double half = 0.5 * (x * x + y * y + z * z), energy = u[4 * row + i];
      double pressure = FLOW_C2 * (energy - half * u[i]);
      v[VALUE_INVERSE * row + i] = inverse;
      v[(VALUE_VELOCITY + 0) * row + i] = x;
      v[(VALUE_VELOCITY + 1) * row + i] = y;
      v[(VALUE_VELOCITY + 2) * row + i] = z;
      v[VALUE_PRESSURE * row + i] = pressure;
      v[VALUE_HEAT * row + i] = (1 - FLOW_C1C5) * half + FLOW_C1C5 * energy * inverse;
#ifdef GRID_SPEED
      v[VALUE_SPEED * row + i] = FLOW_C1 * pressure * inverse;
#endif
    }
#ifdef GRID_SPEED
    /* not in the loop above, as GCC does not make vectors of roots: a negative number would have to set errno */
    for (int i = left; i < right; ++i) v[VALUE_SPEED * row + i] = sqrt(v[VALUE_SPEED * row + i]);
#endif
  }
}

/* For unknown m of a row of `count` points: r = scale (sign start + what `direction`, 1 to 3, adds to the operator). du
 * and dv are the distances in words to the next point along it in u and in the values v; weight[s * stride + i *
 * varies] is the weight of the unknown at offset s - 2. `sides` is t2, `viscous` is kappa t1. */
FLOW_INLINE void grid_add_one(int m, int direction, int count, const double* u, ptrdiff_t du, const double* v,
                              ptrdiff_t dv, ptrdiff_t row, const double* weight, ptrdiff_t stride, int varies,
                              double sides, double viscous, double sign, double scale, const double* start, double* r) {
  const double own = m == direction ? viscous * (4.0 / 3.0) : viscous, sixth = viscous / 6.0;
  const double *w = v + direction * row, *pressure = v + VALUE_PRESSURE * row;
  const double* potential = v + (m == 4 ? VALUE_HEAT : m) * row; /* for m = 0 there is none */
  u += m * row;
  const double* carried = u + (direction - m) * row;
#pragma GCC ivdep
  for (int i = 0; i < count; ++i) {
    double sum = sign * start[m * row + i] + weight[i * varies] * u[i - 2 * du] +
                 weight[stride + i * varies] * u[i - du] + weight[2 * stride + i * varies] * u[i] +
                 weight[3 * stride + i * varies] * u[i + du] + weight[4 * stride + i * varies] * u[i + 2 * du];
    double before = w[i - dv], behind = w[i + dv], flux;
    if (m == 0) {
      flux = carried[i + du] - carried[i - du];
    } else if (m == 4) {
      flux = (u[i + du] + pressure[i + dv]) * behind - (u[i - du] + pressure[i - dv]) * before;
      sum += sixth * (behind * behind - 2 * (w[i] * w[i]) + before * before);
    } else {
      flux = u[i + du] * behind - u[i - du] * before;
      if (m == direction) flux += pressure[i + dv] - pressure[i - dv];
    }
    if (m > 0) sum += own * (potential[i + dv] - 2 * potential[i] + potential[i - dv]);
    r[m * row + i] = scale * (sum - sides * flux);
  }
}

/* The same for all unknowns; one loop each, as one for all has more streams than there are registers. */
FLOW_INLINE void grid_add(int direction, int count, const double* u, ptrdiff_t du, const double* v, ptrdiff_t dv,
                          ptrdiff_t row, const double* weight, ptrdiff_t stride, int varies, double sides,
                          double viscous, double sign, double scale, const double* start, double* r) {
#pragma GCC unroll 5
  for (int m = 0; m < FLOW_UNKNOWNS; ++m)
    grid_add_one(m, direction, count, u, du, v, dv, row, weight, stride, varies, sides, viscous, sign, scale, start, r);
}

/* r = scale (H(U) - forcing) at the inner points of plane k of a cell, whose values and those of the two planes beside
 * it must be there. */
static void grid_residual_plane(const struct grid* grid, const struct cell* cell, int k, double scale) {
  const ptrdiff_t row = grid->row, plane = grid->plane;
  const int n = grid->n, i = cell->first[0], count = cell->last[0] - i;
  const double viscous = FLOW_KAPPA * grid->t1;
  for (int j = cell->first[1]; j < cell->last[1]; ++j) {
    const double* u = cell->u + grid_at(grid, FLOW_UNKNOWNS, k, j) + i;
    const double* v = cell->values + grid_at(grid, VALUES, k, j) + i;
    const double* forcing = cell->forcing + grid_at(grid, FLOW_UNKNOWNS, k, j) + i;
    double* r = cell->r + grid_at(grid, FLOW_UNKNOWNS, k, j) + i;
    const double* x = grid->weights + cell->start[0] + i;
    const double* y = grid->weights + 5 * n + cell->start[1] + j;
    const double* z = grid->weights + 10 * n + cell->start[2] + k;
    grid_add(1, count, u, 1, v, 1, row, x, n, 1, grid->t2, viscous, -1, 1, forcing, r);
    grid_add(2, count, u, 5 * row, v, VALUES * row, row, y, n, 0, grid->t2, viscous, 1, 1, r, r);
    grid_add(3, count, u, 5 * plane, v, VALUES * plane, row, z, n, 0, grid->t2, viscous, 1, scale, r, r);
  }
}

/* The same for a whole cell, and its values. */
__attribute__((unused)) static void grid_residual(const struct grid* grid, const struct cell* cell, double scale) {
  for (int k = cell->first[2] - 1; k <= cell->first[2]; ++k) grid_values(grid, cell, k);
  for (int k = cell->first[2]; k < cell->last[2]; ++k) {
    grid_values(grid, cell, k + 1);
    grid_residual_plane(grid, cell, k, scale);
  }
}

/* The forcing: the operator applied to the exact solution, which it leaves in the unknowns. */
static void grid_force(const struct grid* grid) {
  for (int c = 0; c < grid->side; ++c) {
    const struct cell* cell = &grid->cells[c];
    grid_fill(grid, cell, 1);
    grid_residual(grid, cell, 1);
    for (int k = cell->first[2]; k < cell->last[2]; ++k) {
      for (int j = cell->first[1]; j < cell->last[1]; ++j) {
        for (int m = 0; m < FLOW_UNKNOWNS; ++m) {
          ptrdiff_t at = grid_at(grid, FLOW_UNKNOWNS, k, j) + m * grid->row + cell->first[0];
          memcpy(cell->forcing + at, cell->r + at, (size_t)(cell->last[0] - cell->first[0]) * sizeof(double));
        }
      }
    }
  }
}

/* The root mean square, over the grid and for each component, of the difference between U and the exact solution, or of
 * r. One reduction of five words. */
static void grid_norm(const struct grid* grid, int error, double norm[FLOW_UNKNOWNS]) {
  double sums[FLOW_UNKNOWNS] = {0}, n = grid->n - 2;
  for (int c = 0; c < grid->side; ++c) {
    const struct cell* cell = &grid->cells[c];
    for (int k = cell->first[2]; k < cell->last[2]; ++k) {
      for (int j = cell->first[1]; j < cell->last[1]; ++j) {
        ptrdiff_t at = grid_at(grid, FLOW_UNKNOWNS, k, j);
        for (int i = cell->first[0]; i < cell->last[0]; ++i) {
          double exact[FLOW_UNKNOWNS];
          if (error) flow_exact(grid->n, cell->start[0] + i, cell->start[1] + j, cell->start[2] + k, exact);
          for (int m = 0; m < FLOW_UNKNOWNS; ++m) {
            ptrdiff_t word = at + m * grid->row + i;
            double value = error ? cell->u[word] - exact[m] : cell->r[word];
            sums[m] += value * value;
          }
        }
      }
    }
  }
  MPI_Allreduce(sums, norm, FLOW_UNKNOWNS, MPI_DOUBLE, MPI_SUM, grid->setup_group);
  for (int m = 0; m < FLOW_UNKNOWNS; ++m) norm[m] = sqrt(norm[m] / (n * n * n));
}

/* The whole benchmark: rank 0 shares `count` parameters (steps, steps of the warm-up, what else the program needs), the
 * time step and the grid; then prepare is called once and step for every time step. `cubic` holds the operations of a
 * step as coefficients of n^3, n^2, n and 1. Returns the exit code of main. */
static int grid_run(const struct flow_class* own, int* parameters, int count, void (*prepare)(const struct grid*),
                    void (*step)(const struct grid*), const double cubic[4]) {
  struct grid grid;
  memset(&grid, 0, sizeof grid);
  MPI_Comm_dup(MPI_COMM_WORLD, &grid.setup_group);
  MPI_Comm_dup(MPI_COMM_WORLD, &grid.halo_group);
  MPI_Comm_dup(MPI_COMM_WORLD, &grid.solve_group);
  int points[3] = {own->n, own->n, own->n};
  double dt = own->dt;
  for (int p = 0; p < count; ++p) MPI_Bcast(&parameters[p], 1, MPI_INT, 0, grid.setup_group);
  MPI_Bcast(&dt, 1, MPI_DOUBLE, 0, grid.setup_group);
  MPI_Bcast(points, 3, MPI_INT, 0, grid.setup_group);
  grid_make(&grid, points[0], dt);
  prepare(&grid);
  grid_force(&grid);
  grid_first_guess(&grid);
  MPI_Barrier(grid.setup_group);

  for (int s = 0; s < parameters[1]; ++s) step(&grid);
  grid_first_guess(&grid);
  MPI_Barrier(grid.setup_group);
  double began = MPI_Wtime();
  for (int s = 0; s < parameters[0]; ++s) step(&grid);
  double seconds = MPI_Wtime() - began, slowest = 0;

  double error[FLOW_UNKNOWNS], residual[FLOW_UNKNOWNS];
  grid_norm(&grid, 1, error);
  grid_exchange(&grid);
  for (int c = 0; c < grid.side; ++c) grid_residual(&grid, &grid.cells[c], 1);
  grid_norm(&grid, 0, residual);
  MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, grid.setup_group);
  flow_check("residual", residual, own->residual);
  flow_check("error", error, own->error);

  char size[40];
  double n = points[0], operations = parameters[0] * (((cubic[0] * n + cubic[1]) * n + cubic[2]) * n + cubic[3]);
  snprintf(size, sizeof size, "%dx%dx%d", points[0], points[1], points[2]);
  return app_end(size, parameters[0], slowest, operations);
}

#endif
