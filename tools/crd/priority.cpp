// SPDX-License-Identifier: GPL-2.0-only
#include "crd/priority.h"

#include <sched.h>
#include <sys/resource.h>

namespace reprise::crd {

namespace {
constexpr int kNice = -15;
}  // namespace

bool raise_priority() {
  const sched_param none{};
  // Without that flag the ranks would inherit the priority, and outrun the rest of the node.
  return ::sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none) == 0 && ::setpriority(PRIO_PROCESS, 0, kNice) == 0;
}

}  // namespace reprise::crd
