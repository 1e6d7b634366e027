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
#include "descriptors/restore_parts.h"
#include "descriptors/socket_name.h"
#include "restore/credentials.h"
#include "session/checked_batch.h"

namespace reprise {
namespace {

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

/** Compare image and target, and decide for each description. */
DescriptorPlan compare_with_image(Restorer& restorer, std::vector<cr_fd> live) {
  restorer.live = std::move(live);
  const bool pause = restorer.mode == RestoreMode::pause;
  const std::set<int>& keep_pipes = restorer.options.keep_pipes;
  DescriptorPlan plan = plan_descriptors(restorer.image, restorer.live, pause, {}, keep_pipes);
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
    plan = plan_descriptors(restorer.image, restorer.live, pause, replace, keep_pipes);
    restorer.alive = plan.alive;
  }
  restorer.decisions = choose_method(restorer.image, restorer.options, restorer.mode, restorer.alive);
  return plan;
}

/** @return the target's descriptors to close: opened since the checkpoint, or replaced by another description */
std::vector<int> numbers_to_close(const Restorer& restorer, const DescriptorPlan& plan) {
  std::vector<int> numbers = plan.close;
  std::set<int> live;
  for (const cr_fd& fd : restorer.live) live.insert(fd.fd);
  for (const auto& install : plan.install)
    if (live.count(install.fd)) numbers.push_back(install.fd);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

/** Find sockets whose address a newer socket of the target uses: they can be bound only after that one is closed. */
void find_sockets_to_bind_after_commit(Restorer& restorer, const DescriptorPlan& plan) {
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
    if (taken.count(restorer.description(index).socket().local())) restorer.bind_after_commit.insert(index);
}

/** @return why making it after the commit will fail, "" if no reason is known */
std::string problem_of_making_later(const Restorer& restorer, std::uint32_t index) {
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
  if (exists && description.socket().inside()) return {};  // made without the name then
  if (exists && description.socket().name_gone())
    return path + " had been removed before the checkpoint and exists again: it belongs to another program";
  if (exists && !S_ISSOCK(there.st_mode)) return path + " is no longer a socket";
  const std::string directory = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
  if (::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    return directory + ": " + error_text(errno);
  return {};
}

}  // namespace

void check_descriptors(const Process& image, const RestoreOptions& options, RestoreMode mode) {
  std::set<int> numbers;
  for (const Descriptor& descriptor : image.descriptors()) numbers.insert(descriptor.fd());
  for (const auto& [number, ours] : options.substitute)
    if (!numbers.count(number))
      throw Error(Failure::usage, EBADF, "the image has no descriptor " + std::to_string(number) + " to be substituted");
  if (mode != RestoreMode::restart) return;  // a pause depends on what the target still has
  Refusals refusals;
  add_refusals(image, choose_method(image, options, mode, {}), refusals);
  raise(refusals, mode);
}

PreparedDescriptors check_descriptors_live(Session& session, const Process& image, const RestoreOptions& options,
                                           RestoreMode mode, std::size_t spare, const OnBehalf& behalf,
                                           NamelessFiles& nameless) {
  SessionSource source(session);
  Restorer restorer(source, image, options, mode, behalf);
  restorer.nameless = &nameless;
  const DescriptorPlan plan = compare_with_image(restorer, session.fds());
  Refusals refusals;
  add_refusals(image, restorer.decisions, refusals);
  for (const auto& [index, problem] : restorer.problems)
    refusals.add(description_text(image, index) + ": " + problem, false, true);
  raise(refusals, mode);
  // Made descriptors are installed one at a time: each needs one temporary number.
  const auto limit = wider_limit(session, image, restorer.live, spare + (plan.install.empty() ? 0 : 1));
  need_own_numbers(restorer, plan);
  find_sockets_to_bind_after_commit(restorer, plan);
  for (const std::uint32_t index : plan.make) {
    try {
      if (restorer.made_after_commit(index)) {
        if (const std::string problem = problem_of_making_later(restorer, index); !problem.empty())
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

bool may_be_unchanged(const Process& image, bool same_content) {
  return std::none_of(image.descriptions().begin(), image.descriptions().end(), [&](const Description& description) {
    const Stays how = stays(description);
    return how == Stays::compared || (how == Stays::entries && !same_content);
  });
}

bool module_compares_all(const Process& image) {
  return std::all_of(image.descriptions().begin(), image.descriptions().end(), [](const Description& description) {
    const Stays how = stays(description);
    return how == Stays::as_it_is || how == Stays::content || how == Stays::entries;
  });
}

void restore_unchanged_descriptors(Session& session, const Process& image, const RestoreOptions& options,
                                   const OnBehalf& behalf, bool same_content, Report& report) {
  SessionSource source(session);
  Restorer restorer(source, image, options, RestoreMode::pause, behalf);
  restorer.decisions.resize(static_cast<std::size_t>(image.descriptions_size()), Decision{Way::keep, {}});
  for (std::uint32_t index = 0; index < restorer.decisions.size(); ++index) {
    const Stays how = stays(restorer.description(index));
    if (how != Stays::restored && (how != Stays::content || same_content)) continue;
    restorer.alive[index] = restorer.number(index);
    restorer.restore_state(index);
    restorer.dups.erase(index);
  }
  report.warnings.insert(report.warnings.end(), restorer.warnings.begin(), restorer.warnings.end());
}

void make_room(const Session& session, const PreparedDescriptors& prepared) {
  // restore_limits() sets the saved limit later.
  if (prepared.limit && ::prlimit(session.pid(), RLIMIT_NOFILE, &*prepared.limit, nullptr) != 0)
    throw Error(Failure::permanent, errno, "the limit of open files cannot be raised: " + error_text(errno));
}

void restore_descriptors(Session& session, Remote& remote, const Process& image, const RestoreOptions& options,
                         RestoreMode mode, const OnBehalf& behalf, Report& report, PreparedDescriptors prepared) {
  SessionSource source(session);
  Restorer restorer(source, image, options, mode, behalf);
  restorer.made = std::move(prepared.made);
  const DescriptorPlan plan = compare_with_image(restorer, session.fds());
  restorer.warnings = std::move(prepared.warnings);  // drops those that compare_with_image() repeated

  // Take descriptors of ours for descriptions that live only at numbers that are about to be closed.
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
  install_descriptors(session, remote, restorer, plan);
  for (auto& [index, number] : restorer.alive) number = restorer.number(index);

  restore_status(restorer, remote, plan);
  for (std::uint32_t index = 0; index < restorer.decisions.size(); ++index) {
    restorer.restore_state(index);
    restorer.dups.erase(index);  // do not hold one for every kept file
  }
  const bool moved = !plan.install.empty() || !plan.close.empty();
  restore_epolls(restorer, remote, moved ? session.fds() : restorer.live, moved);
  restore_locks(restorer, remote);

  report.descriptors = static_cast<std::uint64_t>(image.descriptors_size());
  report.descriptors_changed = plan.install.size() + plan.close.size() + plan.cloexec.size();
  report.warnings.insert(report.warnings.end(), restorer.warnings.begin(), restorer.warnings.end());
}

}  // namespace reprise
