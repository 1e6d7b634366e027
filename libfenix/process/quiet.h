// SPDX-License-Identifier: LGPL-2.1-or-later
// Calls of the library on the program's communicators.
#pragma once

namespace fnx {

/** While one lives, calls on the program's communicators return their errors: the error handler does nothing. */
class Quiet {
 public:
  Quiet() { ++depth(); }
  ~Quiet() { --depth(); }
  Quiet(const Quiet &) = delete;
  Quiet &operator=(const Quiet &) = delete;
  static bool now() { return depth() > 0; }

 private:
  static int &depth() {
    static int value = 0;
    return value;
  }
};

}  // namespace fnx
