// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "base/error.h"

namespace fnx {

template <class T>
T &need(T *pointer, const char *name) {
  if (!pointer) throw Error(Code::no_category, std::string(name) + " is NULL: pass an address");
  return *pointer;
}

}  // namespace fnx
