// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "descriptors/descriptors.h"
#include "descriptors/kinds.h"
#include "descriptors/plan.h"
#include "descriptors/socket_name.h"
#include "restore/credentials.h"
#include "session/checked_batch.h"

namespace reprise {
namespace {

// Status flags that F_SETFL changes.
constexpr std::uint32_t kStatus = O_APPEND | O_NONBLOCK | O_ASYNC | O_DIRECT | O_NOATIME;

void add_refusals(const Process& image, const std::vector<Decision>& decisions, Refusals& refusals) {
  for (std::uint32_t index = 0; index < decisions.size(); ++index)
    if (decisions[index].way == Way::refuse)
      refusals.add(description_text(image, index) + ": " + decisions[index].why, true, decisions[index].dead_helps);
}

void raise(Refusals& refusals, RestoreMode mode) {
  if (mode == RestoreMode::pause) refusals.no_substitutes();
  refusals.raise(mode == RestoreMode::restart ? "these cannot be brought back in a new process"
                                              : "these were closed since the checkpoint and cannot be brought back");
}

/** Compare image and target; what becomes of everything. */
DescriptorPlan look(Restorer& restorer, std::vector<cr_fd> live) {
  restorer.live = std::move(live);
  const bool pause = restorer.mode == RestoreMode::pause;
  DescriptorPlan plan = plan_descriptors(restorer.image, restorer.live, pause);
  restorer.alive = plan.alive;
  std::set<std::uint32_t> replace;
  for (const auto& [index, number] : plan.alive) {
    const Description& description = restorer.description(index);
    if (description.kind() == Description::INOTIFY && inotify_lost(description, restorer.fdinfo(index)))
      replace.insert(index);
  }
  replace.merge(look_at_ulps(restorer));
  replace.merge(look_at_unix_pairs(restorer));
  replace.merge(look_at_epolls(restorer, replace));
  if (!replace.empty()) {
    plan = plan_descriptors(restorer.image, restorer.live, pause, replace);
    restorer.alive = plan.alive;
  }
  restorer.decisions = decide(restorer.image, restorer.options, restorer.mode, restorer.alive);
  return plan;
}

/** Numbers of the target that will be closed: opened since, or in the way of what belongs there. */
std::vector<int> numbers_to_close(const Restorer& restorer, const DescriptorPlan& plan) {
  std::vector<int> numbers = plan.close;
  std::set<int> live;
  for (const cr_fd& fd : restorer.live) live.insert(fd.fd);
  for (const auto& install : plan.install)
    if (live.count(install.fd)) numbers.push_back(install.fd);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

/** Addresses which the target itself will only give up when its new sockets are closed. */
void find_late_sockets(Restorer& restorer, const DescriptorPlan& plan) {
  std::set<std::string> taken;
  std::map<int, const cr_fd*> live;
  for (const cr_fd& fd : restorer.live) live[fd.fd] = &fd;
  bool wanted = false;
  for (const std::uint32_t index : plan.make) wanted |= restorer.description(index).kind() == Description::SOCKET;
  if (!wanted) return;
  for (const int number : numbers_to_close(restorer, plan)) {
    if (!S_ISSOCK(live.at(number)->mode)) continue;
    const UniqueFd ours = restorer.source.get(number);
    sockaddr_storage address = {};
    socklen_t size = sizeof address;
    if (::getsockname(ours.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0)
      taken.emplace(reinterpret_cast<const char*>(&address), std::min<std::size_t>(size, sizeof address));
  }
  for (const std::uint32_t index : plan.make)
    if (taken.count(restorer.description(index).socket().local())) restorer.late.insert(index);
}

/** What speaks against making it after the commit, "" if nothing is known to. */
std::string late_problem(const Restorer& restorer, std::uint32_t index) {
  const Description& description = restorer.description(index);
  if (const ProcPath whose = parse_proc_path(description.file().path()); whose.tid > 0) {
    const auto& threads = restorer.image.threads();
    const auto is_it = [&](const Thread& thread) { return thread.tid() == whose.tid; };
    if (std::any_of(threads.begin(), threads.end(), is_it)) return {};
    return "thread " + std::to_string(whose.tid) + " is not part of the image";
  }
  if (description.kind() != Description::SOCKET || restorer.way(index) != Way::make) return {};
  if (const std::string problem = options_problem(restorer, index); !problem.empty()) return problem;
  const std::string path = unix_path(socket_address(restorer, description.socket()));
  if (path.empty() || path.front() != '/') return {};
  struct ::stat there;
  const bool exists = ::lstat(path.c_str(), &there) == 0;
  if (exists && description.socket().inside()) return {};  // the name is left out then
  if (exists && description.socket().name_gone())
    return path + ", whose name had been removed, is there again: it is somebody else's";
  if (exists && !S_ISSOCK(there.st_mode)) return path + " is not a socket any more";
  const std::string directory = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
  if (::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    return directory + ": " + error_text(errno);
  return {};
}

/** Does what the target has under another number as well have to be taken over to put it in its places? */
bool held(const Restorer& restorer, const DescriptorPlan& plan, std::uint32_t index) {
  return restorer.way(index) == Way::keep && !plan.kept.count(index);
}

/**
 * What is made, and what is held while its numbers are closed, are open files of ours, too. Found out before the
 * commit: past it there is no way back.
 */
void need_own_numbers(const Restorer& restorer, const DescriptorPlan& plan) {
  constexpr rlim_t spare = 128;  // what is open already, and what a step needs for itself
  std::set<std::uint32_t> ours(plan.make.begin(), plan.make.end());
  for (const auto& install : plan.install)
    if (held(restorer, plan, install.description)) ours.insert(install.description);
  const rlim_t needed = std::max(static_cast<rlim_t>(ours.size()), static_cast<rlim_t>(restorer.highest_stray + 1)) + spare;
  rlimit now;
  if (::getrlimit(RLIMIT_NOFILE, &now) != 0 || needed <= now.rlim_cur) return;
  const rlimit wide = {needed, std::max(needed, now.rlim_max)};
  if (::setrlimit(RLIMIT_NOFILE, &wide) != 0)
    throw Error(Failure::refused, EMFILE,
                "bringing back " + std::to_string(ours.size()) + " open files takes " + std::to_string(needed) +
                    " descriptors here, and the limit is " + std::to_string(now.rlim_max) + ": raise it with ulimit -n, or ask root");
}

/** What no limit of open files may be above, whoever sets it. */
rlim_t nr_open() {
  const auto text = ProcDir("/proc/sys/fs").try_read("nr_open");
  return text ? std::strtoull(text->c_str(), nullptr, 10) : RLIM_INFINITY;
}

bool may_raise_limits() { return (own_credentials().effective >> CAP_SYS_RESOURCE) & 1; }

/**
 * The limit of open files that the target needs meanwhile: for the highest number of the image, and for @p spare more
 * descriptors than it has. None when its own will do. Some more are asked for, as others may be needed, too.
 * Throws Error (refused) when the caller may not raise it so far.
 */
std::optional<rlimit> wider_limit(const Session& session, const Process& image, std::span<const cr_fd> live, std::size_t spare) {
  constexpr std::size_t more = 8;  // directory, program and the like take one for a moment
  rlimit now;
  if (::prlimit(session.pid(), RLIMIT_NOFILE, nullptr, &now) != 0) return std::nullopt;
  int highest = 0;
  for (const Descriptor& descriptor : image.descriptors()) highest = std::max(highest, descriptor.fd());
  const auto most = live.size() + static_cast<std::size_t>(image.descriptors_size()) + spare + more;
  if (most <= now.rlim_cur && static_cast<rlim_t>(highest) < now.rlim_cur) return std::nullopt;
  std::set<int> used;  // now, or in the end
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
  // What is more than needed is a wish.
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
                                       : "as many files are open as there may be, and more are needed for a moment (") +
                    std::to_string(now.rlim_max) + "): raise the limit with ulimit -n, or ask root");
  return rlimit{wide, std::max(wide, now.rlim_max)};
}

/** Puts descriptors in their places. */
class Installer {
 public:
  /** @param kept descriptions that have a number already at which they stay */
  Installer(Session& session, Remote& remote, Restorer& restorer, std::map<std::uint32_t, int> kept)
      : session_(session), remote_(remote), restorer_(restorer), duplicates_(remote), placed_(std::move(kept)) {}

  void run(const std::vector<DescriptorPlan::Install>& all) {
    for (const auto& install : all) {
      const Way way = restorer_.way(install.description);
      const bool stands_in = way == Way::substitute || way == Way::terminal;
      // Duplicates of what is in the target already cost no second way through the module.
      const auto there = placed_.find(install.description);
      if (!stands_in && there != placed_.end()) {
        duplicate(there->second, install);
        continue;
      }
      duplicates_.run();  // what comes next makes calls of its own
      if (stands_in) {
        stand_in(install);
        continue;
      }
      if (restorer_.description(install.description).kind() == Description::CR_AGENT &&
          way == Way::make)
        agent(install);
      else
        remote_.install(restorer_.must_fd(install.description), install.fd, install.cloexec);
      placed_[install.description] = install.fd;
    }
    duplicates_.run();
  }

 private:
  void duplicate(int from, const DescriptorPlan::Install& to) {
    duplicates_.must({SYS_dup3, {static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to.fd),
                                 static_cast<std::uint64_t>(to.cloexec ? O_CLOEXEC : 0)}},
                     [fd = to.fd] { return "descriptor " + std::to_string(fd); });
  }

  void agent(const DescriptorPlan::Install& install) {
    const int got = session_.put_fd(-1, install.cloexec);
    if (got == install.fd) return;
    remote_.must("moving the descriptor of /dev/cr", 0, SYS_dup3, static_cast<std::uint64_t>(got),
                 static_cast<std::uint64_t>(install.fd), install.cloexec ? O_CLOEXEC : 0);
    remote_.must("moving the descriptor of /dev/cr", 0, SYS_close, static_cast<std::uint64_t>(got));
  }

  void stand_in(const DescriptorPlan::Install& install) {
    const Description& description = restorer_.description(install.description);
    const auto given = restorer_.options.substitute.find(install.fd);
    int fd = -1;
    UniqueFd own;
    if (given != restorer_.options.substitute.end()) {
      fd = given->second;
    } else if (description.kind() == Description::TERMINAL) {
      own = own_terminal(restorer_, install.fd, description);
      fd = own.get();
    } else {
      for (const int number : numbers_of(restorer_.image, install.description))
        if (const auto other = restorer_.options.substitute.find(number);
            other != restorer_.options.substitute.end() && fd < 0)
          fd = other->second;
    }
    remote_.install(fd, install.fd, install.cloexec);
    if (description.kind() == Description::TERMINAL) settle_own_terminal(restorer_, fd, description);
    // A program that expects never to wait must not, whatever it was given.
    const int flags = ::fcntl(fd, F_GETFL);
    if ((description.flags() & O_NONBLOCK) && flags >= 0 && !(flags & O_NONBLOCK))
      ::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  }

  Session& session_;
  Remote& remote_;
  Restorer& restorer_;
  CheckedBatch duplicates_;
  std::map<std::uint32_t, int> placed_;
};

/** A thread of the image but the first, by the number that it has in its own pid namespace. */
bool is_worker(const Process& image, int id) {
  return std::any_of(image.threads().begin(), image.threads().end(), [&](const Thread& thread) {
    return &thread != &image.threads(0) && (thread.own_tid() ? thread.own_tid() : thread.tid()) == id;
  });
}

/** Whom the kernel shall signal for a descriptor (F_SETOWN); < 0: a process group, 0: nobody. */
int owner_of(Restorer& restorer, std::uint32_t index) {
  const Process& image = restorer.image;
  const int owner = restorer.description(index).owner_pid();
  const bool leads = image.pgid() == image.pid();
  if (restorer.mode != RestoreMode::restart || !owner || owner == image.pid() || is_worker(image, owner) ||
      (leads && owner == -image.pid()))
    return owner;
  // The number is somebody else's by now, or nobody's.
  restorer.warn(index, std::string("its signals went to ") + (owner < 0 ? "process group " : "process ") +
                           std::to_string(owner < 0 ? -owner : owner) + ", which is not part of the image: they go to nobody");
  return 0;
}

Remote::Call set_owner(const Process& image, Remote& remote, std::uint64_t number, int owner) {
  // F_SETOWN would take a thread's id for a process's.
  if (is_worker(image, owner))
    return {SYS_fcntl, {number, F_SETOWN_EX, remote.argument_of(f_owner_ex{F_OWNER_TID, owner})}};
  return {SYS_fcntl, {number, F_SETOWN, static_cast<std::uint64_t>(static_cast<std::int64_t>(owner))}};
}

void restore_status(Restorer& restorer, Remote& remote, const DescriptorPlan& plan) {
  CheckedBatch changes(remote, 0, &restorer.warnings);
  const auto cannot = [&restorer](std::uint32_t index, const char* what) {
    return [&restorer, index, what] { return description_text(restorer.image, index) + ": its " + what + " cannot be set"; };
  };
  std::map<std::uint64_t, const cr_fd*> live;
  for (const cr_fd& fd : restorer.live) live[fd.serial] = &fd;
  for (std::uint32_t index = 0; index < restorer.decisions.size(); ++index) {
    const Way way = restorer.way(index);
    const Description& description = restorer.description(index);
    if ((way != Way::keep && way != Way::make) || (description.flags() & O_PATH)) continue;
    const auto number = static_cast<std::uint64_t>(restorer.number(index));
    std::int64_t position = 0;
    int owner_was = 0, signal_was = 0;
    std::uint32_t flags = static_cast<std::uint32_t>(open_flags(description));
    if (way == Way::keep) {
      const cr_fd& now = *live.at(description.serial());
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

}  // namespace

void check_descriptors(const Process& image, const RestoreOptions& options, RestoreMode mode) {
  std::set<int> numbers;
  for (const Descriptor& descriptor : image.descriptors()) numbers.insert(descriptor.fd());
  for (const auto& [number, ours] : options.substitute)
    if (!numbers.count(number))
      throw Error(Failure::usage, EBADF, "the image has no descriptor " + std::to_string(number) + " to be substituted");
  if (mode != RestoreMode::restart) return;  // depends on what the target still has
  Refusals refusals;
  add_refusals(image, decide(image, options, mode, {}), refusals);
  raise(refusals, mode);
}

PreparedDescriptors check_descriptors_live(Session& session, const Process& image, const RestoreOptions& options,
                                           RestoreMode mode, std::size_t spare, NamelessFiles& nameless) {
  SessionSource source(session);
  Restorer restorer(source, image, options, mode);
  restorer.nameless = &nameless;
  const DescriptorPlan plan = look(restorer, session.fds());
  Refusals refusals;
  add_refusals(image, restorer.decisions, refusals);
  for (const auto& [index, problem] : restorer.problems)
    refusals.add(description_text(image, index) + ": " + problem, false, true);
  raise(refusals, mode);
  // Those that are made are on their way to their numbers one after the other.
  const auto limit = wider_limit(session, image, restorer.live, spare + (plan.install.empty() ? 0 : 1));
  need_own_numbers(restorer, plan);
  find_late_sockets(restorer, plan);
  for (const std::uint32_t index : plan.make) {
    try {
      if (restorer.is_late(index)) {
        if (const std::string problem = late_problem(restorer, index); !problem.empty())
          refusals.add(description_text(image, index) + ": " + problem);
      } else {
        restorer.make(index, false);
      }
    } catch (const Error& error) {
      refusals.add(error.what());
    }
  }
  check_locks(restorer, refusals);
  raise(refusals, mode);
  return {std::move(restorer.made), std::move(restorer.warnings), limit};
}

void make_room(const Session& session, const PreparedDescriptors& prepared) {
  // The image's own limit comes later, with its credentials.
  if (prepared.limit && ::prlimit(session.pid(), RLIMIT_NOFILE, &*prepared.limit, nullptr) != 0)
    throw Error(Failure::permanent, errno, "the limit of open files cannot be raised: " + error_text(errno));
}

void restore_descriptors(Session& session, Remote& remote, const Process& image, const RestoreOptions& options,
                         RestoreMode mode, Report& report, PreparedDescriptors prepared) {
  SessionSource source(session);
  Restorer restorer(source, image, options, mode);
  restorer.made = std::move(prepared.made);
  const DescriptorPlan plan = look(restorer, session.fds());
  restorer.warnings = std::move(prepared.warnings);  // what was to be said of the look was said then

  // What will be needed from numbers that are about to be closed is held first.
  for (const auto& install : plan.install)
    if (held(restorer, plan, install.description)) restorer.must_fd(install.description);
  prune_epolls(restorer, remote);
  for (const int number : numbers_to_close(restorer, plan)) {
    if (!remote.room(1, 0)) remote.run();
    remote.add({SYS_close, {static_cast<std::uint64_t>(number)}}, false);
  }
  if (!plan.close.empty() || !plan.install.empty()) remote.run();

  restorer.remote = &remote;
  for (const std::uint32_t index : plan.make) restorer.make(index, true);
  Installer(session, remote, restorer, plan.kept).run(plan.install);
  for (auto& [index, number] : restorer.alive) number = restorer.number(index);

  restore_status(restorer, remote, plan);
  for (std::uint32_t index = 0; index < restorer.decisions.size(); ++index) {
    restorer.settle(index);
    restorer.dups.erase(index);  // as many as there are kept files would be too many
  }
  const bool moved = !plan.install.empty() || !plan.close.empty();
  restore_epolls(restorer, remote, moved ? session.fds() : restorer.live, moved);
  restore_locks(restorer, remote);

  report.descriptors = static_cast<std::uint64_t>(image.descriptors_size());
  report.descriptors_changed = plan.install.size() + plan.close.size() + plan.cloexec.size();
  report.warnings.insert(report.warnings.end(), restorer.warnings.begin(), restorer.warnings.end());
}

}  // namespace reprise
