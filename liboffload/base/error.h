// SPDX-License-Identifier: LGPL-2.1-or-later
// Errors inside the library: a code of croff.h, and a text that names the thing and the way out.
#pragma once

#include <stdexcept>
#include <string>

namespace croff {

enum class Code : int {  // the values of croff.h, which needs MPI
  ok = 0, init, argument, group, function, spawn, lost, task, attempts, masters, engine, memory
};

class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string &text) : std::runtime_error(text), code(code) {}
  const Code code;
};

}  // namespace croff
