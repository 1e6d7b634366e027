// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Small helpers for messages. */
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/codes.h"

namespace reprise {

/** @return @p value in hexadecimal without 0x, as /proc/PID/maps shows addresses */
inline std::string hex(std::uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(value));
  return text;
}

/** @return the text for an errno value or CR_E… code; @p err may be negative */
inline std::string error_text(long err) {
  const int code = static_cast<int>(err < 0 ? -err : err);
  const char* const text = code_text(code);
  return text ? text : std::strerror(code);
}

}  // namespace reprise
