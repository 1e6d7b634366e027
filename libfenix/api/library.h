// SPDX-License-Identifier: LGPL-2.1-or-later
// The one instance of the library in this process.
#pragma once

#include <functional>
#include <memory>

#include "base/error.h"
#include "fenix.h"
#include "process/process.h"

namespace fnx {

struct Settings {
  Fenix_Recovery_mode recovery = FENIX_RECOVERY_REPAIR;
  Fenix_Resume_mode resume = FENIX_RESUME_JUMP;
  bool resume_chosen = false;  // by the program
  Fenix_Unhandled_mode unhandled = FENIX_UNHANDLED_ABORT;
};
Settings &settings();

/** The process recovery of this process. @throw Error(uninitialized) before Fenix_Init and after Fenix_Finalize */
Process &process();
/** The same, or nullptr. */
Process *process_if_any();
void set_process(std::unique_ptr<Process> made);

/** Remember the text for fenix_last_error(). @return the code */
int tell(const Error &error);

/**
 * Call `work`, and turn what it throws into a return code of fenix.h. After a process failure the program goes on as its resume
 * mode says: this may not return. All objects of `work` are gone then, and callers must not have any that need a destructor.
 */
int guarded(const std::function<int()> &work);

}  // namespace fnx
