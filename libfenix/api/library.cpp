// SPDX-License-Identifier: LGPL-2.1-or-later
#include "library.h"

#include <new>
#include <string>

#include "process/calls.h"
#include "resume.h"

namespace fnx {
namespace {

std::unique_ptr<Process> the_process;
Settings the_settings;
std::string last_error;

/** What has ended the work. Without a destructor: guarded() may be left by a jump. */
struct Outcome {
  int code;
  int failure;  // MPI's error, or MPI_SUCCESS
};

Outcome attempt(const std::function<int()> &work) {
  try {
    return {work(), MPI_SUCCESS};
  } catch (const Error &error) {
    return {tell(error), MPI_SUCCESS};
  } catch (const Failure &failure) {
    if (tells_failure(failure.error) || process().sees_failure()) return {0, failure.error};
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(failure.error, text, &length);
    return {tell(Error(Code::internal, std::string("MPI has failed, though no process has: ") + text)), MPI_SUCCESS};
  } catch (const std::bad_alloc &) {
    return {tell(Error(Code::internal, "there is too little memory: store less, or keep fewer snapshots (depth)")), MPI_SUCCESS};
  }
}

}  // namespace

Settings &settings() { return the_settings; }

Process *process_if_any() { return the_process.get(); }

Process &process() {
  if (!the_process)
    throw Error(Code::uninitialized, "Fenix is not initialized: call Fenix_Init first, and nothing after Fenix_Finalize");
  return *the_process;
}

void set_process(std::unique_ptr<Process> made) { the_process = std::move(made); }

int tell(const Error &error) {
  last_error = error.what();
  return static_cast<int>(error.code);
}

int guarded(const std::function<int()> &work) {
  const Outcome outcome = attempt(work);
  return outcome.failure == MPI_SUCCESS ? outcome.code : recover(outcome.failure);
}

}  // namespace fnx

const char *fenix_last_error(void) { return fnx::last_error.c_str(); }
