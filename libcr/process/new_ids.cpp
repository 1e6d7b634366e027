// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/new_ids.h"

#include <signal.h>

#include <charconv>
#include <cstring>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "image/own_id.h"
#include "process/pid_namespace.h"
#include "process/threads.h"

namespace reprise {
namespace {

constexpr std::size_t kSender = 16;  // si_pid in siginfo_t

/** Rename si_pid of a signal that a process sent. Signals from the kernel have no sender there, or a child. */
void rename_sender(PendingSignal& pending, const std::map<pid_t, pid_t>& ids) {
  std::string& info = *pending.mutable_siginfo();
  std::int32_t code, sender;
  if (info.size() < kSender + sizeof sender) return;
  std::memcpy(&code, info.data() + 8, sizeof code);
  std::memcpy(&sender, info.data() + kSender, sizeof sender);
  const auto found = ids.find(sender);
  if (found == ids.end() || (code != SI_USER && code != SI_QUEUE && code != SI_TKILL && code != SI_MESGQ)) return;
  sender = found->second;
  std::memcpy(info.data() + kSender, &sender, sizeof sender);
}

pid_t renamed(const std::map<pid_t, pid_t>& ids, pid_t id) {
  const auto found = ids.find(id);
  return found == ids.end() ? id : found->second;
}

/** Parse the path component at @p at as a number. @return its length; 0 if the component is not a number */
std::size_t number_at(const std::string& path, std::size_t at, pid_t& number) {
  const auto [end, error] = std::from_chars(path.data() + at, path.data() + path.size(), number);
  const auto length = static_cast<std::size_t>(end - (path.data() + at));
  return error == std::errc() && (at + length == path.size() || path[at + length] == '/') ? length : 0;
}

/** Replace the ids in a path under /proc/PID of the process itself, @p leader; other paths are returned unchanged. */
std::string rename_proc_path(std::string path, const std::set<pid_t>& leader, const std::map<pid_t, pid_t>& ids) {
  constexpr std::string_view proc = "/proc/", task = "/task/";
  pid_t pid = 0, tid = 0;
  if (path.rfind(proc, 0) != 0) return path;
  const std::size_t length = number_at(path, proc.size(), pid);
  if (length == 0 || !leader.contains(pid)) return path;
  if (const std::size_t at = proc.size() + length; path.compare(at, task.size(), task) == 0)
    if (const std::size_t digits = number_at(path, at + task.size(), tid); digits > 0)
      path.replace(at + task.size(), digits, std::to_string(renamed(ids, tid)));
  return path.replace(proc.size(), length, std::to_string(renamed(ids, pid)));
}

}  // namespace

void rename_ids(Process& image, const std::map<pid_t, pid_t>& ids, OwnIds own_ids) {
  if (image.threads_size() == 0) return;
  const pid_t was = image.pid(), own_was = own_id(image.threads(0));
  const bool leads_group = image.pgid() == was;
  std::map<pid_t, pid_t> own;  // old id in the process's own pid namespace -> new id in ours
  for (const Thread& thread : image.threads()) own[own_id(thread)] = renamed(ids, thread.tid());
  std::map<pid_t, pid_t> paths = own;  // also by the id in the checkpointer's: it may have had that one's /proc
  for (const Thread& thread : image.threads()) paths.emplace(thread.tid(), renamed(ids, thread.tid()));
  // What the program itself tells the kernel is in terms of its own pid namespace.
  if (own_ids == OwnIds::keep) own.clear();

  for (Timers::Posix& timer : *image.mutable_timers()->mutable_posix()) timer.set_tid(renamed(ids, timer.tid()));
  for (Description& description : *image.mutable_descriptions()) {
    if (description.has_file())
      description.mutable_file()->set_path(rename_proc_path(description.file().path(), {own_was, was}, paths));
    const pid_t owner = description.owner_pid();
    if (description.kind() == Description::PIDFD)
      description.set_owner_pid(renamed(ids, owner));
    else if (owner > 0)
      description.set_owner_pid(renamed(own, owner));
    else if (owner < 0 && leads_group && -owner == own_was && own_ids == OwnIds::change)
      description.set_owner_pid(-renamed(ids, was));
  }
  for (PendingSignal& pending : *image.mutable_pending()) rename_sender(pending, own);
  for (Thread& thread : *image.mutable_threads()) {
    for (PendingSignal& pending : *thread.mutable_pending()) rename_sender(pending, own);
    const pid_t own_tid = own_id(thread);
    thread.set_tid(renamed(ids, thread.tid()));
    thread.set_own_tid(own_ids == OwnIds::keep && own_tid != thread.tid() ? own_tid : 0);
  }
  if (image.sid() == was) image.set_sid(renamed(ids, was));
  if (leads_group) image.set_pgid(renamed(ids, was));
  image.set_pid(renamed(ids, was));
}

void take_own_ids(Process& image) {
  std::map<pid_t, pid_t> ids;
  bool others = false;
  for (const Thread& thread : image.threads()) {
    ids[thread.tid()] = own_id(thread);
    others |= thread.own_tid() != 0;
  }
  if (others) rename_ids(image, ids);
}

std::map<pid_t, pid_t> make_threads_with_new_ids(Session& session, Remote& remote, Process& image) {
  std::map<pid_t, pid_t> ids, own;
  const std::vector<pid_t> made = make_all_threads(remote, image, false);
  ids[image.threads(0).tid()] = session.pid();
  for (int i = 1; i < image.threads_size(); ++i) ids[image.threads(i).tid()] = made[static_cast<std::size_t>(i - 1)];
  for (const Thread& thread : image.threads()) own[own_id(thread)] = ids[thread.tid()];
  rename_ids(image, ids);
  return own;
}

void make_threads_with_own_ids(Session& session, Remote& remote, Process& image) {
  make_all_threads(remote, image, true);
  const ProcDir tasks(session.pid(), "task");
  std::map<pid_t, pid_t> ids;
  for (const cr_thread& thread : session.threads()) ids[own_id(tasks, thread.tid)] = thread.tid;
  rename_ids(image, ids, OwnIds::keep);
}

void tell_new_ids(const Session& session, const Process& image, const std::map<pid_t, pid_t>& ids) {
  for (const Thread& thread : image.threads()) {
    pid_t known = 0;
    if (!thread.clear_child_tid()) continue;
    try {
      session.read_mem(thread.clear_child_tid(), &known, sizeof known);
    } catch (const Error&) {
      continue;  // nothing is mapped there: the kernel would not clear anything either
    }
    const auto found = ids.find(known);
    if (found != ids.end() && found->second == thread.tid())
      session.write_mem(thread.clear_child_tid(), &found->second, sizeof found->second);
  }
}

}  // namespace reprise
