// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Turn failures of system calls on image files into Errors that say what to do about them. */
#include <string>

#include "base/error.h"

namespace reprise::image {

/** @return the kind of failure of an open, write or sync of an image that failed with errno @p err */
Failure classify(int err);

/** @throws Error "NAME: WHAT: strerror", for some errors followed by "; " and advice. Its kind is classify(@p err). */
[[noreturn]] void throw_system(const std::string& name, const std::string& what, int err);

}  // namespace reprise::image
