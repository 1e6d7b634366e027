// SPDX-License-Identifier: LGPL-2.1-or-later
#include "base/error.h"

#include <cerrno>
#include <cstring>

namespace reprise {

void fail_errno(int code, const std::string& what) {
  throw Error(code == ENOSPC || code == EAGAIN || code == EMFILE || code == ENFILE || code == ENOMEM
                  ? Failure::temporary
                  : Failure::permanent,
              code, what + ": " + std::strerror(code));
}

}  // namespace reprise
