// SPDX-License-Identifier: GPL-2.0-only
// Full waveform inversion, in three levels: the master has the model of the underground, slaves work on shots, workers on parts
// of the field of a shot.
#pragma once

#include "wave.h"

/** What all tasks are told. It is copied as bytes. */
struct Setup {
  Grid grid;
  int shots, workers;
  int clause;  // of the tasks of the slaves: croff_recover
};

/** Arrays of a shot: a trace is what a receiver records in time, [column][step]. */
inline int points(const Grid &grid) { return grid.columns * grid.depth; }
inline int samples(const Grid &grid) { return grid.columns * grid.steps; }

/** Tasks of the slaves: what the receivers record of a shot in this model. */
void observe_shot(const double *model, double *traces, Setup setup, int shot);
/** How the model must change to explain the traces, and how badly it does, by columns. */
void invert_shot(const double *model, const double *observed, double *gradient, double *misfit, Setup setup, int shot);

/** The same without workers, in this process. */
void observe_alone(const double *model, double *traces, const Setup &setup, int shot);
void invert_alone(const double *model, const double *observed, double *gradient, double *misfit, const Setup &setup, int shot);
