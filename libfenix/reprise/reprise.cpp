// SPDX-License-Identifier: LGPL-2.1-or-later
#include "reprise.h"

#include <libcr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fault.h"
#include "process/calls.h"
#include "find_services.h"

namespace fnx {
namespace {

constexpr char kMemory[] = "fenix";  // name of the kept memory

/** @return why this process cannot go back; "": it can */
std::string problem_of(const cr_rank_services *services, MPI_Comm comm) {
  MPI_Comm parent;
  MPI_Comm_get_parent(&parent);
  if (!services)
    return "the engine reprise needs crrun and its transport crtcp: start the program by crrun --shared DIR, and leave OMPI_MCA_btl "
           "alone";
  if (const char *why = services->no_waves()) return std::string("the engine reprise needs waves: ") + why;
  if (parent != MPI_COMM_NULL)
    return "the engine reprise is for the ranks that crrun has started: do not call Fenix_Init in spawned processes";
  if (size_of(comm) != size_of(MPI_COMM_WORLD))
    return "the engine reprise takes all ranks back: pass a communicator that has all of MPI_COMM_WORLD";
  return "";
}

}  // namespace

ReprisedProcess::ReprisedProcess(MPI_Comm_errhandler_function *unhandled) { MPI_Comm_create_errhandler(unhandled, &unhandled_); }

ReprisedProcess::~ReprisedProcess() {
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  MPI_Errhandler_free(&unhandled_);
}

/** All refuse what one has to refuse: it would wait for a wave that never comes. */
void ReprisedProcess::agree(const std::string &problem) const {
  int mine = problem.empty(), all = 0;
  check(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm_));
  if (all) return;
  throw Error(Code::internal, problem.empty() ? "another rank has refused it, and has said why" : problem);
}

/** The memory is there before the wave: a rollback takes later memory away. */
void ReprisedProcess::keep_memory(std::size_t bytes) {
  void *at = nullptr;
  std::string problem;
  const int fd = cr_kept_alloc(kMemory, bytes, 0, &at);
  if (fd < 0)
    problem = std::string("there is no memory for the store: ") + strerror(errno) + ": give FENIX_MEMORY fewer bytes";
  else
    close(fd);
  agree(problem);
  arena_.emplace(at, bytes);
}

void ReprisedProcess::begin(MPI_Comm comm, std::size_t bytes) {
  services_ = cr_find_rank_services();
  check(MPI_Comm_dup(comm, &comm_));
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  rank_ = rank_in(comm_);
  agree(problem_of(services_, comm_));
  keep_memory(bytes);
  fault("waiting");
  const cr_pin_outcome outcome = services_->pin_wave(0);  // survivors and restarted ranks come back to here
  epoch_ = outcome == CR_PIN_TAKEN ? 0 : 1;
  if (epoch_) fault("back");
  const int mine = static_cast<int>(outcome == CR_PIN_TAKEN       ? Role::initial
                                    : outcome == CR_PIN_BACK_LOST ? Role::recovered
                                                                  : Role::survivor);
  std::vector<int> all(static_cast<std::size_t>(size_of(comm_)));
  check(MPI_Allgather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, comm_));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    roles_.push_back(static_cast<Role>(all[rank]));
    if (roles_.back() == Role::recovered) lost_.push_back(static_cast<int>(rank));
  }
  MPI_Comm_set_errhandler(comm_, unhandled_);
}

/** crtcp hides failures: nobody can have told of one. */
void ReprisedProcess::recover() { throw Failure{MPI_ERR_INTERN}; }

bool ReprisedProcess::finish() {
  check(MPI_Barrier(comm_));  // until all are here, all go back if one is lost
  services_->release_wave();
  MPI_Comm_free(&comm_);
  return true;
}

void ReprisedProcess::progressed() {
  if (epoch_ && rank_ == 0 && !told_) told_ = services_->progressed();
}

/** MPI would name the host of the start. */
std::string ReprisedProcess::host() const {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace fnx
