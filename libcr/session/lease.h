// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file A time limit until which the calling process's descendants may run, kept by the module. */
#include <chrono>

#include "base/unique_fd.h"

namespace reprise {

/**
 * The descendants of the calling process run until a point in time that the process moves forward again and again. When
 * it does not, the module parks them (CR_IOC_LEASE in cr.h has the details). The end of the process or of the
 * lease object kills them.
 */
class Lease {
 public:
  /** Begins no lease yet. Throws Error when the module is not loaded or may not be used. */
  Lease();
  /**
   * Let the descendants run until @p until (CLOCK_BOOTTIME), at most a day from now. Parked ones run on. Throws Error
   * when the user has too many leases.
   * @return whether the lease had expired
   */
  bool renew(std::chrono::nanoseconds until);

 private:
  UniqueFd device_;
};

}  // namespace reprise
