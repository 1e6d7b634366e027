// SPDX-License-Identifier: GPL-2.0-only
// offload MODE [ARGUMENT…]: programs that offload tasks. Faults come from the tasks themselves, from outside, or from
// CROFF_FAULT (liboffload/base/fault.h).
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "modes.h"

const std::map<std::string, Mode> kModes{
    {"stencil", {stencil, "N HOSTS PER_HOST STEPS: blocks of a line, exchanged by the boosters in each step"}},
    {"shared", {shared_stencil, "the same; all ranks are masters of one group"}},
    {"masters", {shared_domains, "two masters: domains that wait for each other, a task that fails"}},
    {"chain", {chain, "dependencies by regions"}},
    {"domains", {domains, "explicit domains that would wait for each other"}},
    {"peers", {peers, "sequential tasks of one domain"}},
    {"clearance", {clearance, "a finished task is executed again with its sibling"}},
    {"random", {random_tasks, "SEED TASKS KILLS: random regions and domains on two groups"}},
    {"lost", {lost, "a loss without recover"}},
    {"thrown", {thrown, "tasks that fail by themselves"}},
    {"refusals", {refusals, "wrong arguments"}},
    {"endless", {endless, "a task that always ends its booster"}},
    {"recursion", {recursion, "boosters with boosters"}},
    {"nested", {nested, "STOP: boosters with boosters, until this file is there"}},
    {"parricide", {parricide, "the boosters of a lost booster die"}},
};

static std::vector<std::string> words;

std::string word(int index, const std::string &otherwise) { return index < static_cast<int>(words.size()) ? words[index] : otherwise; }

int argument(int index, int otherwise) {
  const std::string text = word(index, "");
  return !text.empty() && isdigit(text[0]) ? atoi(text.c_str()) : otherwise;
}

bool first(const std::string &name) {
  const int fd = open(("first-" + name).c_str(), O_CREAT | O_EXCL, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  setvbuf(stdout, nullptr, _IOLBF, 0);
  words.assign(argv + 1, argv + argc);
  if (!words.empty() && words.back().rfind("croff-booster", 0) == 0) words.pop_back();
  CHECK(croff_taskwait() == CROFF_ERR_INIT);
  if (croff_init() != CROFF_OK) {
    fprintf(stderr, "%s\n", croff_last_error());
    return 2;
  }
  const auto mode = kModes.find(word(0, "stencil"));
  if (mode == kModes.end()) {
    for (const auto &[name, one] : kModes) fprintf(stderr, "%s: %s\n", name.c_str(), one.what);
    return 2;
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const double begin = MPI_Wtime();
  try {
    mode->second.run();
  } catch (const croff::error &error) {
    fprintf(stderr, "offload %s: error %d: %s\n", mode->first.c_str(), error.code, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  croff_counts counts;
  croff_count(&counts);
  MPI_Finalize();
  if (rank == 0)
    printf("offload %s: done in %.3f s; %lu tasks, %lu executions, %lu replacements, %lu merges, %lu bytes staged\n", mode->first.c_str(),
           MPI_Wtime() - begin, counts.tasks, counts.executions, counts.replacements, counts.merges, counts.staged);
  return 0;
}
