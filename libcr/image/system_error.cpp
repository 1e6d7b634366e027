// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/system_error.h"

#include <cerrno>

#include "base/text.h"

namespace reprise::image {

Failure classify(int err) {
  switch (err) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:  // RLIMIT_FSIZE, or the file system's own limit
    case ENOMEM:
    case EAGAIN:
    case EMFILE:
    case ENFILE:
      return Failure::temporary;
    case EEXIST:
    case EACCES:
    case EPERM:
    case EROFS:
      return Failure::refused;
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP:
      return Failure::usage;
    default:
      return Failure::permanent;
  }
}

void throw_system(const std::string& name, const std::string& what, int err) {
  std::string text = name + ": " + what + ": " + error_text(err);
  switch (err) {
    case ENOSPC:
    case EDQUOT:
      text += "; make room or write the image elsewhere";
      break;
    case EFBIG:
      text += "; raise the limit on file sizes (ulimit -f) or write the image elsewhere";
      break;
    case EIO:
      text += "; the storage is failing";
      break;
    default:
      break;
  }
  throw Error(classify(err), err, text);
}

}  // namespace reprise::image
