// SPDX-License-Identifier: LGPL-2.1-or-later
// Settings, callbacks, and what can be asked of process recovery.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "library.h"
#include "need.h"
#include "process/calls.h"
#include "process/quiet.h"
#include "resume.h"

namespace {

using fnx::Code, fnx::Error, fnx::guarded, fnx::need, fnx::process;

[[noreturn]] void unknown_option(const char *setting, unsigned option) {
  throw Error(Code::setting_option, std::string(setting) + " cannot be " + std::to_string(option) + ": see the enumeration in fenix.h");
}

/** Rank of the resilient communicator of a rank of `comm`. */
int resilient_rank(MPI_Comm comm, int rank) {
  if (comm == MPI_COMM_NULL) throw Error(Code::no_category, "comm is MPI_COMM_NULL: pass the resilient communicator");
  MPI_Group theirs, ours;
  int size = 0, found = MPI_UNDEFINED;
  MPI_Comm_group(comm, &theirs);
  MPI_Comm_group(process().comm(), &ours);
  MPI_Group_size(theirs, &size);
  if (rank >= 0 && rank < size) MPI_Group_translate_ranks(theirs, 1, &rank, ours, &found);
  MPI_Group_free(&theirs);
  MPI_Group_free(&ours);
  if (found == MPI_UNDEFINED)
    throw Error(Code::no_category, "rank " + std::to_string(rank) + " is not in the resilient communicator: ask for another one");
  return found;
}

/** A program that looks at no return code would wait for it in vain. */
[[noreturn]] void refuse_callback() {
  static bool said;
  const Error error(Code::logic_call, "no callback can be registered with the engine reprise: a recovery takes it and its data back to "
                                      "Fenix_Init; do its work after Fenix_Init where role is FENIX_ROLE_SURVIVOR_RANK");
  if (fnx::rank_in(process().comm()) == 0 && !std::exchange(said, true)) fprintf(stderr, "Fenix_Callback_register: %s\n", error.what());
  throw error;
}

}  // namespace

int Fenix_set_option(Fenix_Setting_name setting, unsigned option) {
  return guarded([&] {
    fnx::Settings &settings = fnx::settings();
    switch (setting) {
      case FENIX_RECOVERY_MODE:
        if (option != FENIX_RECOVERY_REPAIR && option != FENIX_RECOVERY_SPAWN) unknown_option("FENIX_RECOVERY_MODE", option);
        if (fnx::process_if_any()) throw Error(Code::setting_option, "FENIX_RECOVERY_MODE is fixed by Fenix_Init: set it before");
        settings.recovery = static_cast<Fenix_Recovery_mode>(option);
        return FENIX_SUCCESS;
      case FENIX_RESUME_MODE:
        if (option > FENIX_RESUME_THROW) unknown_option("FENIX_RESUME_MODE", option);
        if (option == FENIX_RESUME_RETURN && fnx::process_if_any() && process().goes_back())
          throw Error(Code::setting_option, "FENIX_RESUME_RETURN: with the engine reprise no call returns an error of a failure: survivors "
                                            "return from Fenix_Init");
        settings.resume = static_cast<Fenix_Resume_mode>(option);
        settings.resume_chosen = true;
        return FENIX_SUCCESS;
      case FENIX_UNHANDLED_MODE:
        if (option > FENIX_UNHANDLED_ABORT) unknown_option("FENIX_UNHANDLED_MODE", option);
        settings.unhandled = static_cast<Fenix_Unhandled_mode>(option);
        return FENIX_SUCCESS;
    }
    throw Error(Code::setting_name, "there is no setting " + std::to_string(setting) + ": see Fenix_Setting_name in fenix.h");
  });
}

int Fenix_get_option(Fenix_Setting_name setting, unsigned *option) {
  return guarded([&] {
    need(option, "option");
    switch (setting) {
      case FENIX_RECOVERY_MODE: *option = fnx::settings().recovery; return FENIX_SUCCESS;
      case FENIX_RESUME_MODE: *option = fnx::settings().resume; return FENIX_SUCCESS;
      case FENIX_UNHANDLED_MODE: *option = fnx::settings().unhandled; return FENIX_SUCCESS;
    }
    throw Error(Code::setting_name, "there is no setting " + std::to_string(setting) + ": see Fenix_Setting_name in fenix.h");
  });
}

int Fenix_Callback_register(void (*recover)(MPI_Comm, int, void *), void *data) {
  return guarded([&] {
    process();
    if (!recover) throw Error(Code::no_category, "recover is NULL: pass a function");
    if (process().goes_back()) refuse_callback();
    fnx::add_callback(recover, data);
    return FENIX_SUCCESS;
  });
}

int Fenix_Callback_pop(void) {
  return guarded([&] {
    process();
    if (!fnx::drop_callback())
      throw Error(Code::callback_not_registered, "there is no callback: register one by Fenix_Callback_register");
    return FENIX_SUCCESS;
  });
}

int Fenix_Process_detect_failures(int do_recovery) {
  bool found = false;
  const int code = guarded([&] {
    found = process().sees_failure();
    return FENIX_SUCCESS;
  });
  if (code != FENIX_SUCCESS || !found) return code;
  return do_recovery ? fnx::recover(MPIX_ERR_PROC_FAILED) : MPIX_ERR_PROC_FAILED;
}

int Fenix_get_number_of_ranks_with_role(int role, int *number) {
  return guarded([&] {
    need(number, "number");
    *number = 0;
    for (int rank = 0; rank < process().ranks(); ++rank) *number += static_cast<int>(process().role_of(rank)) == role;
    return FENIX_SUCCESS;
  });
}

int Fenix_get_role(MPI_Comm comm, int rank, int *role) {
  return guarded([&] {
    need(role, "role");
    process();
    *role = static_cast<int>(process().role_of(resilient_rank(comm, rank)));
    return FENIX_SUCCESS;
  });
}

int Fenix_get_rank_role(MPI_Comm comm, int rank, int *role) { return Fenix_get_role(comm, rank, role); }

int Fenix_get_error(void) {
  return guarded([] { return process().depleted() ? FENIX_WARNING_SPARE_RANKS_DEPLETED : FENIX_SUCCESS; });
}

int Fenix_get_nspare(void) {
  return guarded([] { return process().spares(); });
}

int Fenix_Process_fail_list(int **fail_list) {
  return guarded([&] {
    need(fail_list, "fail_list");
    const std::vector<int> &lost = process().lost();
    *fail_list = const_cast<int *>(lost.data());
    return static_cast<int>(lost.size());
  });
}

int Fenix_check_cancelled(MPI_Request *request, MPI_Status *status) {
  return guarded([&] {
    process();
    need(request, "request");
    const fnx::Quiet errors;
    int complete = 0;
    const int error = MPI_Test(request, &complete, status);
    return static_cast<int>(error != MPI_SUCCESS || !complete);
  });
}
