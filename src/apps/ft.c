/* SPDX-License-Identifier: Apache-2.0
 *
 * In short: 3-D Fourier transform, all-to-all
 * Ranks: a power of two
 * Classes: S W A B C D
 *
 * FT of the NAS parallel benchmarks: a heat equation solved with Fourier transforms. A random complex grid of
 * nx * ny * nz points is transformed once; then in each iteration the transformed grid decays by one step of time and a
 * copy of it is transformed back, of which 1024 points are summed.
 *
 * Decomposition: `columns` ranks over z and `rows` ranks over y; rank = row + rows * column. Up to nz ranks there is
 * one row, so that a rank has whole planes (1-D layout); beyond, nz columns and ranks / nz rows (2-D layout).
 *   stage x: all x, y over the rows,    z over the columns     (where the grid starts and ends)
 *   stage y: all y, x over the rows,    z over the columns
 *   stage z: all z, x over the rows,    y over the columns     (where the transformed grid stays)
 *
 * Messages: one Alltoall between stages y and z with every transform, among the ranks of one row; in the 2-D layout one
 * more between x and y, among the ranks of one column. One Reduce of the sum, 16 bytes, in each iteration.
 *
 * Lines are transformed FT_LINES at a time. The unit of memory is a cell: the complex numbers of one point of each of
 * so many neighbouring lines, first the real parts, then the imaginary parts. Lines lie beside each other in y at
 * stage x, in x at the other stages. Swapping the two parts of the cells turns a transform into its inverse.
 */
#include "app.h"
#include "random.h"

#ifndef FT_LINES
#define FT_LINES 16
#endif
#define FT_CELL ((size_t)2 * FT_LINES) /* doubles */
#define FT_POINTS 1024                 /* of the checksum */
#ifndef FT_COLUMNS_MOST                /* a smaller number tries the 2-D layout on few ranks */
#define FT_COLUMNS_MOST 65536
#endif

/* Checksums after each iteration, real and imaginary part, published. */
static const double ft_sums_s[][2] = {
    {5.546087004964e2, 4.845363331978e2}, {5.546385409189e2, 4.865304269511e2}, {5.546148406171e2, 4.883910722336e2},
    {5.545423607415e2, 4.901273169046e2}, {5.544255039624e2, 4.917475857993e2}, {5.542683411902e2, 4.932597244941e2},
};
static const double ft_sums_w[][2] = {
    {5.673612178944e2, 5.293246849175e2}, {5.631436885271e2, 5.282149986629e2}, {5.594024089970e2, 5.270996558037e2},
    {5.560698047020e2, 5.260027904925e2}, {5.530898991250e2, 5.249400845633e2}, {5.504159734538e2, 5.239212247086e2},
};
static const double ft_sums_a[][2] = {
    {5.046735008193e2, 5.114047905510e2}, {5.059412319734e2, 5.098809666433e2}, {5.069376896287e2, 5.098144042213e2},
    {5.077892868474e2, 5.101336130759e2}, {5.085233095391e2, 5.104914655194e2}, {5.091487099959e2, 5.107917842803e2},
};
static const double ft_sums_b[][2] = {
    {5.177643571579e2, 5.077803458597e2}, {5.154521291263e2, 5.088249431599e2}, {5.146409228649e2, 5.096208912659e2},
    {5.142378756213e2, 5.101023387619e2}, {5.139626667737e2, 5.103976610617e2}, {5.137423460082e2, 5.105948019802e2},
    {5.135547056878e2, 5.107404165783e2}, {5.133910925466e2, 5.108576573661e2}, {5.132470705390e2, 5.109577278523e2},
    {5.131197729984e2, 5.110460304483e2}, {5.130070319283e2, 5.111252433800e2}, {5.129070537032e2, 5.111968077718e2},
    {5.128182883502e2, 5.112616233064e2}, {5.127393733383e2, 5.113203605551e2}, {5.126691062020e2, 5.113735928093e2},
    {5.126064276004e2, 5.114218460548e2}, {5.125504076570e2, 5.114656139760e2}, {5.125002331720e2, 5.115053595966e2},
    {5.124551951846e2, 5.115415130407e2}, {5.124146770029e2, 5.115744692211e2},
};
static const double ft_sums_c[][2] = {
    {5.195078707457e2, 5.149019699238e2}, {5.155422171134e2, 5.127578201997e2}, {5.144678022222e2, 5.122251847514e2},
    {5.140150594328e2, 5.121090289018e2}, {5.137550426810e2, 5.121143685824e2}, {5.135811056728e2, 5.121496764568e2},
    {5.134569343165e2, 5.121870921893e2}, {5.133651975661e2, 5.122193250322e2}, {5.132955192805e2, 5.122454735794e2},
    {5.132410471738e2, 5.122663649603e2}, {5.131971141679e2, 5.122830879827e2}, {5.131605205716e2, 5.122965869718e2},
    {5.131290734194e2, 5.123075927445e2}, {5.131012720314e2, 5.123166486553e2}, {5.130760908195e2, 5.123241541685e2},
    {5.130528295923e2, 5.123304037599e2}, {5.130310107773e2, 5.123356167976e2}, {5.130103090133e2, 5.123399592211e2},
    {5.129905029333e2, 5.123435588985e2}, {5.129714421109e2, 5.123465164008e2},
};
static const double ft_sums_d[][2] = {
    {5.122230065252e2, 5.118534037109e2}, {5.120463975765e2, 5.117061181082e2}, {5.119865766760e2, 5.117096364601e2},
    {5.119518799488e2, 5.117373863950e2}, {5.119269088223e2, 5.117680347632e2}, {5.119082416858e2, 5.117967875532e2},
    {5.118943814638e2, 5.118225281841e2}, {5.118842385057e2, 5.118451629348e2}, {5.118769435632e2, 5.118649119387e2},
    {5.118718203448e2, 5.118820803844e2}, {5.118683569061e2, 5.118969781011e2}, {5.118661708593e2, 5.119098918835e2},
    {5.118649768950e2, 5.119210777066e2}, {5.118645605626e2, 5.119307604484e2}, {5.118647586618e2, 5.119391362671e2},
    {5.118654451572e2, 5.119463757241e2}, {5.118665212451e2, 5.119526269238e2}, {5.118679083821e2, 5.119580184108e2},
    {5.118695433664e2, 5.119626617538e2}, {5.118713748264e2, 5.119666538138e2}, {5.118733606701e2, 5.119700787219e2},
    {5.118754661974e2, 5.119730095953e2}, {5.118776626738e2, 5.119755100241e2}, {5.118799262314e2, 5.119776353561e2},
    {5.118822370068e2, 5.119794338060e2},
};

static const struct ft_class {
  const char* name;
  int n[3], iterations;
  const double (*sums)[2];
} ft_classes[] = {
    {"S", {64, 64, 64}, 6, ft_sums_s},     {"W", {128, 128, 32}, 6, ft_sums_w},
    {"A", {256, 256, 128}, 6, ft_sums_a},  {"B", {512, 256, 256}, 20, ft_sums_b},
    {"C", {512, 512, 512}, 20, ft_sums_c}, {"D", {2048, 1024, 1024}, 25, ft_sums_d},
};

/* The state of a run. */
static struct {
  size_t n[3];                      /* points in x, y, z */
  size_t rows, columns;             /* of ranks */
  size_t row, column;               /* of this rank */
  size_t x_local;                   /* x of this rank at stages y and z */
  size_t y_local[2];                /* y of this rank at stage x and at stage z */
  size_t z_local;                   /* z of this rank at stages x and y */
  size_t doubles;                   /* of a rank's part of the grid */
  MPI_Comm over_rows, over_columns; /* one rank of each row, of each column */
  double* roots[3];                 /* exp(2 pi i k / n), k = 0 .. n - 1, for each axis */
  double* decay[3];                 /* exp(-4 alpha pi^2 k'^2), k = 0 .. n - 1, for each axis */
  double *kept, *grid[2];           /* the transformed grid, and two for what is under way */
  double* line[2];                  /* one block of lines */
} ft;

static const struct ft_class* ft_find(const char* problem) {
  for (size_t i = 0; i < sizeof ft_classes / sizeof *ft_classes; ++i)
    if (strcmp(ft_classes[i].name, problem) == 0) return &ft_classes[i];
  return &ft_classes[0];
}

static int ft_columns(const struct ft_class* class, int ranks) {
  int most = class->n[2] < FT_COLUMNS_MOST ? class->n[2] : FT_COLUMNS_MOST;
  return ranks < most ? ranks : most;
}

static int ft_fits(const char* problem, int ranks, char* why, size_t room) {
  const struct ft_class* class = ft_find(problem);
  int columns = ft_columns(class, ranks), side = class->n[0] < class->n[1] ? class->n[0] : class->n[1];
  if ((ranks & (ranks - 1)) == 0 && ranks / columns <= side / FT_LINES) return 1;
  snprintf(why, room, "the number of ranks must be a power of two and at most %d", class->n[2] * (side / FT_LINES));
  return 0;
}

static double ft_memory(const char* problem, int ranks) {
  const struct ft_class* class = ft_find(problem);
  double points = 1, sum = 0, side = 0;
  for (int a = 0; a < 3; ++a) {
    points *= class->n[a];
    sum += class->n[a];
    side = class->n[a] > side ? class->n[a] : side;
  }
  return 8 * (3 * 2 * points / ranks + 2 * (double)FT_CELL * side + 3 * sum) + 16 * 64;
}

static const struct application ft_application = {
    .name = "FT",
    .operations = "floating point",
    .classes = "S W A B C D",
    .options = "",
    .fits = ft_fits,
    .memory_bytes = ft_memory,
};

/* ---- transforms of a block of lines ---- */

/* The transform of four cells, `from` doubles apart, into four that are `to` doubles apart, of which the last three are
 * multiplied by the roots w (real and imaginary part of each) unless they are all 1. `re` is where the real parts stand
 * in a cell: 0, or FT_LINES for the inverse. */
static inline void ft_four(const double* in, size_t from, double* out, size_t to, size_t re, const double w[6],
                           const int ones) {
  const size_t im = FT_LINES - re;
  const double *re_a = in + re, *re_b = re_a + from, *re_c = re_b + from, *re_d = re_c + from;
  const double *im_a = in + im, *im_b = im_a + from, *im_c = im_b + from, *im_d = im_c + from;
  double *re_0 = out + re, *re_1 = re_0 + to, *re_2 = re_1 + to, *re_3 = re_2 + to;
  double *im_0 = out + im, *im_1 = im_0 + to, *im_2 = im_1 + to, *im_3 = im_2 + to;
#pragma GCC ivdep
  for (int l = 0; l < FT_LINES; ++l) {
    const double sum_ac_re = re_a[l] + re_c[l], sum_ac_im = im_a[l] + im_c[l];
    const double off_ac_re = re_a[l] - re_c[l], off_ac_im = im_a[l] - im_c[l];
    const double sum_bd_re = re_b[l] + re_d[l], sum_bd_im = im_b[l] + im_d[l];
    const double off_bd_re = re_b[l] - re_d[l], off_bd_im = im_b[l] - im_d[l];
    const double re1 = off_ac_re - off_bd_im, im1 = off_ac_im + off_bd_re;
    const double re2 = sum_ac_re - sum_bd_re, im2 = sum_ac_im - sum_bd_im;
    const double re3 = off_ac_re + off_bd_im, im3 = off_ac_im - off_bd_re;
    re_0[l] = sum_ac_re + sum_bd_re;
    im_0[l] = sum_ac_im + sum_bd_im;
    re_1[l] = ones ? re1 : w[0] * re1 - w[1] * im1;
    im_1[l] = ones ? im1 : w[0] * im1 + w[1] * re1;
    re_2[l] = ones ? re2 : w[2] * re2 - w[3] * im2;
    im_2[l] = ones ? im2 : w[2] * im2 + w[3] * re2;
    re_3[l] = ones ? re3 : w[4] * re3 - w[5] * im3;
    im_3[l] = ones ? im3 : w[4] * im3 + w[5] * re3;
  }
}

/* One pass of radix 4 over lines that are made of `stride` interleaved sets of 4 * quarter points; `stride` roots of
 * the table are one root of this pass. */
static void ft_pass4(const double* in, double* out, size_t quarter, size_t stride, size_t re, const double* roots) {
  for (size_t p = 0; p < quarter; ++p) {
    double w[6];
    for (size_t i = 0; i < 3; ++i) {
      w[2 * i] = roots[2 * (i + 1) * p * stride];
      w[2 * i + 1] = roots[2 * (i + 1) * p * stride + 1];
    }
    for (size_t q = 0; q < stride; ++q) {
      ft_four(in + (q + stride * p) * FT_CELL, quarter * stride * FT_CELL, out + (q + stride * 4 * p) * FT_CELL,
              stride * FT_CELL, re, w, 0);
    }
  }
}

/* The last pass if it is one of radix 4. */
static void ft_last4(const double* in, double* out, size_t stride, size_t re) {
  const double w[6] = {1, 0, 1, 0, 1, 0};
  for (size_t q = 0; q < stride; ++q)
    ft_four(in + q * FT_CELL, stride * FT_CELL, out + q * FT_CELL, stride * FT_CELL, re, w, 1);
}

/* The last pass if it is one of radix 2; the parts of a cell need no names here. */
static void ft_last2(const double* restrict in, double* restrict out, size_t stride) {
  const size_t step = stride * FT_CELL;
  for (size_t i = 0; i < step; ++i) {
    double a = in[i], b = in[step + i];
    out[i] = a + b;
    out[step + i] = a - b;
  }
}

/* Transforms a block of lines of n cells, n >= 8 a power of two, forward (re = 0) or back (re = FT_LINES), without a
 * factor. Both blocks are overwritten; returns the one with the result. */
static double* ft_lines(size_t n, size_t re, const double* restrict roots, double* in, double* other) {
  size_t left = n, stride = 1;
  double *from = in, *to = other;
  for (; left > 4; left /= 4, stride *= 4) {
    ft_pass4(from, to, left / 4, stride, re, roots);
    double* swapped = from;
    from = to;
    to = swapped;
  }
  if (left == 4) {
    ft_last4(from, to, stride, re);
  } else {
    ft_last2(from, to, stride);
  }
  return to;
}

/* ---- stages ---- */

/* Turns a square of FT_LINES cells, so that lines beside each other become points of a line. */
static inline void ft_turn(const double* restrict from, double* restrict to) {
  for (size_t part = 0; part < FT_CELL; part += FT_LINES) {
    for (size_t j = 0; j < FT_LINES; ++j)
      for (size_t i = 0; i < FT_LINES; ++i) to[j * FT_CELL + part + i] = from[i * FT_CELL + part + j];
  }
}

/* Where the parts that are exchanged among the rows stand, in doubles: [row][z][block of y][x], cells of y. */
static inline size_t ft_at_xy(size_t row, size_t z, size_t block, size_t x) {
  return (((row * ft.z_local + z) * (ft.y_local[0] / FT_LINES) + block) * ft.x_local + x) * FT_CELL;
}

/* The same among the columns: [column][y][block of x][z], cells of x. */
static inline size_t ft_at_yz(size_t column, size_t y, size_t block, size_t z) {
  return (((column * ft.y_local[1] + y) * (ft.x_local / FT_LINES) + block) * ft.z_local + z) * FT_CELL;
}

/* Transforms plane z along x: forward from the grid to parts for the rows, back from such parts to the grid. With one
 * row they are the same, and it may be done in place. */
static void ft_along_x(double* from, double* to, size_t z, size_t re) {
  const size_t blocks = ft.y_local[0] / FT_LINES, length = ft.n[0] * FT_CELL, part = ft.x_local * FT_CELL;
  const int forward = re == 0;
  for (size_t block = 0; block < blocks; ++block) {
    const size_t at = (z * blocks + block) * length;
    double* line = from + at;
    if (!forward && ft.rows > 1) {
      line = ft.line[1];
      for (size_t row = 0; row < ft.rows; ++row)
        memcpy(line + row * part, from + ft_at_xy(row, z, block, 0), part * sizeof *line);
    }
    const double* done = ft_lines(ft.n[0], re, ft.roots[0], line, ft.line[0]);
    if (forward && ft.rows > 1) {
      for (size_t row = 0; row < ft.rows; ++row)
        memcpy(to + ft_at_xy(row, z, block, 0), done + row * part, part * sizeof *line);
    } else if (done != to + at) {
      memcpy(to + at, done, length * sizeof *line);
    }
  }
}

/* Transforms plane z along y: forward from parts of the rows to parts for the columns, and back. */
static void ft_along_y(const double* from, double* to, size_t z, size_t re) {
  const size_t each = ft.y_local[0], square = FT_LINES * FT_CELL;
  for (size_t block = 0; block < ft.x_local / FT_LINES; ++block) {
    double* line = ft.line[0];
    if (re == 0) {
      for (size_t y = 0; y < ft.n[1]; y += FT_LINES)
        ft_turn(from + ft_at_xy(y / each, z, y % each / FT_LINES, block * FT_LINES), line + y / FT_LINES * square);
    } else {
      for (size_t y = 0; y < ft.n[1]; ++y) {
        memcpy(line + y * FT_CELL, from + ft_at_yz(y / ft.y_local[1], y % ft.y_local[1], block, z),
               FT_CELL * sizeof *line);
      }
    }
    const double* done = ft_lines(ft.n[1], re, ft.roots[1], line, ft.line[1]);
    if (re == 0) {
      for (size_t y = 0; y < ft.n[1]; ++y) {
        memcpy(to + ft_at_yz(y / ft.y_local[1], y % ft.y_local[1], block, z), done + y * FT_CELL,
               FT_CELL * sizeof *line);
      }
    } else {
      for (size_t y = 0; y < ft.n[1]; y += FT_LINES)
        ft_turn(done + y / FT_LINES * square, to + ft_at_xy(y / each, z, y % each / FT_LINES, block * FT_LINES));
    }
  }
}

/* Transforms along z from parts of the columns to the kept grid: [y][block of x][z], cells of x. */
static void ft_along_z(const double* from) {
  const size_t blocks = ft.x_local / FT_LINES, length = ft.n[2] * FT_CELL, part = ft.z_local * FT_CELL;
  for (size_t y = 0; y < ft.y_local[1]; ++y) {
    for (size_t block = 0; block < blocks; ++block) {
      for (size_t column = 0; column < ft.columns; ++column)
        memcpy(ft.line[0] + column * part, from + ft_at_yz(column, y, block, 0), part * sizeof *from);
      const double* done = ft_lines(ft.n[2], 0, ft.roots[2], ft.line[0], ft.line[1]);
      memcpy(ft.kept + (y * blocks + block) * length, done, length * sizeof *done);
    }
  }
}

/* Lets the kept grid decay by one step and transforms a copy back along z, to parts for the columns. */
static void ft_decay_along_z(double* to) {
  const size_t blocks = ft.x_local / FT_LINES, length = ft.n[2] * FT_CELL, part = ft.z_local * FT_CELL;
  for (size_t y = 0; y < ft.y_local[1]; ++y) {
    for (size_t block = 0; block < blocks; ++block) {
      const double* restrict in_x = ft.decay[0] + ft.row * ft.x_local + block * FT_LINES;
      const double in_y = ft.decay[1][ft.column * ft.y_local[1] + y];
      double* restrict kept = ft.kept + (y * blocks + block) * length;
      double* restrict line = ft.line[0];
      for (size_t z = 0; z < ft.n[2]; ++z) {
        const double in_yz = in_y * ft.decay[2][z];
        double* restrict cell = kept + z * FT_CELL;
        double* restrict copy = line + z * FT_CELL;
        for (size_t l = 0; l < FT_LINES; ++l) {
          const double factor = in_yz * in_x[l];
          const double re = cell[l] * factor, im = cell[FT_LINES + l] * factor;
          cell[l] = copy[l] = re;
          cell[FT_LINES + l] = copy[FT_LINES + l] = im;
        }
      }
      const double* done = ft_lines(ft.n[2], FT_LINES, ft.roots[2], line, ft.line[1]);
      for (size_t column = 0; column < ft.columns; ++column)
        memcpy(to + ft_at_yz(column, y, block, 0), done + column * part, part * sizeof *done);
    }
  }
}

/* Exchanges equal parts among the ranks of a communicator. */
static void ft_swap_parts(const double* from, double* to, size_t ranks, MPI_Comm among) {
  int count = (int)(ft.doubles / ranks);
  MPI_Alltoall(from, count, MPI_DOUBLE, to, count, MPI_DOUBLE, among);
}

/* Transforms the grid at stage x, which is grid[0], into the kept grid. */
static void ft_forward(void) {
  double *a = ft.grid[0], *b = ft.grid[1];
  for (size_t z = 0; z < ft.z_local; ++z) {
    ft_along_x(a, ft.rows > 1 ? b : a, z, 0);
    if (ft.rows == 1) ft_along_y(a, b, z, 0); /* while the plane is in the cache */
  }
  if (ft.rows > 1) {
    ft_swap_parts(b, a, ft.rows, ft.over_rows);
    for (size_t z = 0; z < ft.z_local; ++z) ft_along_y(a, b, z, 0);
  }
  if (ft.columns > 1) ft_swap_parts(b, a, ft.columns, ft.over_columns);
  ft_along_z(ft.columns > 1 ? a : b);
}

/* One step of time of the kept grid; returns a copy of it transformed back, at stage x. */
static const double* ft_step(void) {
  double *a = ft.grid[0], *b = ft.grid[1];
  ft_decay_along_z(a);
  if (ft.columns > 1) {
    ft_swap_parts(a, b, ft.columns, ft.over_columns);
    a = ft.grid[1];
    b = ft.grid[0];
  }
  for (size_t z = 0; z < ft.z_local; ++z) {
    ft_along_y(a, b, z, FT_LINES);
    if (ft.rows == 1) ft_along_x(b, b, z, FT_LINES);
  }
  if (ft.rows > 1) {
    ft_swap_parts(b, a, ft.rows, ft.over_rows);
    for (size_t z = 0; z < ft.z_local; ++z) ft_along_x(a, b, z, FT_LINES);
  }
  return b;
}

/* ---- set-up and result ---- */

/* The tables of each axis, and random numbers in grid[0]: x fastest, then y, z; real before imaginary part. */
static void ft_set_up(void) {
  const double pi = acos(-1.0), alpha = 1e-6;
  for (int a = 0; a < 3; ++a) {
    const size_t n = ft.n[a], half = n / 2;
    for (size_t k = 0; k < n; ++k) {
      const double angle = 2 * pi * (double)k / (double)n;
      const double folded = (double)((k + half) % n) - (double)half; /* -n/2 .. n/2 - 1 */
      ft.roots[a][2 * k] = cos(angle);
      ft.roots[a][2 * k + 1] = sin(angle);
      ft.decay[a][k] = exp(-4 * alpha * pi * pi * folded * folded);
    }
  }
  double* cell = ft.grid[0];
  for (size_t z = ft.column * ft.z_local; z < (ft.column + 1) * ft.z_local; ++z) {
    for (size_t y = ft.row * ft.y_local[0]; y < (ft.row + 1) * ft.y_local[0]; y += FT_LINES) {
      uint64_t states[FT_LINES];
      for (size_t l = 0; l < FT_LINES; ++l) states[l] = random_after(314159265, 2 * ft.n[0] * (y + l + ft.n[1] * z));
      for (size_t x = 0; x < ft.n[0]; ++x, cell += FT_CELL) {
        for (size_t l = 0; l < FT_LINES; ++l) {
          cell[l] = random_next(&states[l]);
          cell[FT_LINES + l] = random_next(&states[l]);
        }
      }
    }
  }
}

/* The sum of FT_POINTS points of a grid at stage x, divided by the number of points of the grid; on rank 0. */
static void ft_checksum(const double* grid, double sums[2]) {
  double own[2] = {0, 0};
  const double points = (double)ft.n[0] * (double)ft.n[1] * (double)ft.n[2];
  for (size_t j = 1; j <= FT_POINTS; ++j) {
    const size_t x = j % ft.n[0], y = 3 * j % ft.n[1], z = 5 * j % ft.n[2];
    if (y / ft.y_local[0] != ft.row || z / ft.z_local != ft.column) continue;
    const size_t in_y = y % ft.y_local[0], line = z % ft.z_local * (ft.y_local[0] / FT_LINES) + in_y / FT_LINES;
    const double* number = grid + (line * ft.n[0] + x) * FT_CELL + in_y % FT_LINES;
    own[0] += number[0];
    own[1] += number[FT_LINES];
  }
  own[0] /= points;
  own[1] /= points;
  MPI_Reduce(own, sums, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}

/* The published bound is |found - expected| <= 1e-12 |expected|; it holds if both parts keep to its 1/sqrt(2). */
static void ft_verify(int iteration, const double found[2], const double expected[2]) {
  const double bound = 1e-12 * sqrt(0.5) * hypot(expected[0], expected[1]);
  for (int part = 0; part < 2; ++part) {
    char what[48];
    snprintf(what, sizeof what, "checksum %d %s", iteration, part ? "imaginary" : "real");
    app_check(what, found[part], expected[part], bound / fabs(expected[part]));
  }
}

int main(int argc, char** argv) {
  app_begin(&ft_application, argc, argv);
  const struct ft_class* class = ft_find(app.problem);
  int numbers[5] = {class->n[0], class->n[1], class->n[2], class->iterations, ft_columns(class, app.ranks)};
  if (app.rank > 0) memset(numbers, 0, sizeof numbers);
  for (int i = 0; i < 5; ++i) MPI_Bcast(&numbers[i], 1, MPI_INT, 0, MPI_COMM_WORLD);
  const int iterations = numbers[3];
  size_t longest = 0;
  for (int a = 0; a < 3; ++a) {
    ft.n[a] = (size_t)numbers[a];
    longest = ft.n[a] > longest ? ft.n[a] : longest;
  }
  ft.columns = (size_t)numbers[4];
  ft.rows = (size_t)app.ranks / ft.columns;
  ft.row = (size_t)app.rank % ft.rows;
  ft.column = (size_t)app.rank / ft.rows;
  ft.x_local = ft.n[0] / ft.rows;
  ft.y_local[0] = ft.n[1] / ft.rows;
  ft.y_local[1] = ft.n[1] / ft.columns;
  ft.z_local = ft.n[2] / ft.columns;
  ft.doubles = 2 * ft.n[0] * ft.y_local[0] * ft.z_local;
  MPI_Comm_split(MPI_COMM_WORLD, (int)ft.column, (int)ft.row, &ft.over_rows);
  MPI_Comm_split(MPI_COMM_WORLD, (int)ft.row, (int)ft.column, &ft.over_columns);
  ft.kept = app_allocate(ft.doubles, sizeof *ft.kept);
  for (int i = 0; i < 2; ++i) {
    ft.grid[i] = app_allocate(ft.doubles, sizeof **ft.grid);
    ft.line[i] = app_allocate(longest * FT_CELL, sizeof **ft.line);
  }
  for (int a = 0; a < 3; ++a) {
    ft.roots[a] = app_allocate(2 * ft.n[a], sizeof **ft.roots);
    ft.decay[a] = app_allocate(ft.n[a], sizeof **ft.decay);
  }

  /* untimed: everything once */
  ft_set_up();
  ft_forward();

  MPI_Barrier(MPI_COMM_WORLD);
  const double begun = MPI_Wtime();
  ft_set_up();
  ft_forward();
  for (int iteration = 1; iteration <= iterations; ++iteration) {
    double sums[2] = {0, 0};
    ft_checksum(ft_step(), sums);
    ft_verify(iteration, sums, class->sums[iteration - 1]);
  }
  /* Rank 0 has the last sum only after all ranks gave theirs, so its time is that of the slowest. */
  const double seconds = MPI_Wtime() - begun;

  for (int i = 0; i < 2; ++i) {
    free(ft.grid[i]);
    free(ft.line[i]);
  }
  for (int a = 0; a < 3; ++a) {
    free(ft.roots[a]);
    free(ft.decay[a]);
  }
  free(ft.kept);
  MPI_Comm_free(&ft.over_rows);
  MPI_Comm_free(&ft.over_columns);
  char size[48];
  snprintf(size, sizeof size, "%dx%dx%d", numbers[0], numbers[1], numbers[2]);
  const double points = (double)numbers[0] * numbers[1] * numbers[2], factors = log(points);
  return app_end(size, iterations, seconds,
                 points * (14.8157 + 7.19641 * factors + (5.23518 + 7.21113 * factors) * iterations));
}
