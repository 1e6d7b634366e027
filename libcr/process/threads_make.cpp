// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/proc_stat.h"
#include "base/text.h"
#include "process/clone_args.h"
#include "process/maps.h"
#include "process/pid_namespace.h"
#include "process/threads.h"

namespace reprise {
namespace {

constexpr std::uint64_t kFlags =
    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
constexpr int kTries = 100;
constexpr char kLastPid[] = "/proc/sys/kernel/ns_last_pid";

std::string occupant(pid_t tid) {
  const auto stat = proc_stat(tid);
  return stat ? "process or thread " + std::to_string(tid) + " (" + stat->comm + ")" : "another process";
}

[[noreturn]] void refuse_taken(const Thread& thread) {
  throw Error(Failure::refused, EEXIST,
              thread_name(thread) + " has ended since the checkpoint and its id now belongs to " +
                  occupant(thread.tid()) + ": try again when that one has ended");
}

[[noreturn]] void refuse_rights(const Thread& thread) {
  throw Error(Failure::refused, EPERM,
              thread_name(thread) +
                  " has ended since the checkpoint, and making it again with its id needs CAP_CHECKPOINT_RESTORE: "
                  "run the command as root, or give it that capability with setcap cap_checkpoint_restore+ep");
}

/** Queue a clone3 call of the target, with set_tid unless @p tid is 0. @return its index among the results */
std::size_t queue_clone(Remote& remote, pid_t tid) {
  CloneArgs args{};
  args.flags = kFlags;
  if (tid) {
    args.set_tid = remote.argument_of(tid);
    args.set_tid_size = 1;
  }
  return remote.add({SYS_clone3, {remote.argument_of(args), sizeof args}}, true);
}

/** @return tid or -errno */
std::int64_t clone_with_tid(Remote& remote, pid_t tid) {
  const std::size_t index = queue_clone(remote, tid);
  return remote.run()[index];
}

/**
 * Make @p count threads, in batches, until one fails.
 * @param id     called with each index: the tid that the thread gets; 0: any
 * @param error  out: -errno of the one that failed, else 0
 * @return the tids of those that were made
 */
template <class Id>
std::vector<pid_t> clone_all(Remote& remote, std::size_t count, const Id& id, std::int64_t& error) {
  constexpr std::size_t kRoom = sizeof(CloneArgs) + 32;
  std::vector<pid_t> made;
  error = 0;
  while (made.size() < count) {
    std::vector<std::size_t> queued;
    while (made.size() + queued.size() < count && (queued.empty() || remote.room(1, kRoom)))
      queued.push_back(queue_clone(remote, id(made.size() + queued.size())));
    const std::vector<std::int64_t> results = remote.run();
    for (const std::size_t index : queued) {
      if (results[index] < 0) {
        error = results[index];
        return made;
      }
      made.push_back(static_cast<pid_t>(results[index]));
    }
  }
  return made;
}

/** As above, of the image's threads @p missing with their tids. @return how many were made */
std::size_t clone_all(Remote& remote, const Process& image, std::span<const int> missing, std::int64_t& error) {
  return clone_all(remote, missing.size(), [&](std::size_t i) { return image.threads(missing[i]).tid(); }, error).size();
}

bool set_last_pid(int fd, pid_t last) {
  const std::string text = std::to_string(last);
  return ::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

/**
 * For targets that may not use set_tid: write ns_last_pid so that the kernel assigns the wanted tid next. Other
 * processes may fork in between, so check the tid and retry.
 */
void clone_by_counter(Remote& remote, const Thread& thread) {
  const UniqueFd last(::open(kLastPid, O_RDWR | O_CLOEXEC));
  if (!last) refuse_rights(thread);
  for (int i = 0; i < kTries; ++i) {
    if (::access(("/proc/" + std::to_string(thread.tid())).c_str(), F_OK) == 0) refuse_taken(thread);
    if (!set_last_pid(last.get(), thread.tid() - 1)) refuse_rights(thread);
    const std::int64_t got = clone_with_tid(remote, 0);
    if (got == thread.tid()) return;
    if (got < 0)
      throw Error(Failure::temporary, static_cast<int>(-got), thread_name(thread) + " cannot be made again: " + error_text(got));
    cr_thread wrong{};
    wrong.tid = static_cast<pid_t>(got);
    remote.exit_thread(wrong);
  }
  throw Error(Failure::temporary, EAGAIN,
              thread_name(thread) + " cannot be made again: other processes take its id each time; try again");
}

}  // namespace

std::vector<pid_t> make_all_threads(Remote& remote, const Process& image, bool with_ids) {
  const auto thread = [&](std::size_t index) -> const Thread& { return image.threads(1 + static_cast<int>(index)); };
  std::int64_t error = 0;
  std::vector<pid_t> made = clone_all(remote, static_cast<std::size_t>(image.threads_size() - 1),
                                      [&](std::size_t index) { return with_ids ? thread(index).tid() : 0; }, error);
  if (error)
    throw Error(Failure::temporary, static_cast<int>(-error), thread_name(thread(made.size())) + " cannot be made: " + error_text(error));
  return made;
}

void make_threads(Session& session, Remote& remote, const Process& image, const ThreadPlan& plan) {
  if (plan.missing.empty()) return;
  // set_tid takes ids of the target's pid namespace, and the image's ids are those of ours.
  if (!same_pid_namespace(session.pid()))
    throw Error(Failure::refused, EOPNOTSUPP,
                thread_name(image.threads(plan.missing.front())) +
                    " has ended since the checkpoint, and cannot be made again from outside its pid namespace: take and "
                    "use checkpoints inside it (nsenter --pid --mount)");
  try {
    const std::span<const int> missing(plan.missing);
    std::int64_t error = 0;
    IdSoonFree soon_free;
    std::size_t made = clone_all(remote, image, missing, error);
    while (error == -EEXIST && soon_free(image.threads(missing[made]).tid()))
      made += clone_all(remote, image, missing.subspan(made), error);
    for (; made < missing.size(); ++made) {
      const Thread& thread = image.threads(missing[made]);
      if (error == -EEXIST) refuse_taken(thread);
      if (error != -EPERM)
        throw Error(Failure::temporary, static_cast<int>(-error),
                    thread_name(thread) + " cannot be made again: " + error_text(error));
      clone_by_counter(remote, thread);
    }
  } catch (...) {
    unmake_threads(session, remote);
    throw;
  }
}

void unmake_threads(Session& session, Remote& remote) {
  for (const cr_thread& thread : session.threads())
    if (thread.flags & CR_THREAD_BORN) remote.exit_thread(thread);
}

}  // namespace reprise
