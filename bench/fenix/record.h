/* SPDX-License-Identifier: GPL-2.0-only */
/**
 * @file record.h
 * What the benchmark has to know of a run, for the programs in C and in Fortran: times, planned deaths, a checksum. None of it is
 * needed for recovery.
 *
 * S3D_FOLDER names a directory on this node. `begin` in it has the time at which the first rank came, `log` a line for each
 * record: what, from, to (seconds since `begin`), step, rank. Without the variable nothing is recorded, and nobody dies.
 */
#ifndef BENCH_FENIX_RECORD_H
#define BENCH_FENIX_RECORD_H

#include <stdint.h>

/** Seconds since `begin` (or since 1970 without a folder). */
double record_now(void);

/** Write a line to the log. `what` is a number, the same for both languages. */
enum { kCheckpoint = 1, kBegun = 2, kRestored = 3, kStep = 4 };
void record(int what, double from, int step, int rank);

/**
 * This process is `rank` now: let the kernel kill it (SIGKILL, wherever it is then) at the first future time that S3D_KILLS has for
 * this rank: SECONDS:RANK[,SECONDS:RANK]…
 */
void record_deaths(int rank);

/**
 * Sum over all elements of a scrambled word of the element's bits and its place in the whole grid: it does not depend on how the
 * grid is divided, and differs if a bit differs.
 * @param values fields of own[2] × own[1] × own[0] numbers
 */
int64_t record_checksum(const double *values, int fields, const int own[3], const int first[3], const int whole[3]);

#endif
