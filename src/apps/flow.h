/* SPDX-License-Identifier: Apache-2.0
 *
 * The flow problem that LU, SP and BT share: five unknowns (density, three momenta, energy) on a grid of n^3 points on
 * the unit cube, its exact solution, its first guess, its fluxes and their Jacobians at one point, and the check of
 * five norms against published values. Nothing here keeps state and nothing calls MPI.
 *
 * Conventions: unknowns count from 0 (1, 2, 3 are the momenta along x, y, z); a direction is the index of its momentum,
 * so it is 1, 2 or 3; grid points (i, j, k) are global and count from 0 to n - 1 along x, y, z.
 */
#ifndef NETPIPE_APPS_FLOW_H
#define NETPIPE_APPS_FLOW_H

#include "app.h"

#define FLOW_UNKNOWNS 5
#define FLOW_C1 1.4           /* ratio of specific heats */
#define FLOW_C2 0.4           /* that minus one */
#define FLOW_C1C5 1.96        /* heat conduction in units of the viscosity */
#define FLOW_KAPPA 0.1        /* viscosity */
#define FLOW_BETA 0.196       /* heat conduction: FLOW_C1C5 * FLOW_KAPPA */
#define FLOW_DISSIPATION 0.25 /* of the fourth difference */
#define FLOW_TOLERANCE 1e-8   /* relative, of every published value */
#define FLOW_INLINE static inline __attribute__((always_inline, unused))

/* What a class of LU, SP or BT is, and what it must come to. */
struct flow_class {
  char problem[2];                /* "S" */
  int n;                          /* points along each direction */
  int steps;                      /* time steps that are timed */
  double dt;                      /* time step */
  double residual[FLOW_UNKNOWNS]; /* xcr: RMS of the steady residual after the last step */
  double error[FLOW_UNKNOWNS];    /* xce: RMS of the difference to the exact solution */
};

/* The class of that name, or NULL. */
__attribute__((unused)) static const struct flow_class* flow_find(const struct flow_class* classes, size_t count,
                                                                  const char* problem) {
  for (size_t c = 0; c < count; ++c)
    if (strcmp(classes[c].problem, problem) == 0) return &classes[c];
  return NULL;
}

/* Diffusion along a direction; the same for all unknowns. */
FLOW_INLINE double flow_diffusion(int direction) { return direction == 3 ? 1.0 : 0.75; }

/* The exact solution at a point of the unit cube. */
__attribute__((unused)) static void flow_exact_at(double xi, double eta, double zeta, double u[FLOW_UNKNOWNS]) {
  static const double e[FLOW_UNKNOWNS][13] = {
      {2.0, 0.0, 0.0, 4.0, 5.0, 3.0, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3},
      {1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5},
      {2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4},
      {2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3},
      {5.0, 4.0, 3.0, 2.0, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2},
  };
  for (int m = 0; m < FLOW_UNKNOWNS; ++m) {
    u[m] = e[m][0] + xi * (e[m][1] + xi * (e[m][4] + xi * (e[m][7] + xi * e[m][10]))) +
           eta * (e[m][2] + eta * (e[m][5] + eta * (e[m][8] + eta * e[m][11]))) +
           zeta * (e[m][3] + zeta * (e[m][6] + zeta * (e[m][9] + zeta * e[m][12])));
  }
}

/* The exact solution at grid point (i, j, k) of n^3. */
__attribute__((unused)) static void flow_exact(int n, int i, int j, int k, double u[FLOW_UNKNOWNS]) {
  double h = 1.0 / (n - 1);
  flow_exact_at(i * h, j * h, k * h, u);
}

/* The first guess at grid point (i, j, k) of n^3: exact on the boundary, between the exact faces inside. */
__attribute__((unused)) static void flow_initial(int n, int i, int j, int k, double u[FLOW_UNKNOWNS]) {
  if (i == 0 || j == 0 || k == 0 || i == n - 1 || j == n - 1 || k == n - 1) {
    flow_exact(n, i, j, k, u);
    return;
  }
  double h = 1.0 / (n - 1), xi = i * h, eta = j * h, zeta = k * h;
  double faces[6][FLOW_UNKNOWNS];
  flow_exact_at(0.0, eta, zeta, faces[0]);
  flow_exact_at(1.0, eta, zeta, faces[1]);
  flow_exact_at(xi, 0.0, zeta, faces[2]);
  flow_exact_at(xi, 1.0, zeta, faces[3]);
  flow_exact_at(xi, eta, 0.0, faces[4]);
  flow_exact_at(xi, eta, 1.0, faces[5]);
  for (int m = 0; m < FLOW_UNKNOWNS; ++m) {
    double p = (1.0 - xi) * faces[0][m] + xi * faces[1][m];
    double q = (1.0 - eta) * faces[2][m] + eta * faces[3][m];
    double s = (1.0 - zeta) * faces[4][m] + zeta * faces[5][m];
    u[m] = p + q + s - p * q - q * s - s * p + p * q * s;
  }
}

/* Fluxes along `direction` at a point with unknowns u: f is the inviscid flux, g the viscous potential without
 * FLOW_KAPPA, so that the operator has  -(f+ - f-) / 2h + FLOW_KAPPA * (g+ - 2 g + g-) / h^2. */
FLOW_INLINE void flow_fluxes(const double* restrict u, int direction, double* restrict f, double* restrict g) {
  double inverse = 1.0 / u[0];
  double v[4] = {0.0, u[1] * inverse, u[2] * inverse, u[3] * inverse};
  double w = v[direction], kinetic = 0.5 * (u[1] * v[1] + u[2] * v[2] + u[3] * v[3]);
  f[0] = u[direction];
  g[0] = 0.0;
  for (int m = 1; m <= 3; ++m) {
    f[m] = u[m] * w;
    g[m] = v[m];
  }
  f[direction] += FLOW_C2 * (u[4] - kinetic);
  g[direction] *= 4.0 / 3.0;
  f[4] = (FLOW_C1 * u[4] - FLOW_C2 * kinetic) * w;
  g[4] = (1.0 - FLOW_C1C5) * kinetic * inverse + w * w / 6.0 + FLOW_C1C5 * u[4] * inverse;
}

/* Blocks of 5 x 5 stand as block[column][row]: a column is contiguous, which suits products with a vector or a block.
 */

/* block = shift * I + scale * (N + diffusion * I), where N is the viscous Jacobian at u with the coefficients k1, k2,
 * k3 of the momentum rows and beta of the energy row. Along one direction they are FLOW_KAPPA, but 4/3 of it for the
 * momentum of that direction, and FLOW_BETA; N is linear in them, so the sum over directions is one call, too. */
FLOW_INLINE void flow_viscous_block(const double* restrict u, double k1, double k2, double k3, double beta,
                                    double diffusion, double shift, double scale,
                                    double block[restrict FLOW_UNKNOWNS][FLOW_UNKNOWNS]) {
  double inverse = 1.0 / u[0], scaled = scale * inverse, diagonal = shift + scale * diffusion;
  double v1 = u[1] * inverse, v2 = u[2] * inverse, v3 = u[3] * inverse, e = u[4] * inverse;
  memset(block, 0, sizeof(double[FLOW_UNKNOWNS][FLOW_UNKNOWNS]));
  block[0][0] = diagonal;
  block[0][1] = -scaled * k1 * v1;
  block[0][2] = -scaled * k2 * v2;
  block[0][3] = -scaled * k3 * v3;
  block[0][4] = -scaled * ((k1 - beta) * v1 * v1 + (k2 - beta) * v2 * v2 + (k3 - beta) * v3 * v3 + beta * e);
  block[1][1] = diagonal + scaled * k1;
  block[1][4] = scaled * (k1 - beta) * v1;
  block[2][2] = diagonal + scaled * k2;
  block[2][4] = scaled * (k2 - beta) * v2;
  block[3][3] = diagonal + scaled * k3;
  block[3][4] = scaled * (k3 - beta) * v3;
  block[4][4] = diagonal + scaled * beta;
}

/* The viscous block of one direction: shift * I + scale * (N_d + d_d * I). */
FLOW_INLINE void flow_diagonal_block(const double* restrict u, int direction, double shift, double scale,
                                     double block[restrict FLOW_UNKNOWNS][FLOW_UNKNOWNS]) {
  double along = FLOW_KAPPA * 4.0 / 3.0;
  flow_viscous_block(u, direction == 1 ? along : FLOW_KAPPA, direction == 2 ? along : FLOW_KAPPA,
                     direction == 3 ? along : FLOW_KAPPA, FLOW_BETA, flow_diffusion(direction), shift, scale, block);
}

/* The block that couples a point to its neighbour, whose unknowns are u, along `direction`:
 * convective * A_d - viscous * (N_d + d_d * I), with convective = -dt/2h for the neighbour before and +dt/2h for the
 * one behind, and viscous = dt/h^2. */
FLOW_INLINE void flow_neighbour_block(const double* restrict u, int direction, double convective, double viscous,
                                      double block[restrict FLOW_UNKNOWNS][FLOW_UNKNOWNS]) {
  double inverse = 1.0 / u[0];
  double v[4] = {0.0, u[1] * inverse, u[2] * inverse, u[3] * inverse};
  double w = v[direction], q = 0.5 * (v[1] * v[1] + v[2] * v[2] + v[3] * v[3]), enthalpy = FLOW_C1 * u[4] * inverse;
  flow_diagonal_block(u, direction, 0.0, -viscous, block);
  block[direction][0] = convective;
  for (int m = 1; m <= 3; ++m) {
    block[0][m] -= convective * v[m] * w;
    block[m][m] += convective * w;
    block[direction][m] += convective * v[m]; /* for m == direction with the line before: 2w */
    block[m][4] -= convective * FLOW_C2 * v[m] * w;
    block[m][direction] -= convective * FLOW_C2 * v[m];
  }
  block[0][direction] += convective * FLOW_C2 * q;
  block[0][4] += convective * (2.0 * FLOW_C2 * q - enthalpy) * w;
  block[direction][4] += convective * (enthalpy - FLOW_C2 * q);
  block[4][direction] += convective * FLOW_C2;
  block[4][4] += convective * FLOW_C1 * w;
}

/* Compares the five norms of a field with the published ones; `what` is "residual" or "error". */
__attribute__((unused)) static void flow_check(const char* what, const double found[FLOW_UNKNOWNS],
                                               const double expected[FLOW_UNKNOWNS]) {
  for (int m = 0; m < FLOW_UNKNOWNS; ++m) {
    char name[32];
    snprintf(name, sizeof name, "%s %d", what, m + 1);
    app_check(name, found[m], expected[m], FLOW_TOLERANCE);
  }
}

#endif
