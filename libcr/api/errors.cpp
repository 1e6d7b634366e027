// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/errors.h"

#include <cerrno>
#include <cstring>

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
  switch (errnum) {
    case CR_ETEMPFAIL: return "a callback asked for no checkpoint at present";
    case CR_EPERMFAIL: return "a callback gave up and had its process killed";
    case CR_ENOSUPPORT: return "the process cannot take part in a checkpoint";
    case CR_EVERSION: return "library and kernel module are of different versions";
    case CR_EOMITTED: return "a callback left its process out of the checkpoint";
    case CR_EBADARCH: return "not an image of this architecture";
    case CR_EPTRACED: return "a process concerned is being traced";
    case CR_EPTRACER: return "a process concerned traces another one";
    case CR_ERSTRTABRT: return "the restart failed and its process was killed";
    case CR_ERESTARTED: return "the process was restarted or rolled back since the request";
    case CR_ENOTCB: return "allowed in a callback only";
    case CR_ENOINIT: return "this thread has not called cr_init()";
    case CR_EREFUSED: return "cannot be saved or restored; nothing has changed";
    case CR_EIMAGE: return "the image is damaged or of an unknown format";
    case CR_EHELPER: return "the helper process could not be started or has died";
    default: return std::strerror(errnum);
  }
}

const char* cr_last_error(void) { return reprise::api::t_sentence; }

}  // extern "C"
