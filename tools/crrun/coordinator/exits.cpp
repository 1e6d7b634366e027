// SPDX-License-Identifier: GPL-2.0-only
#include "exits.h"

#include <sys/wait.h>

#include <csignal>
#include <cstring>

namespace reprise::job {

namespace {
/** Signals that a program's own error causes: started from the beginning, without a wave, it would fail again. */
bool own_fault(int signal) {
  switch (signal) {
    case SIGSEGV: case SIGBUS: case SIGFPE: case SIGILL: case SIGABRT: case SIGSYS: case SIGTRAP: return true;
    default: return false;
  }
}
}  // namespace

Exits::Exits(std::uint32_t ranks, unsigned max_restarts) : has_ended_(ranks, false), max_restarts_(max_restarts) {}

ExitMeaning Exits::exited(Rank rank, int wait_status, bool finalized, bool initialized, bool recoverable, bool wave) {
  if (rank >= has_ended_.size()) return ExitMeaning::fine;
  if (!has_ended_[rank]) {
    has_ended_[rank] = true;
    ++ended_;
  }
  if (WIFSIGNALED(wait_status)) {
    const bool pointless = own_fault(WTERMSIG(wait_status)) && !wave;
    if (recoverable && !pointless && restarts_[rank] < max_restarts_) {
      ++restarts_[rank];
      return ExitMeaning::restart;
    }
    if (!code_) code_ = 128 + WTERMSIG(wait_status);
    return ExitMeaning::end_job;
  }
  const int status = WEXITSTATUS(wait_status);
  if (status == 0 && (finalized || !initialized)) return ExitMeaning::fine;
  // Like mpirun: an exit without MPI_Finalize while others communicate is an error.
  if (!code_) code_ = status ? status : 1;
  return ExitMeaning::end_job;
}

void Exits::rolled_back() {
  has_ended_.assign(has_ended_.size(), false);
  ended_ = 0;
  code_ = 0;
}

unsigned Exits::restarts(Rank rank) const {
  const auto found = restarts_.find(rank);
  return found == restarts_.end() ? 0 : found->second;
}

std::string Exits::words(int wait_status) {
  if (WIFSIGNALED(wait_status))
    return "was killed by signal " + std::to_string(WTERMSIG(wait_status)) + " (" + strsignal(WTERMSIG(wait_status)) +
           ")" + (WCOREDUMP(wait_status) ? ", core dumped" : "");
  return "ended with exit code " + std::to_string(WEXITSTATUS(wait_status));
}

}  // namespace reprise::job
