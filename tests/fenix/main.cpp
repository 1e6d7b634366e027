// SPDX-License-Identifier: GPL-2.0-only
// fenix MODE [NAME=VALUE…]: programs that recover by Fenix. Ranks kill themselves where the command line says, or within the library
// (libfenix/base/fault.h).
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "modes.h"

const std::map<std::string, Mode> kModes{
    {"jump", {jump, "a ring, begun anew after each failure"}},
    {"returns", {returns, "the same with NO_JUMP"}},
    {"throws", {throws, "the same with exceptions"}},
    {"derived", {derived, "ranks that wait in several derived communicators"}},
    {"callbacks", {callbacks, "callbacks, and a failure in one"}},
    {"requests", {requests, "requests of before the failure"}},
    {"detect", {detect, "Fenix_Process_detect_failures"}},
    {"unhandled", {unhandled, "errors that are no failures"}},
    {"refusals", {refusals, "wrong calls"}},
    {"stored", {stored, "a program that goes back to its latest snapshot"}},
    {"smaller", {smaller, "data of ranks that have become fewer"}},
    {"queries", {queries, "what can be asked of data groups, and refused"}},
    {"cpp", {cpp, "the interface for C++"}},
    {"back", {back, "what the engine reprise brings back, and what it refuses"}},
    {"seven", {seven, "Fenix_Init with seven arguments, and Fenix_set_option"}},
};

Options options;
int argument_count;
char **arguments;
int role, error;
MPI_Comm comm;

int rank_now() {
  int rank;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

int size_now() {
  int size;
  MPI_Comm_size(comm, &size);
  return size;
}

void perhaps_die(const std::string &place) {
  if (options.kills.empty()) return;
  const std::string mine = place + ":" + std::to_string(rank_now());
  std::istringstream list(options.kills);
  for (std::string one; std::getline(list, one, ',');) {
    if (one != mine) continue;
    const int fd = open(("died-" + one).c_str(), O_CREAT | O_EXCL, 0600);
    if (fd >= 0) die();
  }
}

void result(const char *format, ...) {
  va_list values;
  va_start(values, format);
  fputs("result ", stdout);
  vprintf(format, values);
  putchar('\n');
  fflush(stdout);
  va_end(values);
}

static void take(const std::string &word) {
  const std::size_t at = word.find('=');
  const std::string name = word.substr(0, at), value = at == std::string::npos ? "" : word.substr(at + 1);
  if (name == "spares") options.spares = atoi(value.c_str());
  if (name == "spawn") options.spawn = atoi(value.c_str());
  if (name == "steps") options.steps = atoi(value.c_str());
  if (name == "depth") options.depth = atoi(value.c_str());
  if (name == "policy") options.policy = value;
  if (name == "way") options.way = value;
  if (name == "kill") options.kills = value;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  argument_count = argc;
  arguments = argv;
  for (int i = 2; i < argc; ++i) take(argv[i]);
  const auto mode = kModes.find(argc > 1 ? argv[1] : "");
  if (mode == kModes.end()) {
    for (const auto &[name, one] : kModes) fprintf(stderr, "%s: %s\n", name.c_str(), one.what);
    return 2;
  }
  mode->second.run();
  MPI_Finalize();
  return 0;
}
