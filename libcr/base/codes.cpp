// SPDX-License-Identifier: LGPL-2.1-or-later
#include "base/codes.h"

#include <cerrno>

#include "libcr.h"

namespace reprise {

const char* code_text(int err) {
  switch (err) {
    case CR_ETEMPFAIL: return "a callback refused the checkpoint for now";
    case CR_EPERMFAIL: return "a callback failed for good and had its process killed";
    case CR_ENOSUPPORT: return "the process cannot take part in a checkpoint";
    case CR_EVERSION: return "library and kernel module are of different versions";
    case CR_EOMITTED: return "a callback left its process out of the checkpoint";
    case CR_EBADARCH: return "not an image, or one of another architecture";
    case CR_EPTRACED: return "a process of the request is being traced";
    case CR_EPTRACER: return "a process of the request traces another one";
    case CR_ERSTRTABRT: return "the restart failed and its process was killed";
    case CR_ERESTARTED: return "the process was restarted or rolled back since the request";
    case CR_ENOTCB: return "allowed only in a callback";
    case CR_ENOINIT: return "this thread has not called cr_init()";
    case CR_EREFUSED: return "cannot be saved or restored; nothing has changed";
    case CR_EIMAGE: return "the image is damaged or of an unknown format";
    case CR_EHELPER: return "the helper process could not be started or has died";
    default: return nullptr;
  }
}

int public_code(int err) {
  switch (err) {
    case ENOEXEC: return CR_EBADARCH;
    case 0:
    case EINVAL:
    case EBADMSG: return CR_EIMAGE;
    default: return err;
  }
}

}  // namespace reprise
