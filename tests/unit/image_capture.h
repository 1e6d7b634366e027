// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file An image of a real process, taken with ptrace, for the tests with debuggers. */
#include <sys/types.h>

#include <string>

#include "image_sample.h"

namespace reprise::test {

/** A running program; the destructor kills it. */
class Child {
 public:
  /** Starts @p program and waits for its first line. */
  explicit Child(const std::string& program);
  ~Child();
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

/** Stop @p pid, write an image of it to @p path, let it run on. */
void capture(pid_t pid, const std::string& path);

}  // namespace reprise::test
