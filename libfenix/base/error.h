// SPDX-License-Identifier: LGPL-2.1-or-later
// What ends a call of the library: an error with a code of fenix.h and a text that names the way out, or a process failure.
#pragma once

#include <stdexcept>
#include <string>

namespace fnx {

enum class Code : int {  // the values of fenix.h, which needs MPI
  ok = 0,
  uninitialized = -9,
  no_category = -10,
  callback_not_registered = -11,
  group_create = -12,
  member_create = -13,
  commit_barrier = -133,
  group_id = -14,
  member_id = -15,
  logic_call = -155,
  time_stamp = -16,
  depth = -17,
  attribute_name = -18,
  attribute_value = -19,
  position = -20,
  data_wait = -21,
  subset_blocks = -22,
  subset_start = -23,
  subset_end = -24,
  subset_stride = -25,
  no_data = -30,
  internal = -40,
  cancelled = -50,
  setting_name = -51,
  setting_option = -52,
  spares_depleted = 100,
  partial_restore = 101
};

class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string &text) : std::runtime_error(text), code(code) {}
  const Code code;
};

/** A call of MPI has failed. It is thrown inside the library, where communicators have MPI_ERRORS_RETURN. */
struct Failure {
  int error;  // MPI's error code
};

}  // namespace fnx
