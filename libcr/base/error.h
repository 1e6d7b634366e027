// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The one exception type of libcr; tools turn it into a message and an exit code. */
#include <stdexcept>
#include <string>

#include "base/stage.h"

namespace reprise {

/** What the caller can do about it; also the exit codes of the commands. */
enum class Failure {
  usage = 2,       ///< the call's own arguments are wrong
  refused = 3,     ///< cannot be checkpointed or restored; nothing has changed
  temporary = 4,   ///< try again: busy, did not stop in time, disk full
  permanent = 5,   ///< broken: damaged image, I/O error, target lost
};

class Error : public std::runtime_error {
 public:
  /** @param code errno value, 0 if none; @param text names the thing and the way out */
  Error(Failure kind, int code, const std::string& text)
      : std::runtime_error(text), kind_(kind), code_(code), stage_(current_stage()) {}
  Failure kind() const { return kind_; }
  int code() const { return code_; }
  /** Where the thread was that threw it. */
  Stage stage() const { return stage_; }

 private:
  Failure kind_;
  int code_;
  Stage stage_;
};

/** "text: strerror (way out)" as an Error of the given kind. */
[[noreturn]] void fail_errno(int code, const std::string& what);

}  // namespace reprise
