// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/syscall.h>

#include <utility>

#include "descriptors/restore_parts.h"
#include "session/checked_batch.h"

namespace reprise {
namespace {

/** Installs descriptors in the target. */
class Installer {
 public:
  /** @param kept descriptions that the target has -> a descriptor that stays */
  Installer(Session& session, Remote& remote, Restorer& restorer, std::map<std::uint32_t, int> kept)
      : session_(session), remote_(remote), restorer_(restorer), duplicates_(remote), placed_(std::move(kept)) {}

  void run(const std::vector<DescriptorPlan::Install>& all) {
    for (const auto& install : all) {
      const Way way = restorer_.way(install.description);
      const bool stands_in = way == Way::substitute || way == Way::terminal;
      // A description that the target already has needs only a dup3() of the target, not another install by the module.
      const auto there = placed_.find(install.description);
      if (!stands_in && there != placed_.end()) {
        duplicate(there->second, install);
        continue;
      }
      duplicates_.run();  // the steps below make remote calls of their own
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
    if (description.kind() == Description::TERMINAL) restore_own_terminal_state(restorer_, fd, description);
    // A program that expects a nonblocking descriptor must not block on the substitute.
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

}  // namespace

bool held(const Restorer& restorer, const DescriptorPlan& plan, std::uint32_t index) {
  return restorer.way(index) == Way::keep && !plan.kept.count(index);
}

void install_descriptors(Session& session, Remote& remote, Restorer& restorer, const DescriptorPlan& plan) {
  Installer(session, remote, restorer, plan.kept).run(plan.install);
}

}  // namespace reprise
