// SPDX-License-Identifier: LGPL-2.1-or-later
#include "spawn.h"

#include <limits.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/fault.h"
#include "process/calls.h"

namespace fnx {
namespace {

constexpr char kMark[] = "--fenix-recovered";  // the last argument of a new process
constexpr int kGo = 1;                         // tag

std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> words;
  for (std::size_t at = 0; at < all.size(); at += words.back().size() + 1) words.emplace_back(all.c_str() + at);
  return words;
}

/** The program by a path that does not depend on the working directory or on PATH. */
std::string program(const std::string &called) {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return called;
  path[length] = 0;
  return access(path, X_OK) == 0 ? path : called;  // else it was replaced meanwhile
}

}  // namespace

MPI_Comm spawn(MPI_Comm living, int count) {
  std::vector<std::string> words = command_line();
  if (words.empty()) words.push_back("");
  if (words.back() != kMark) words.push_back(kMark);
  std::vector<char *> arguments;
  for (std::size_t i = 1; i < words.size(); ++i) arguments.push_back(words[i].data());
  arguments.push_back(nullptr);
  MPI_Comm inter = MPI_COMM_NULL, all = MPI_COMM_NULL;
  bool good = MPI_Comm_spawn(program(words[0]).c_str(), arguments.data(), count, MPI_INFO_NULL, 0, living, &inter,
                             MPI_ERRCODES_IGNORE) == MPI_SUCCESS;
  if (!good) inter = MPI_COMM_NULL;
  if (good) MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
  fault("spawned");
  good = all_agree(living, good);
  if (good) {
    // No failure can interrupt a new process in MPI_Intercomm_merge: it begins when all others are about to.
    for (int i = 0; rank_in(living) == 0 && i < count; ++i) MPI_Send(nullptr, 0, MPI_BYTE, i, kGo, inter);
    good = MPI_Intercomm_merge(inter, 0, &all) == MPI_SUCCESS;
    if (!good) MPIX_Comm_revoke(inter);  // the others do not wait for this process
    good = all_agree(living, good);
  }
  if (!good) {  // the new processes see it, and end
    if (all != MPI_COMM_NULL) MPIX_Comm_revoke(all);
    if (inter != MPI_COMM_NULL) MPIX_Comm_revoke(inter);
    return MPI_COMM_NULL;
  }
  MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
  // If this one fails before all are told, the others see that these end.
  const int size = size_of(living);
  for (int i = 0; rank_in(living) == 0 && i < count; ++i) MPI_Send(nullptr, 0, MPI_BYTE, size + i, kGo, all);
  MPI_Comm_free(&living);
  MPI_Comm_free(&inter);
  return all;
}

bool is_newcomer() {
  const std::vector<std::string> words = command_line();
  MPI_Comm parent;
  MPI_Comm_get_parent(&parent);
  return parent != MPI_COMM_NULL && !words.empty() && words.back() == kMark;
}

MPI_Comm join() {
  MPI_Comm parent, all;
  MPI_Comm_get_parent(&parent);
  MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
  if (MPI_Recv(nullptr, 0, MPI_BYTE, 0, kGo, parent, MPI_STATUS_IGNORE) != MPI_SUCCESS) _exit(1);
  if (MPI_Intercomm_merge(parent, 1, &all) != MPI_SUCCESS) _exit(1);
  MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
  if (MPI_Recv(nullptr, 0, MPI_BYTE, 0, kGo, all, MPI_STATUS_IGNORE) != MPI_SUCCESS) _exit(1);
  MPI_Comm_free(&parent);
  return all;
}

void hide_mark(int *argc, char ***argv) {
  if (!argc || !argv || *argc < 1 || strcmp((*argv)[*argc - 1], kMark)) return;
  (*argv)[--*argc] = nullptr;
}

}  // namespace fnx
