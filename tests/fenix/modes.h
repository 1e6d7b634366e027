// SPDX-License-Identifier: GPL-2.0-only
// The modes of the program `fenix`. Each checks what it can by itself, and prints a line `result …` that must not depend on failures.
#pragma once

#include <fenix.h>

#include <string>

#include "mode.h"

/** What the command line says. */
struct Options {
  int spares = 0, spawn = 0;
  int steps = 12;
  int depth = 0;
  std::string policy, way;  // of the data group: numbers with colons; async, parts, local, derived
  std::string kills;  // PLACE:RANK,…: this rank of the resilient communicator dies there, once
};
extern Options options;
extern int argument_count;
extern char **arguments;

/** What Fenix_Init says. They are globals since it may return several times. */
extern int role, error;
extern MPI_Comm comm;
int rank_now();
int size_now();

/** This process dies here if the command line wants that of its rank and no other has done so. */
void perhaps_die(const std::string &place);
void result(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Fenix_Init with what the command line says, and this resume mode. */
#define INIT(mode)                                                                                                        \
  do {                                                                                                                    \
    MPI_Info info_;                                                                                                       \
    MPI_Info_create(&info_);                                                                                              \
    MPI_Info_set(info_, "FENIX_RESUME_MODE", mode);                                                                       \
    Fenix_Init(&role, MPI_COMM_WORLD, &comm, &argument_count, &arguments, options.spares, options.spawn, info_, &error); \
  } while (0)

// process.cpp
void jump();
void returns();
void throws();
void derived();
void callbacks();
void requests();
void detect();
void unhandled();
void refusals();
void seven();
void back();
// data.cpp
void stored();
void smaller();
void queries();
// cpp.cpp
void cpp();
