// SPDX-License-Identifier: LGPL-2.1-or-later
#include "session/lease.h"

#include <cerrno>

#include <sys/ioctl.h>

#include "base/error.h"
#include "base/text.h"
#include "cr.h"
#include "session/device.h"

namespace reprise {

Lease::Lease() : device_(open_device()) {}

bool Lease::renew(std::chrono::nanoseconds until) {
  cr_lease lease{};
  lease.until_ns = static_cast<std::uint64_t>(until.count());
  lease.flags = CR_LEASE_KILL;
  if (::ioctl(device_.get(), CR_IOC_LEASE, &lease) == 0) return lease.expired != 0;
  const int err = errno;
  const char* way_out = err == EDQUOT ? " (this user has too many: end other jobs, or raise the module's parameter max_leases)" : "";
  throw Error(Failure::permanent, err, "no lease for the descendants of this process: " + error_text(err) + way_out);
}

}  // namespace reprise
