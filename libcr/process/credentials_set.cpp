// SPDX-License-Identifier: LGPL-2.1-or-later
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/proc_dir.h"
#include "restore/credentials.h"
#include "process/environment.h"

namespace reprise {
namespace {

constexpr std::uint32_t kKeep = ~0U;  // -1: leave this id as it is

/** Calls of one thread, each with its name for messages. */
class Calls {
 public:
  Calls(Remote& remote, pid_t tid) : remote_(remote), tid_(tid) {}
  void add(const char* what, const Remote::Call& call) {
    remote_.add(call, false);
    names_.push_back(what);
  }
  void run() {
    if (names_.empty()) return;
    const auto results = remote_.run(tid_);
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (results[i] < 0)
        throw Error(Failure::permanent, static_cast<int>(-results[i]),
                    "thread " + std::to_string(tid_) + ": " + names_[i] + ": " + error_text(results[i]));
    names_.clear();
  }

 private:
  Remote& remote_;
  pid_t tid_;
  std::vector<const char*> names_;
};

void set_capabilities(Remote& remote, Calls& calls, const Credentials& to) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  const std::uint64_t header_at = remote.argument_of(header);
  const std::uint64_t data_at = remote.argument_of(capability_words(to));
  calls.add("capabilities", {SYS_capset, {header_at, data_at}});
}

void set_thread(Remote& remote, pid_t tid, const Credentials& from, const Credentials& to, std::uint32_t securebits) {
  Calls calls(remote, tid);
  const bool changes_uid = from.uids != to.uids, changes_gid = from.gids != to.gids;
  if ((changes_uid || changes_gid || from.groups != to.groups) && from.uids[1] != 0 &&
      (from.uids[0] == 0 || from.uids[2] == 0))
    calls.add("effective user id", {SYS_setresuid, {kKeep, 0, kKeep}});
  for (int capability = 0; capability < 64; ++capability)
    if (((from.bounding & ~to.bounding) >> capability) & 1)
      calls.add("bounding set", {SYS_prctl, {PR_CAPBSET_DROP, static_cast<std::uint64_t>(capability), 0, 0, 0}});
  calls.run();
  // Otherwise the kernel takes capabilities away with user id 0.
  if (changes_uid && to.permitted) calls.add("keeping capabilities", {SYS_prctl, {PR_SET_KEEPCAPS, 1, 0, 0, 0}});
  if (from.groups != to.groups) {
    std::uint64_t at = 0;
    const std::size_t bytes = to.groups.size() * sizeof(std::uint32_t);
    if (bytes) std::memcpy(remote.argument(bytes, at), to.groups.data(), bytes);
    calls.add("supplementary groups", {SYS_setgroups, {to.groups.size(), at}});
  }
  if (changes_gid) {
    calls.add("group ids", {SYS_setresgid, {to.gids[0], to.gids[1], to.gids[2]}});
    calls.add("filesystem group id", {SYS_setfsgid, {to.gids[3]}});
  }
  if (securebits) calls.add("securebits", {SYS_prctl, {PR_SET_SECUREBITS, securebits, 0, 0, 0}});
  if (changes_uid) {
    calls.add("user ids", {SYS_setresuid, {to.uids[0], to.uids[1], to.uids[2]}});
    calls.add("filesystem user id", {SYS_setfsuid, {to.uids[3]}});
  }
  set_capabilities(remote, calls, to);
  if (changes_uid && to.permitted && !(securebits & SECBIT_KEEP_CAPS))
    calls.add("keeping capabilities", {SYS_prctl, {PR_SET_KEEPCAPS, 0, 0, 0, 0}});
  calls.run();
  if (to.ambient) {
    for (int capability = 0; capability < 64; ++capability)
      if ((to.ambient >> capability) & 1)
        calls.add("ambient capabilities", {SYS_prctl, {PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE,
                                                       static_cast<std::uint64_t>(capability), 0, 0}});
  } else if (from.ambient) {
    calls.add("ambient capabilities", {SYS_prctl, {PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0}});
  }
  if (to.no_new_privs && !from.no_new_privs)
    calls.add("no_new_privs", {SYS_prctl, {PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0}});
  calls.run();
}

void restore_limits(const Session& session, const Process& image, Report& report) {
  static const char* const names[] = {"CPU",    "FSIZE", "DATA",       "STACK",    "CORE", "RSS",    "NPROC",  "NOFILE",
                                      "MEMLOCK", "AS",    "LOCKS",      "SIGPENDING", "MSGQUEUE", "NICE", "RTPRIO", "RTTIME"};
  for (const Environment::Limit& saved : image.env().limits()) {
    const auto resource = static_cast<__rlimit_resource>(saved.resource());
    rlimit now;
    if (saved.resource() >= RLIM_NLIMITS || ::prlimit(session.pid(), resource, nullptr, &now) != 0) continue;
    if (now.rlim_cur == saved.soft() && now.rlim_max == saved.hard()) continue;
    const rlimit wanted = {saved.soft(), saved.hard()};
    if (::prlimit(session.pid(), resource, &wanted, nullptr) == 0) continue;
    const int code = errno;
    // Not above the hard limit there is, then.
    const rlimit possible = {std::min<rlim_t>(saved.soft(), now.rlim_max), std::min<rlim_t>(saved.hard(), now.rlim_max)};
    const bool some = ::prlimit(session.pid(), resource, &possible, nullptr) == 0;
    report.warnings.push_back(std::string("the limit ") + names[saved.resource()] +
                              (some ? " is lower than it was: " : " stays as it is: ") + error_text(code));
  }
}

}  // namespace

void restore_credentials(Session& session, Remote& remote, const Process& image, RestoreMode mode, Report& report) {
  const Environment& saved = image.env();
  const Credentials to = saved_credentials(saved, known_capabilities());
  const std::uint32_t securebits = mode == RestoreMode::restart ? saved.securebits() : 0;
  bool told = false;
  const ProcDir tasks(session.pid(), "task");
  std::optional<Credentials> first;  // the leader's, which comes first
  for (const cr_thread& thread : session.threads()) {
    const bool shared = first && thread.flags & CR_THREAD_CREDS;
    const Credentials from = shared ? *first : parse_credentials(tasks.read(std::to_string(thread.tid) + "/status"));
    if (thread.flags & CR_THREAD_LEADER) first = from;
    if (from == to && !securebits) continue;
    if (const std::string lost = narrower(from, to); !lost.empty() && !std::exchange(told, true))
      report.warnings.push_back(lost);
    Credentials same_otherwise = from;
    same_otherwise.bounding &= to.bounding;
    same_otherwise.no_new_privs |= to.no_new_privs;
    Credentials narrowed = to;
    narrowed.bounding = same_otherwise.bounding;
    narrowed.no_new_privs = same_otherwise.no_new_privs;
    if (narrowed == from && !securebits) continue;
    set_thread(remote, thread.tid, from, narrowed, securebits);
    // The kernel forgets it when credentials change.
    for (const Thread& one : image.threads())
      if (one.tid() == thread.tid && one.pdeath_signal())
        remote.call(thread.tid, SYS_prctl, PR_SET_PDEATHSIG, static_cast<std::uint64_t>(one.pdeath_signal()), 0, 0, 0);
  }
  restore_limits(session, image, report);
}

}  // namespace reprise
