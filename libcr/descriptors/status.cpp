// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/syscall.h>

#include <algorithm>

#include "descriptors/restore_parts.h"
#include "image/own_id.h"
#include "session/checked_batch.h"

namespace reprise {
namespace {

// Status flags that F_SETFL changes.
constexpr std::uint32_t kStatus = O_APPEND | O_NONBLOCK | O_ASYNC | O_DIRECT | O_NOATIME;

/** Is @p id, in the process's own pid namespace, a thread of the image other than the first? */
bool is_worker(const Process& image, int id) {
  return std::any_of(image.threads().begin(), image.threads().end(),
                     [&](const Thread& thread) { return &thread != &image.threads(0) && own_id(thread) == id; });
}

/** @return the owner to set (F_SETOWN); < 0: a process group, 0: none. In a restart 0 for ids outside of the image */
int owner_of(Restorer& restorer, std::uint32_t index) {
  const Process& image = restorer.image;
  const int owner = restorer.description(index).owner_pid();
  const bool leads = image.pgid() == image.pid();
  const int leader = own_id(image.threads(0));
  if (restorer.mode != RestoreMode::restart || !owner || owner == leader || is_worker(image, owner) ||
      (leads && owner == -leader))
    return owner;
  // The id may belong to another process now.
  restorer.warn(index, std::string("its signals went to ") + (owner < 0 ? "process group " : "process ") +
                           std::to_string(owner < 0 ? -owner : owner) +
                           ", which is not part of the image: none are sent");
  return 0;
}

Remote::Call set_owner(const Process& image, Remote& remote, std::uint64_t number, int owner) {
  // F_SETOWN treats the id as that of a process: use F_SETOWN_EX for a thread.
  if (is_worker(image, owner))
    return {SYS_fcntl, {number, F_SETOWN_EX, remote.argument_of(f_owner_ex{F_OWNER_TID, owner})}};
  return {SYS_fcntl, {number, F_SETOWN, static_cast<std::uint64_t>(static_cast<std::int64_t>(owner))}};
}

}  // namespace

void restore_status(Restorer& restorer, Remote& remote, const DescriptorPlan& plan) {
  CheckedBatch changes(remote, 0, &restorer.warnings);
  const auto cannot = [&restorer](std::uint32_t index, const char* what) {
    return [&restorer, index, what] { return description_text(restorer.image, index) + ": its " + what + " cannot be set"; };
  };
  std::map<std::uint64_t, const cr_fd*> live;
  std::map<int, const cr_fd*> at;
  for (const cr_fd& fd : restorer.live) live[fd.serial] = at[fd.fd] = &fd;
  for (std::uint32_t index = 0; index < restorer.decisions.size(); ++index) {
    const Way way = restorer.way(index);
    const Description& description = restorer.description(index);
    if ((way != Way::keep && way != Way::make) || (description.flags() & O_PATH)) continue;
    const auto number = static_cast<std::uint64_t>(restorer.number(index));
    std::int64_t position = 0;
    int owner_was = 0, signal_was = 0;
    std::uint32_t flags = static_cast<std::uint32_t>(open_flags(description));
    if (way == Way::keep) {
      // A pipe that has taken the place of the image's has kept its number.
      const auto same = live.find(description.serial());
      const cr_fd& now = same != live.end() ? *same->second : *at.at(restorer.number(index));
      position = static_cast<std::int64_t>(now.pos);
      flags = now.f_flags;
      owner_was = now.owner_pid;
      signal_was = static_cast<int>(now.owner_signal);
    }
    if (kind_ops(description.kind()).seekable && position != description.offset())
      changes.may({SYS_lseek, {number, static_cast<std::uint64_t>(description.offset()), SEEK_SET}},
                  cannot(index, "position"));
    if (const int owner = owner_of(restorer, index); owner != owner_was) {
      changes.need(sizeof(f_owner_ex));
      changes.may(set_owner(restorer.image, remote, number, owner), cannot(index, "owner"));
    }
    if (description.owner_signal() != signal_was)
      changes.may({SYS_fcntl, {number, F_SETSIG, static_cast<std::uint64_t>(description.owner_signal())}},
                  cannot(index, "signal"));
    if ((flags ^ description.flags()) & kStatus)
      changes.may({SYS_fcntl, {number, F_SETFL, description.flags() & kStatus}}, cannot(index, "flags"));
  }
  for (const auto& flag : plan.cloexec) {
    changes.may({SYS_fcntl, {static_cast<std::uint64_t>(flag.fd), F_SETFD, flag.cloexec ? FD_CLOEXEC : 0ULL}},
                cannot(flag.description, "close-on-exec flag"));
  }
  changes.run();
}

}  // namespace reprise
