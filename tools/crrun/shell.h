// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Words for a shell. */
#include <string>

namespace reprise::job {

/** @return the text as one word for a POSIX shell */
inline std::string shell_word(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace reprise::job
