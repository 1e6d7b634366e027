/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A stand-in for S3D: five fields flow and spread in a periodic box, with the numerical methods of S3D.
 *
 *   s3d EDGE STEPS [EVERY [SPARES [CFL]]]     EDGE: points of a rank along each axis; EVERY: steps between snapshots, 0: none
 *
 * Compiled with FENIX it recovers by itself. bench/fenix/changed counts the lines that this takes.
 *
 * Space: centred differences of eighth order. Time: six stages and fourth order with two registers, RK46-NL of J. Berland, C. Bogey
 * and C. Bailly, "Low-dissipation and low-dispersion fourth-order Runge-Kutta algorithm", Computers & Fluids 35 (2006), 1459-1463.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef FENIX
#include <fenix.h>
#endif

#include "record.h"

enum { kFields = 5, kHalo = 4, kStages = 6 };

static const double kPi = 3.14159265358979323846;
/* Of the neighbours at 1 to 4 steps: antisymmetric for the first derivative, symmetric for the second, which has kCentre, too. */
static const double kFirst[kHalo] = {4. / 5, -1. / 5, 4. / 105, -1. / 280};
static const double kSecond[kHalo] = {8. / 5, -1. / 5, 8. / 315, -1. / 560}, kCentre = -205. / 72;
static const double kA[kStages] = {0, -0.737101392796, -1.634740794341, -0.744739003780, -1.469897351522, -2.813971388035};
static const double kB[kStages] = {0.032918605146, 0.823256998200, 0.381530948900, 0.200092213184, 1.718581042715, 0.27};
/* Each field is a wave with its own direction, velocity and diffusivity. */
static const double kWave[kFields][3] = {{1, 1, 1}, {1, 2, 1}, {2, 1, -1}, {1, -1, 2}, {2, -1, 1}};
static const double kSpeed[kFields][3] = {{1, 0.5, 0.25}, {-0.5, 1, 0.5}, {0.25, -0.5, 1}, {0.75, 0.25, -1}, {-1, -0.75, 0.5}};
static const double kSpread[kFields] = {0.01, 0.02, 0.005, 0.015, 0.01};

static int edge, rank, ranks, parts[3], first[3], whole[3], below[3], above[3];
static double *now, *change, *padded, *out, *in; /* the fields; register of the time steps; with the neighbours' points; messages */
static double cfl = 0.5, step_time;
static int steps, every, spares, step;

static void *room(size_t count)
{
  void *memory = calloc(count, sizeof(double));

  if (memory) return memory;
  fprintf(stderr, "s3d: no memory for %zu numbers: choose a smaller EDGE\n", count);
  exit(1);
}

/* What this rank has of the box. */
static void divide(MPI_Comm comm)
{
  int at[3], other[3];

  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  memset(parts, 0, sizeof parts);
  MPI_Dims_create(ranks, 3, parts);
  at[0] = rank % parts[0];
  at[1] = rank / parts[0] % parts[1];
  at[2] = rank / parts[0] / parts[1];
  step_time = 1;
  for (int axis = 0; axis < 3; axis++) {
    first[axis] = at[axis] * edge;
    whole[axis] = parts[axis] * edge;
    if (2 * kPi / whole[axis] < step_time) step_time = 2 * kPi / whole[axis];
    memcpy(other, at, sizeof other);
    other[axis] = (at[axis] + 1) % parts[axis];
    above[axis] = (other[2] * parts[1] + other[1]) * parts[0] + other[0];
    other[axis] = (at[axis] + parts[axis] - 1) % parts[axis];
    below[axis] = (other[2] * parts[1] + other[1]) * parts[0] + other[0];
  }
  step_time *= cfl;
  if (now) return;
  const size_t points = (size_t) kFields * edge * edge * edge, side = edge + 2 * kHalo;
  now = room(points);
  change = room(points);
  padded = room(kFields * side * side * side);
  out = room((size_t) kFields * edge * edge * kHalo);
  in = room((size_t) kFields * edge * edge * kHalo);
}

static double *row(int field, int z, int y)
{
  const size_t side = edge + 2 * kHalo;

  return padded + ((field * side + z) * side + y) * side;
}

static void start(void)
{
  double *value = now, angle;

  for (int field = 0; field < kFields; field++)
    for (int z = 0; z < edge; z++)
      for (int y = 0; y < edge; y++)
        for (int x = 0; x < edge; x++) {
          angle = kWave[field][0] * (2 * kPi * (first[0] + x) / whole[0]) + kWave[field][1] * (2 * kPi * (first[1] + y) / whole[1]) +
                  kWave[field][2] * (2 * kPi * (first[2] + z) / whole[2]);
          *value++ = sin(angle);
        }
}

/* The layers from `begin` on along an axis, of all fields, to a message or from it. */
static int layers(int axis, int begin, double *message, int pack)
{
  int low[3] = {kHalo, kHalo, kHalo}, high[3] = {kHalo + edge, kHalo + edge, kHalo + edge}, count = 0;

  low[axis] = begin;
  high[axis] = begin + kHalo;
  for (int field = 0; field < kFields; field++)
    for (int z = low[2]; z < high[2]; z++)
      for (int y = low[1]; y < high[1]; y++) {
        double *line = row(field, z, y) + low[0];
        const int length = high[0] - low[0];
        memcpy(pack ? message + count : line, pack ? line : message + count, length * sizeof *line);
        count += length;
      }
  return count;
}

/* Neighbours' points. No derivative is mixed, so the corners stay as they are. */
static void exchange(MPI_Comm comm)
{
  const double *value = now;
  int count;

  for (int field = 0; field < kFields; field++)
    for (int z = 0; z < edge; z++)
      for (int y = 0; y < edge; y++, value += edge) memcpy(row(field, z + kHalo, y + kHalo) + kHalo, value, edge * sizeof *value);
  for (int axis = 0; axis < 3; axis++) {
    count = layers(axis, kHalo, out, 1);
    MPI_Sendrecv(out, count, MPI_DOUBLE, below[axis], axis, in, count, MPI_DOUBLE, above[axis], axis, comm, MPI_STATUS_IGNORE);
    layers(axis, kHalo + edge, in, 0);
    layers(axis, edge, out, 1);
    MPI_Sendrecv(out, count, MPI_DOUBLE, above[axis], axis + 3, in, count, MPI_DOUBLE, below[axis], axis + 3, comm, MPI_STATUS_IGNORE);
    layers(axis, 0, in, 0);
  }
}

static void advance(MPI_Comm comm)
{
  const long stride[3] = {1, edge + 2 * kHalo, (edge + 2L * kHalo) * (edge + 2 * kHalo)};
  double flow[3], spread[3];

  for (int stage = 0; stage < kStages; stage++) {
    double *value = now, *register_ = change;
    exchange(comm);
    for (int field = 0; field < kFields; field++) {
      for (int axis = 0; axis < 3; axis++) {
        flow[axis] = -kSpeed[field][axis] * whole[axis] / (2 * kPi);
        spread[axis] = kSpread[field] * (whole[axis] / (2 * kPi)) * (whole[axis] / (2 * kPi));
      }
      for (int z = 0; z < edge; z++)
        for (int y = 0; y < edge; y++) {
          const double *point = row(field, z + kHalo, y + kHalo) + kHalo;
          for (int x = 0; x < edge; x++, point++) {
            double rate = 0;
            for (int axis = 0; axis < 3; axis++) {
              const double *const at = point;
              const long s = stride[axis];
              const double slope = kFirst[0] * (at[s] - at[-s]) + kFirst[1] * (at[2 * s] - at[-2 * s]) +
                                   kFirst[2] * (at[3 * s] - at[-3 * s]) + kFirst[3] * (at[4 * s] - at[-4 * s]);
              const double curve = kCentre * at[0] + kSecond[0] * (at[s] + at[-s]) + kSecond[1] * (at[2 * s] + at[-2 * s]) +
                                   kSecond[2] * (at[3 * s] + at[-3 * s]) + kSecond[3] * (at[4 * s] + at[-4 * s]);
              rate = rate + flow[axis] * slope + spread[axis] * curve;
            }
            *register_ = kA[stage] * *register_ + step_time * rate;
            *value++ += kB[stage] * *register_++;
          }
        }
    }
  }
  step++;
}

/*
 * Largest distance from the solution of the equations, or from that of the differences in space, which shows the error of the time
 * steps alone: a wave stays one, with another velocity and decay.
 */
static double distance(int of_time)
{
  const double time = step * step_time, *value = now;
  double largest = 0;

  for (int field = 0; field < kFields; field++) {
    double phase = 0, decay = 0;
    for (int axis = 0; axis < 3; axis++) {
      const double k = kWave[field][axis], h = 2 * kPi / whole[axis];
      double slope = k, curve = -k * k;
      if (of_time) {
        slope = 0;
        curve = kCentre / (h * h);
        for (int i = 0; i < kHalo; i++) {
          slope += 2 * kFirst[i] * sin((i + 1) * k * h) / h;
          curve += 2 * kSecond[i] * cos((i + 1) * k * h) / (h * h);
        }
      }
      phase += kSpeed[field][axis] * slope * time;
      decay += kSpread[field] * curve * time;
    }
    for (int z = 0; z < edge; z++)
      for (int y = 0; y < edge; y++)
        for (int x = 0; x < edge; x++) {
          const double angle = kWave[field][0] * (2 * kPi * (first[0] + x) / whole[0]) +
                               kWave[field][1] * (2 * kPi * (first[1] + y) / whole[1]) +
                               kWave[field][2] * (2 * kPi * (first[2] + z) / whole[2]);
          largest = fmax(largest, fabs(*value++ - exp(decay) * sin(angle - phase)));
        }
  }
  return largest;
}

static void say(MPI_Comm comm, double seconds)
{
  const int own[3] = {edge, edge, edge};
  double errors[2] = {distance(0), distance(1)}, all[2];
  int64_t sum = record_checksum(now, kFields, own, first, whole), total;

  MPI_Reduce(errors, all, 2, MPI_DOUBLE, MPI_MAX, 0, comm);
  MPI_Reduce(&sum, &total, 1, MPI_INT64_T, MPI_SUM, 0, comm);
  if (rank == 0)
    printf("s3d: %d ranks of %d^3 points, %d steps to time %.6g, %.3f s, error %.6e, of time %.6e, checksum %016llx\n", ranks, edge, step,
           step * step_time, seconds, all[0], all[1], (unsigned long long) total);
}

#ifdef FENIX
static const int kGroup = 0;

static void check(int code)
{
  if (code == FENIX_SUCCESS) return;
  fprintf(stderr, "s3d: error %d: %s\n", code, fenix_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}
#endif

int main(int argc, char **argv)
{
  static MPI_Comm comm;
  double begun;

  if (argc < 3 || (edge = atoi(argv[1])) < kHalo || (steps = atoi(argv[2])) < 0) {
    fprintf(stderr, "usage: s3d EDGE STEPS [EVERY [SPARES [CFL]]]    EDGE from %d\n", kHalo);
    return 2;
  }
  if (argc > 3) every = atoi(argv[3]);
  if (argc > 4) spares = atoi(argv[4]);
  if (argc > 5 && atof(argv[5]) > 0) cfl = atof(argv[5]);
  MPI_Init(&argc, &argv);
#ifdef FENIX
  static int role, error;
  Fenix_Init(&role, MPI_COMM_WORLD, &comm, &argc, &argv, spares, 1, MPI_INFO_NULL, &error);
  if (error < 0) return 1;
#else
  comm = MPI_COMM_WORLD;
#endif
  begun = record_now();
  divide(comm);
  record(kBegun, begun, step, rank);
  record_deaths(rank);
#ifdef FENIX
  check(Fenix_Data_group_create(kGroup, comm, 0, 0, FENIX_DATA_POLICY_IN_MEMORY_RAID, NULL, NULL));
  check(Fenix_Data_member_create(kGroup, 0, now, kFields * edge * edge * edge, MPI_DOUBLE));
  check(Fenix_Data_member_create(kGroup, 1, &step, 1, MPI_INT));
  if (Fenix_Data_member_restore(kGroup, 0, NULL, kFields * edge * edge * edge, FENIX_DATA_SNAPSHOT_LATEST, NULL) == FENIX_SUCCESS) {
    check(Fenix_Data_member_restore(kGroup, 1, NULL, 1, FENIX_DATA_SNAPSHOT_LATEST, NULL));
    record(kRestored, begun, step, rank);
  } else {
    step = 0;
    start();
  }
#else
  start();
#endif
  while (step < steps) {
    advance(comm);
    if (rank == 0) {
      record(kStep, record_now(), step, rank);
      printf("step %d\n", step);
      fflush(stdout);
    }
#ifdef FENIX
    if (every && step % every == 0 && step < steps) {
      const double from = record_now();
      check(Fenix_Data_member_store(kGroup, FENIX_DATA_MEMBER_ALL, FENIX_DATA_SUBSET_FULL));
      check(Fenix_Data_commit_barrier(kGroup, NULL));
      record(kCheckpoint, from, step, rank);
    }
#endif
  }
  say(comm, record_now() - begun);
#ifdef FENIX
  check(Fenix_Finalize());
#endif
  MPI_Finalize();
  return 0;
}
