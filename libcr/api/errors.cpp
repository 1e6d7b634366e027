// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/errors.h"

#include <cerrno>
#include <cstring>

#include "base/codes.h"
#include "libcr.h"

namespace reprise::api {
namespace {

thread_local char t_sentence[512];

}  // namespace

int fail(int err, const char* sentence) {
  if (sentence == nullptr || *sentence == '\0') sentence = cr_strerror(err);
  std::strncpy(t_sentence, sentence, sizeof t_sentence - 1);
  errno = err;
  return -1;
}

void clear_error() { t_sentence[0] = '\0'; }

}  // namespace reprise::api

extern "C" {

const char* cr_strerror(int errnum) {
  const char* const text = reprise::code_text(errnum);
  return text ? text : std::strerror(errnum);
}

const char* cr_last_error(void) { return reprise::api::t_sentence; }

}  // extern "C"
