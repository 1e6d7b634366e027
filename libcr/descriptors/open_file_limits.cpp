// SPDX-License-Identifier: LGPL-2.1-or-later
#include <linux/capability.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "base/proc_dir.h"
#include "descriptors/restore_parts.h"
#include "restore/credentials.h"

namespace reprise {

void need_own_numbers(const Restorer& restorer, const DescriptorPlan& plan) {
  constexpr rlim_t spare = 128;  // for our descriptors that are already open, and those of single steps
  std::set<std::uint32_t> ours(plan.make.begin(), plan.make.end());
  for (const auto& install : plan.install)
    if (held(restorer, plan, install.description)) ours.insert(install.description);
  const rlim_t needed = std::max(static_cast<rlim_t>(ours.size()), static_cast<rlim_t>(restorer.highest_stray + 1)) + spare;
  rlimit now;
  if (::getrlimit(RLIMIT_NOFILE, &now) != 0 || needed <= now.rlim_cur) return;
  const rlimit wide = {needed, std::max(needed, now.rlim_max)};
  if (::setrlimit(RLIMIT_NOFILE, &wide) != 0)
    throw Error(Failure::refused, EMFILE,
                "restoring " + std::to_string(ours.size()) + " open files needs " + std::to_string(needed) +
                    " descriptors here, and the limit is " + std::to_string(now.rlim_max) + ": raise it with ulimit -n, or ask root");
}

namespace {

/** @return fs.nr_open, which RLIMIT_NOFILE cannot exceed even with CAP_SYS_RESOURCE */
rlim_t nr_open() {
  const auto text = ProcDir("/proc/sys/fs").try_read("nr_open");
  return text ? std::strtoull(text->c_str(), nullptr, 10) : RLIM_INFINITY;
}

bool may_raise_limits() { return (own_credentials().effective >> CAP_SYS_RESOURCE) & 1; }

}  // namespace

std::optional<rlimit> wider_limit(const Session& session, const Process& image, std::span<const cr_fd> live, std::size_t spare) {
  constexpr std::size_t more = 8;  // other steps install descriptors temporarily, such as for the working directory
  rlimit now;
  if (::prlimit(session.pid(), RLIMIT_NOFILE, nullptr, &now) != 0) return std::nullopt;
  int highest = 0;
  for (const Descriptor& descriptor : image.descriptors()) highest = std::max(highest, descriptor.fd());
  const auto most = live.size() + static_cast<std::size_t>(image.descriptors_size()) + spare + more;
  if (most <= now.rlim_cur && static_cast<rlim_t>(highest) < now.rlim_cur) return std::nullopt;
  std::set<int> used;  // before or after the restore
  for (const cr_fd& fd : live) used.insert(fd.fd);
  for (const Descriptor& descriptor : image.descriptors()) used.insert(descriptor.fd());
  const auto below = [&](int fd) { return static_cast<rlim_t>(fd) < now.rlim_cur; };
  const auto taken = static_cast<rlim_t>(std::count_if(used.begin(), used.end(), below));
  const rlim_t free = now.rlim_cur - taken, needed = static_cast<rlim_t>(highest) + 1;
  const auto with_room_for = [&](rlim_t room) {
    return std::max({now.rlim_cur, needed, free < room ? now.rlim_cur + room - free : 0});
  };
  const rlim_t least = with_room_for(spare), ceiling = nr_open();
  const bool may = may_raise_limits();
  // Raise beyond `least` only as far as possible without an error.
  const rlim_t wide = std::max(least, std::min({with_room_for(spare + more), ceiling, may ? ceiling : now.rlim_max}));
  if (wide == now.rlim_cur) return std::nullopt;
  if (std::max(wide, now.rlim_max) > ceiling)
    throw Error(Failure::refused, EMFILE,
                (needed > ceiling ? "descriptor " + std::to_string(highest) + " is above"
                                  : "the limit of open files has to be raised, and is above") +
                    std::string(" what the kernel allows any process (fs.nr_open is ") + std::to_string(ceiling) +
                    "): raise that with sysctl");
  if (wide > now.rlim_max && !may)
    throw Error(Failure::refused, EMFILE,
                (needed > now.rlim_max ? "descriptor " + std::to_string(highest) + " is above the limit of open files ("
                                       : "the restore needs temporary descriptors above the limit of open files (") +
                    std::to_string(now.rlim_max) + "): raise the limit with ulimit -n, or ask root");
  return rlimit{wide, std::max(wide, now.rlim_max)};
}

}  // namespace reprise
