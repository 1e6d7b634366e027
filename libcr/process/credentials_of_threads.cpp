// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/credentials_of_threads.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "base/proc_dir.h"
#include "process/credentials_set.h"
#include "process/threads.h"
#include "restore/credentials.h"

namespace reprise {
namespace {

/** @return the credentials of all threads. Reads /proc only for threads that do not share the leader's struct cred. */
std::map<pid_t, Credentials> live_credentials(Session& session, std::span<const cr_thread> now) {
  const ProcDir tasks(session.pid(), "task");
  std::map<pid_t, Credentials> all;
  const Credentials* leader = nullptr;  // comes first
  for (const cr_thread& thread : now) {
    const bool shared = leader && thread.flags & CR_THREAD_CREDS;
    Credentials& own = all[thread.tid] =
        shared ? *leader : parse_credentials(tasks.read(std::to_string(thread.tid) + "/status"));
    own.securebits = thread.securebits;
    own.no_new_privs = thread.flags & CR_THREAD_NO_NEW_PRIVS;
    if (thread.flags & CR_THREAD_LEADER) leader = &own;
  }
  if (!leader) throw Error(Failure::permanent, ESRCH, "process " + std::to_string(session.pid()) + " has no first thread");
  return all;
}

/** /proc shows ids in the reader's user namespace, but system calls of the target take ids of its own one. */
bool same_user_namespace(pid_t pid) {
  const std::string ours = ProcDir("/proc/self").link("ns/user"), theirs = ProcDir(pid).link("ns/user");
  return !theirs.empty() && ours == theirs;
}

}  // namespace

void collect_credentials(Session& session, std::span<const cr_thread> now, Process& process) {
  const auto all = live_credentials(session, now);
  const Credentials& leader = all.at(session.pid());
  save_credentials(leader, *process.mutable_env());
  for (Thread& thread : *process.mutable_threads())
    if (const Credentials& own = all.at(thread.tid()); own != leader) save_credentials(own, *thread.mutable_credentials());
}

void check_credentials(const Process& image) {
  if (image.env().uids_size() != 4 || image.env().gids_size() != 4)
    throw Error(Failure::refused, EINVAL, "the image does not say which user the process belonged to");
  // Start from the credentials after an exec: file capabilities of this command are not passed on to the program.
  const Credentials from = executed_by(own_credentials());
  const std::uint64_t known = known_capabilities();
  for (int i = 0; i < image.threads_size(); ++i) {
    const Thread& thread = image.threads(i);
    if (i && !thread.has_credentials()) continue;  // the leader's
    const std::string problem = why_not(from, saved_credentials(image, thread, known));
    if (problem.empty()) continue;
    throw Error(Failure::refused, EPERM,
                "you may not give a process " + problem + (i ? ", which " + thread_name(thread) + " had" : "") +
                    ": restart it as its owner, or as root");
  }
}

void check_credentials_live(Session& session, const Process& image) {
  if (image.env().uids_size() != 4 || image.env().gids_size() != 4)
    throw Error(Failure::refused, EINVAL, "the image does not say which user the process belonged to");
  const auto all = live_credentials(session, session.threads());
  const std::uint64_t known = known_capabilities();
  for (const Thread& thread : image.threads()) {
    const auto found = all.find(thread.tid());
    // A thread that has ended is made again by the leader and starts with its credentials.
    const Credentials& from = found != all.end() ? found->second : all.at(session.pid());
    const Credentials to = reachable(from, saved_credentials(image, thread, known));
    if (from == to) continue;
    std::string problem = why_not(from, to);
    if (problem.empty() && !same_user_namespace(session.pid())) problem = "its ids, in another user namespace than yours";
    if (problem.empty()) continue;
    std::string who = thread_name(thread);
    if (found == all.end())
      who = "the first thread, which makes " + who + " again,";
    else if (thread.tid() == image.pid())
      who = "process " + std::to_string(session.pid());
    throw Error(Failure::refused, EPERM, who + " has since given up " + problem + ": restart the image instead");
  }
}

void restore_credentials(Session& session, Remote& remote, const Process& image, Report& report) {
  const auto all = live_credentials(session, session.threads());
  const std::uint64_t known = known_capabilities();
  std::set<std::string> told;  // once for all threads
  for (const Thread& thread : image.threads()) {
    const Credentials& from = all.at(thread.tid());
    const Credentials saved = saved_credentials(image, thread, known);
    if (const std::string lost = narrower(from, saved); !lost.empty() && told.insert(lost).second)
      report.warnings.push_back(lost);
    const Credentials to = reachable(from, saved);
    if (to == from) continue;
    set_credentials(remote, thread.tid(), from, to);
    // The kernel clears the parent-death signal when credentials change.
    if (thread.pdeath_signal())
      remote.call(thread.tid(), SYS_prctl, PR_SET_PDEATHSIG, static_cast<std::uint64_t>(thread.pdeath_signal()), 0, 0, 0);
  }
}

}  // namespace reprise
