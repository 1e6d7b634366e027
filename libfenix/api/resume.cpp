// SPDX-License-Identifier: LGPL-2.1-or-later
#include "resume.h"

#include <cstdio>
#include <vector>

#include "fenix_exception.hpp"
#include "library.h"
#include "process/calls.h"
#include "process/quiet.h"

namespace fnx {
namespace {

struct Registered {
  Callback function;
  void *data;
};
std::vector<Registered> callbacks;
Outputs outputs{nullptr, nullptr, nullptr, nullptr};

void print(int error) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(error, text, &length);
  fprintf(stderr, "Fenix: an error that is no process failure: %s\n", text);
}

void unhandled(int error) {
  if (settings().unhandled == FENIX_UNHANDLED_SILENT) return;
  print(error);
  if (settings().unhandled == FENIX_UNHANDLED_ABORT) {
    fprintf(stderr, "Fenix: the job is ended; with FENIX_UNHANDLED_MODE PRINT or SILENT the call would return the error\n");
    MPI_Abort(MPI_COMM_WORLD, error);
  }
}

/** Some calls report one error for several requests. */
bool is_failure(int error) {
  return tells_failure(error) || (error_class(error) == MPI_ERR_IN_STATUS && process_if_any() && process().sees_failure());
}

void repair() {
  try {
    process().recover();
  } catch (const Failure &failure) {
    print(failure.error);
    fprintf(stderr, "Fenix: MPI cannot repair the communicator: the job is ended\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

/** No object with a destructor may live in this function and in its callers: callbacks may jump, or throw. */
void call_back(int error) {
  const int epoch = process().epoch();
  for (std::size_t i = callbacks.size(); i-- > 0;) {
    if (i >= callbacks.size()) continue;  // a callback has dropped others
    callbacks[i].function(process().comm(), error, callbacks[i].data);
    if (process().epoch() != epoch) return;  // a failure in it: all have been called anew
  }
}

}  // namespace

void set_outputs(const Outputs &given) { outputs = given; }

void publish() {
  const Process &now = process();
  *outputs.role = static_cast<int>(now.role());
  *outputs.newcomm = now.comm();
  if (outputs.fortran) *outputs.fortran = MPI_Comm_c2f(now.comm());
  *outputs.error = now.depleted() ? FENIX_WARNING_SPARE_RANKS_DEPLETED : FENIX_SUCCESS;
}

void add_callback(Callback function, void *data) { callbacks.push_back({function, data}); }

bool drop_callback() {
  if (callbacks.empty()) return false;
  callbacks.pop_back();
  return true;
}

void drop_all_callbacks() { callbacks.clear(); }

int recover(int error) {
  repair();
  return resume(error);
}

int resume(int error) {
  publish();
  call_back(error);
  if (settings().resume == FENIX_RESUME_JUMP) longjmp(*outputs.point, 1);
  if (settings().resume == FENIX_RESUME_THROW) throw fenix::CommException(process().comm(), error);
  return error_class(error);
}

void fenix_live_error(MPI_Comm *, int *error, ...) {
  if (Quiet::now() || *error == MPI_SUCCESS) return;
  if (is_failure(*error))
    recover(*error);
  else
    unhandled(*error);
}

void fenix_stale_error(MPI_Comm *, int *error, ...) {
  if (Quiet::now() || tells_failure(*error) || error_class(*error) == MPI_ERR_IN_STATUS) return;
  unhandled(*error);
}

}  // namespace fnx
