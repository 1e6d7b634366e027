// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/helper/outcome.h"

#include <cerrno>
#include <new>

#include "base/codes.h"
#include "base/error.h"
#include "libcr.h"

namespace reprise::api {
namespace {

bool of_library(int code) { return code > CR_MIN_ERRCODE && code < CR_MAX_ERRCODE; }

/** Whether an errno is more specific than CR_EREFUSED. */
bool telling(int code) {
  switch (code) {
    case EPERM:
    case EACCES:
    case ESRCH:
    case EEXIST:
    case ENOSYS:
    case ENOENT:
    case ENOSPC: return true;
    default: return false;
  }
}

int code_of(const Error& error) {
  const int code = error.code();
  if (of_library(code)) return code;
  switch (error.kind()) {
    case Failure::usage: return code != 0 ? code : EINVAL;
    case Failure::refused: return telling(code) ? code : CR_EREFUSED;
    // EAGAIN of cr_reap_*() means that the request has not ended.
    case Failure::temporary: return code != 0 && code != EAGAIN ? code : EBUSY;
    case Failure::permanent: return public_code(code);
  }
  return EIO;
}

}  // namespace

Outcome failed(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) {
    const int code = code_of(*error);
    // For the library's own codes use the library's text.
    return {code, 0, of_library(error->code()) ? cr_strerror(code) : error->what()};
  }
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) return {ENOMEM, 0, "out of memory"};
  return {EIO, 0, exception.what()};
}

}  // namespace reprise::api
