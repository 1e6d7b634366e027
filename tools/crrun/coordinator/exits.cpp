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

ExitMeaning Exits::exited(Rank rank, int wait_status, bool finalized, bool initialized, Remedy remedy, bool wave) {
  if (rank >= has_ended_.size()) return ExitMeaning::fine;
  const bool first = !has_ended_[rank];
  has_ended_[rank] = true;
  ended_ += first;
  const bool well = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0 && (finalized || !initialized);
  // Before MPI_Init is complete nobody can be told.
  if (!well && initialized && remedy == Remedy::program) {
    if (!told_code_) told_code_ = code_of(wait_status);
    told_ += first;
    replaced_ = false;
    return ExitMeaning::tell;
  }
  if (WIFSIGNALED(wait_status)) {
    const bool pointless = own_fault(WTERMSIG(wait_status)) && !wave;
    if (remedy == Remedy::images && !pointless && restarts_[rank] < max_restarts_) {
      ++restarts_[rank];
      return ExitMeaning::restart;
    }
    if (!code_) code_ = code_of(wait_status);
    return ExitMeaning::end_job;
  }
  if (well) return ExitMeaning::fine;
  if (!code_) code_ = code_of(wait_status);
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

int Exits::code_of(int wait_status) {
  if (WIFSIGNALED(wait_status)) return 128 + WTERMSIG(wait_status);
  return WEXITSTATUS(wait_status) ? WEXITSTATUS(wait_status) : 1;
}

std::string Exits::words(int wait_status) {
  if (WIFSIGNALED(wait_status))
    return "was killed by signal " + std::to_string(WTERMSIG(wait_status)) + " (" + strsignal(WTERMSIG(wait_status)) +
           ")" + (WCOREDUMP(wait_status) ? ", core dumped" : "");
  return "ended with exit code " + std::to_string(WEXITSTATUS(wait_status));
}

}  // namespace reprise::job
