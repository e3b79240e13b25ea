/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of Sweep3D's problems: the angles of the S6 quadrature, the material, and the published results of the
 * input decks, which are known by their number of cells in every dimension.
 */
#ifndef NETPIPE_APPS_SWEEP3D_VALUES_H
#define NETPIPE_APPS_SWEEP3D_VALUES_H

#include <math.h>
#include <stddef.h>
#include <string.h>

enum {
  ANGLES = 6,     /* of an octant */
  ITERATIONS = 12 /* of every problem */
};

/* One angle of every octant: cosines to the i and j axis, and the weight in the sum over an octant. */
static const struct {
  double mu, eta, weight;
} quadrature[ANGLES] = {{.23009194, .94557676, .16944656}, {.68813432, .68813432, .16388677},
                        {.23009194, .68813432, .16388677}, {.94557676, .23009194, .16944656},
                        {.68813432, .23009194, .16388677}, {.23009194, .23009194, .16944656}};

static const double total_cross_section = 1.0, scattering[2] = {0.5, 0.6}, external_source = 1.0;

/* The published results. A NaN is a value that nobody published. */
static const struct published {
  const char* problem;
  int cells; /* in every dimension */
  double change[ITERATIONS];
  int fixups[ITERATIONS];
  double balance[8]; /* source, absorption, leakage through low i, high i, low j, high j, low k, high k */
} published[] = {
    {"20",
     20,
     {1.0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 2.23836954762e-05},
     {0, 0, 0, 0, 0, 0, 0, 14928, 14112, 14064, 14064, 14064},
     {0.216, 0.101793290446, -0.01903450148391, 0.01903450148391, -0.01903450148391, 0.01903450148391,
      -0.01903450199300, 0.01903450199300}},
    {"50",
     50,
     {1.00000000000000000, 1.77512975262900663, 0.659083802218004111, 0.305348671948976524, 0.141234079272600122,
      0.627896461395282685e-01, 0.266955948954897340e-01, 0.199563042302687288e-01, 0.568793011796733545e-02,
      0.185412756334039897e-02, 0.681074826574155846e-03, 0.261752203210804436e-03},
     {0, 0, 0, 0, 0, 0, 0, 12000, 11712, 11664, 11664, 11664},
     {4.09599999999970255, 3.34341746482859037, -0.125419419635145579, 0.125419419635145551, -0.125419419635144441,
      0.125419419635144469, -0.125419421915668072, 0.125419421915668072}},
    {"150",
     150,
     {1.00000000000000000, 197.571812853557844, 1.43683571069505467, 0.659707702712034161, 0.403871684044252277,
      0.260737026547890050, 0.169897955140099949, 0.246048595763034422, 0.704761545149895641e-01,
      0.436432705023295370e-01, 0.267308565945803892e-01, 0.155931674061009842e-01},
     {0, 0, 0, 0, 0, 0, 0, 873936, 835176, 818336, 809760, 804960},
     {125.000000000232802, 124.346866770809299, -0.104657868098360335, 0.104657868098360418, -0.104657868098357143,
      0.104657868098357032, -0.104657869207649634, 0.104657869207649579}}};

static const char* const balance_names[8] = {"external source", "absorption",     "leakage low i", "leakage high i",
                                             "leakage low j",   "leakage high j", "leakage low k", "leakage high k"};

/* `problem` must be one of them: app_begin takes no other class. */
static const struct published* find_problem(const char* problem) {
  size_t i = 0;
  while (strcmp(published[i].problem, problem) != 0) ++i;
  return &published[i];
}

#endif
