// SPDX-License-Identifier: LGPL-2.1-or-later
#include "derived.h"

#include "process/calls.h"

namespace fnx {
namespace {

/** While it lives, an error that belongs to no communicator is returned. */
class Lenient {
 public:
  Lenient() {
    for (int i = 0; i < 2; ++i) {
      MPI_Comm_get_errhandler(comms_[i], &before_[i]);
      MPI_Comm_set_errhandler(comms_[i], MPI_ERRORS_RETURN);
    }
  }
  ~Lenient() {
    for (int i = 0; i < 2; ++i) {
      MPI_Comm_set_errhandler(comms_[i], before_[i]);
      MPI_Errhandler_free(&before_[i]);
    }
  }
  Lenient(const Lenient &) = delete;
  Lenient &operator=(const Lenient &) = delete;

 private:
  MPI_Comm comms_[2] = {MPI_COMM_WORLD, MPI_COMM_SELF};
  MPI_Errhandler before_[2];
};

}  // namespace

std::vector<MPI_Comm> with_handler(MPI_Errhandler handler) {
  std::vector<MPI_Comm> found;
#ifdef OPEN_MPI
  // Fortran's handles are indices of a table; Open MPI gives each communicator the lowest free one, and NULL for those without.
  constexpr int kGap = 4096;
  const Lenient lenient;  // the program may have freed one that is still needed for a request
  for (int index = 0, last = 0; index < last + kGap; ++index) {
    const MPI_Comm comm = MPI_Comm_f2c(index);
    if (!comm || comm == MPI_COMM_NULL) continue;
    last = index;
    MPI_Errhandler theirs;
    if (comm == MPI_COMM_WORLD || comm == MPI_COMM_SELF || MPI_Comm_get_errhandler(comm, &theirs) != MPI_SUCCESS) continue;
    if (theirs == handler) found.push_back(comm);
    MPI_Errhandler_free(&theirs);
  }
#else
#error "Fenix's engine ulfm is made for Open MPI 5: how are the communicators of a process found in this MPI?"
#endif
  return found;
}

void leave(const std::vector<MPI_Comm> &comms, MPI_Errhandler stale) {
  for (MPI_Comm comm : comms) {
    MPI_Comm_set_errhandler(comm, stale);
    MPIX_Comm_revoke(comm);
  }
}

}  // namespace fnx
