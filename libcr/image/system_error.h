// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Failures of system calls on image files as Errors that say what to do about them. */
#include <string>

#include "base/error.h"

namespace reprise::image {

/** What a failed write, sync or open of an image amounts to. */
Failure classify(int err);

/** @throws Error "NAME: what: reason (way out)" */
[[noreturn]] void throw_system(const std::string& name, const std::string& what, int err);

}  // namespace reprise::image
