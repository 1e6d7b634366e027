// SPDX-License-Identifier: LGPL-2.1-or-later
/** @file The part of Service that lets the program deal with its children, those of a restart. */
#include <algorithm>
#include <cerrno>

#include "api/helper/service.h"
#include "base/descriptor_passing.h"

namespace reprise::api {

std::int32_t Service::ask(const ChildOrder& order) {
  block_->child = order;
  block_->progress.store(kWantsChild);
  futex_wake(block_->progress, Sharing::between_processes);
  for (;;) {
    if (block_->progress.load() != kWantsChild) break;
    constexpr timespec look{1, 0};
    if (futex_wait(block_->progress, kWantsChild, &look, Sharing::between_processes) == ETIMEDOUT && !owner_holds())
      return -ECANCELED;
  }
  return block_->child.pid;
}

void Service::copies_made(const std::vector<pid_t>& pids) {
  block_->copies_made = static_cast<std::uint32_t>(std::min<std::size_t>(pids.size(), CR_MAX_RSTRT_COPIES));
  std::copy_n(pids.begin(), block_->copies_made, block_->copies);
}

UniqueFd Service::receive() { return receive_descriptor(socket_.get(), 0); }

}  // namespace reprise::api
