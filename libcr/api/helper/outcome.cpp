// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/helper/outcome.h"

#include <cerrno>
#include <new>

#include "base/error.h"
#include "libcr.h"

namespace reprise::api {
namespace {

bool of_library(int code) { return code > CR_MIN_ERRCODE && code < CR_MAX_ERRCODE; }

/** Codes that say more than that something was refused. */
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
    // EAGAIN would say that the request has not ended.
    case Failure::temporary: return code != 0 && code != EAGAIN ? code : EBUSY;
    case Failure::permanent: return code != 0 && code != EINVAL && code != EBADMSG ? code : CR_EIMAGE;
  }
  return EIO;
}

}  // namespace

Outcome failed(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) {
    const int code = code_of(*error);
    // The engine has no texts for the library's own codes.
    return {code, 0, of_library(error->code()) ? cr_strerror(code) : error->what()};
  }
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) return {ENOMEM, 0, "out of memory"};
  return {EIO, 0, exception.what()};
}

}  // namespace reprise::api
