// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The one exception type of libcr; tools turn it into a message and an exit code. */
#include <stdexcept>
#include <string>

#include "base/stage.h"

namespace reprise {

/** Kinds of failure, by what the caller can do about them. The values are the exit codes of the commands. */
enum class Failure {
  usage = 2,       ///< the arguments are wrong
  refused = 3,     ///< cannot be checkpointed or restored; nothing has changed
  temporary = 4,   ///< a later attempt can succeed: busy, did not stop in time, disk full
  permanent = 5,   ///< broken: damaged image, I/O error, target lost
};

class Error : public std::runtime_error {
 public:
  /**
   * @param kind  kind of failure
   * @param code  errno value or CR_E…, 0 if none
   * @param text  message for the user: names the object that failed and, where possible, what to do about it
   */
  Error(Failure kind, int code, const std::string& text)
      : std::runtime_error(text), kind_(kind), code_(code), stage_(current_stage()) {}
  Failure kind() const { return kind_; }
  int code() const { return code_; }
  /** Stage of the thread that constructed the Error. */
  Stage stage() const { return stage_; }

 private:
  Failure kind_;
  int code_;
  Stage stage_;
};

/**
 * Throw an Error with the text "WHAT: strerror". Its kind is temporary for ENOSPC, EAGAIN, EMFILE, ENFILE and ENOMEM,
 * otherwise permanent.
 */
[[noreturn]] void fail_errno(int code, const std::string& what);

}  // namespace reprise
