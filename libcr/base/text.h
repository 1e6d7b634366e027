// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Small helpers for messages. */
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/codes.h"

namespace reprise {

/** @return @p value as maps files show addresses, without 0x */
inline std::string hex(std::uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(value));
  return text;
}

/** @return errno or CR_E... in words; @p err may be negative */
inline std::string error_text(long err) {
  const int code = static_cast<int>(err < 0 ? -err : err);
  const char* const text = code_text(code);
  return text ? text : std::strerror(code);
}

}  // namespace reprise
