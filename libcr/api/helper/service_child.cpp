// SPDX-License-Identifier: LGPL-2.1-or-later
/** @file The part of Service that lets the program create the process of a restart. */
#include <cerrno>
#include <cstdio>

#include "api/helper/service.h"
#include "base/descriptor_passing.h"
#include "process/clocks.h"

namespace reprise::api {

pid_t Service::make_child(pid_t pid, const ClockOffsets* offsets, UniqueFd& mem) {
  block_->child.pid = pid;
  const std::string clocks = offsets != nullptr ? offsets_text(*offsets) : "";
  std::snprintf(block_->child.clocks, sizeof block_->child.clocks, "%s", clocks.c_str());
  block_->progress.store(kWantsChild);
  futex_wake(block_->progress, Sharing::between_processes);
  for (;;) {
    if (block_->progress.load() != kWantsChild) break;
    constexpr timespec look{1, 0};
    if (futex_wait(block_->progress, kWantsChild, &look, Sharing::between_processes) == ETIMEDOUT && !owner_holds())
      return -ECANCELED;
  }
  const pid_t made = block_->child.pid;
  if (made <= 0) return made;
  mem = receive_descriptor(socket_.get(), 0);
  return mem ? made : -ESRCH;
}

}  // namespace reprise::api
