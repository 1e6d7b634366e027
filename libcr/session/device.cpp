// SPDX-License-Identifier: LGPL-2.1-or-later
#include "session/device.h"

#include <cerrno>

#include <fcntl.h>

#include "base/error.h"
#include "base/text.h"
#include "cr.h"

namespace reprise {

UniqueFd open_device() {
  UniqueFd fd(::open(CR_DEVICE, O_RDWR | O_CLOEXEC));
  if (fd) return fd;
  const int err = errno;
  if (err == ENOENT || err == ENODEV || err == ENXIO)
    throw Error(Failure::permanent, err, "the kernel module is not loaded (no " CR_DEVICE "): insmod cr.ko, as root");
  if (err == EACCES || err == EPERM)
    throw Error(Failure::permanent, err, "no permission to open " CR_DEVICE ": ask the administrator to grant it");
  throw Error(Failure::permanent, err, "cannot open " CR_DEVICE ": " + error_text(err));
}

}  // namespace reprise
