// SPDX-License-Identifier: LGPL-2.1-or-later
#include "restore/on_behalf.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/proc_dir.h"
#include "base/raised_limit.h"
#include "base/text.h"
#include "restore/credentials.h"
#include "restore/target_paths.h"
#include "session/lazy_remote.h"

namespace reprise {
namespace {

bool has(const Credentials& who, int capability) { return (who.effective >> capability) & 1; }

/** Set the effective capabilities of this thread. Not through the C library, which would change all threads. */
bool set_effective(Credentials own, std::uint64_t effective) {
  own.effective = effective;
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  return ::syscall(SYS_capset, &header, capability_words(own).data()) == 0;
}
bool set_groups(const Credentials& to) { return ::syscall(SYS_setgroups, to.groups.size(), to.groups.data()) == 0; }
/** setfsuid() and setfsgid() return the previous id and no error: call them twice to check. */
bool set_fs_gid(gid_t gid) {
  ::syscall(SYS_setfsgid, gid);
  return static_cast<gid_t>(::syscall(SYS_setfsgid, gid)) == gid;
}
bool set_fs_uid(uid_t uid) {
  ::syscall(SYS_setfsuid, uid);
  return static_cast<uid_t>(::syscall(SYS_setfsuid, uid)) == uid;
}

bool same_file(int one, int other) {
  struct ::stat a, b;
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/** The lowest limit of open files with which a process whose table is full can open one more. */
rlim_t one_more(Session& session) {
  rlim_t end = 0;
  for (const cr_fd& fd : session.fds()) end = std::max(end, static_cast<rlim_t>(fd.fd) + 1);
  return end + 1;
}

}  // namespace

struct OnBehalf::State {
  Session* session = nullptr;          ///< of_target() only, as remote
  LazyRemote* remote = nullptr;
  bool confined = false;               ///< the target may be in a sandbox (Landlock, user namespace, chroot)
  pid_t pid = 0;                       ///< 0: does not exist yet
  const Environment* image = nullptr;  ///< nullptr: use the rights of the live process
  Credentials to, own;                 ///< to take on, and our own
  bool differs = false;
  bool other_rights = false;           ///< the target has changed its rights since the checkpoint, but can restore them
  bool trust = false, looked = false;
  unsigned depth = 0;                  ///< number of nested Rights
  TargetPaths paths;

  explicit State(pid_t target) : pid(target), paths(target ? target : ::getpid()) {}

  /** Read the credentials on first use: most rollbacks open nothing by name. The call after an Error tries again. */
  void look() {
    if (looked || trust) return;
    paths.look();
    if (image) to = saved_credentials(*image, known_capabilities());
    if (pid) {
      Credentials live = parse_credentials(ProcDir(pid).read("status"));
      live.securebits = to.securebits;
      const ProcDir theirs(pid), ours(::getpid());
      confined = live.no_new_privs || theirs.link("ns/user") != ours.link("ns/user") ||
                 theirs.link("root") != ours.link("root");
      other_rights = live.effective != to.effective || live.uids[3] != to.uids[3] || live.gids[3] != to.gids[3] ||
                     live.groups != to.groups;
      if (!image || !why_not(live, to).empty()) to = live, other_rights = false;
    }
    own = parse_credentials(ProcDir("/proc/thread-self").read("status"));
    to.effective &= own.effective;
    // Changing the groups needs CAP_SETGID. Without it, our own groups add no rights of another user.
    if (to.uids[3] == own.uids[3] && !has(own, CAP_SETGID)) to.groups = own.groups, to.gids[3] = own.gids[3];
    differs = to.effective != own.effective || to.uids[3] != own.uids[3] || to.gids[3] != own.gids[3] ||
              to.groups != own.groups;
    looked = true;
  }

  /** openat(2) in the target, and its descriptor here. */
  UniqueFd open_there(const std::string& inside, int flags, mode_t mode) {
    Remote& calls = **remote;
    const auto open = [&] {
      return calls.call(0, SYS_openat, static_cast<std::uint64_t>(AT_FDCWD), calls.argument(inside),
                        static_cast<std::uint64_t>(flags | O_CLOEXEC | O_NOCTTY), mode);
    };
    std::int64_t number = open();
    if (number == -EMFILE)
      if (const RaisedLimit raised(pid, RLIMIT_NOFILE, one_more(*session)); raised) number = open();
    if (number < 0) return errno = static_cast<int>(-number), UniqueFd();
    UniqueFd here;
    try {
      here = session->get_fd(static_cast<int>(number));
    } catch (...) {
      calls.call(0, SYS_close, static_cast<std::uint64_t>(number));
      throw;
    }
    calls.call(0, SYS_close, static_cast<std::uint64_t>(number));
    return here;
  }

  /** Images have paths as we see them. @return @p path as the target sees it, "" if it lies outside of its root */
  std::string inside(const std::string& path) const {
    const std::string root = ProcDir(pid).link("root");
    if (root == "/" || root.empty()) return path;
    if (path == root) return "/";
    return path.starts_with(root + "/") ? path.substr(root.size()) : "";
  }

  bool take() const {
    return (to.groups == own.groups || set_groups(to)) && (to.gids[3] == own.gids[3] || set_fs_gid(to.gids[3])) &&
           (to.uids[3] == own.uids[3] || set_fs_uid(to.uids[3])) && set_effective(own, to.effective);
  }

  void give_back() const {
    // Set the capabilities before the ids, which need some, and after them, because setfsuid() changes them.
    const bool done = set_effective(own, own.effective) && set_fs_uid(own.uids[3]) && set_fs_gid(own.gids[3]) &&
                      (to.groups == own.groups || set_groups(own)) && set_effective(own, own.effective);
    if (done) return;
    // Continuing with unexpected rights would be worse than ending.
    std::fprintf(stderr, "cannot take back the rights of user %u: %s\n", own.uids[3], error_text(errno).c_str());
    std::abort();
  }
};

OnBehalf OnBehalf::of_process(pid_t pid) { return OnBehalf(std::make_shared<State>(pid)); }

OnBehalf OnBehalf::of_image(const Process& image, const RestoreOptions& options) {
  auto state = std::make_shared<State>(0);
  state->image = &image.env();
  state->trust = options.trust;
  return OnBehalf(std::move(state));
}

OnBehalf OnBehalf::of(pid_t target, const Process& image, const RestoreOptions& options, RestoreMode mode) {
  if (mode == RestoreMode::restart) return of_image(image, options);
  auto state = std::make_shared<State>(target);
  state->image = &image.env();
  return OnBehalf(std::move(state));
}

OnBehalf OnBehalf::of_target(Session& session, LazyRemote& remote, const Process& image) {
  auto state = std::make_shared<State>(session.pid());
  state->image = &image.env();
  state->session = &session;
  state->remote = &remote;
  return OnBehalf(std::move(state));
}

OnBehalf::Rights::Rights(const OnBehalf& whom) : whom_(whom) {
  State& state = *whom_.state_;
  state.look();
  if (state.differs && state.depth == 0 && !state.take()) {
    const int code = errno;
    state.give_back();
    throw Error(Failure::refused, code,
                "you may not open files as user " + std::to_string(state.to.uids[3]) +
                    " does: run as that user, or as root");
  }
  ++state.depth;
}

OnBehalf::Rights::~Rights() {
  const int code = errno;
  State& state = *whom_.state_;
  if (--state.depth == 0 && state.differs) state.give_back();
  errno = code;
}

UniqueFd OnBehalf::open(const std::string& path, int flags, mode_t mode) const {
  if (state_->remote) {
    // The kernel shows a path that does not begin at the root directory for a file that no path leads to any more.
    if (!path.starts_with('/')) return errno = ENOENT, UniqueFd();
    const std::string inside = state_->inside(path);
    if (inside.empty()) return errno = EXDEV, UniqueFd();
    UniqueFd fd = state_->open_there(inside, flags, mode);
    if (fd || (errno != EACCES && errno != EPERM)) return fd;
    const int code = errno;
    state_->look();
    // A process that has changed its ids since opens with those of the checkpoint, unless its sandbox would be left.
    if (!state_->other_rights || state_->confined) return errno = code, UniqueFd();
  }
  const Rights rights(*this);
  return state_->paths.open(path, flags, mode);
}

UniqueFd OnBehalf::reopen(int fd, int flags) const {
  const Rights rights(*this);
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return UniqueFd(::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY));
}

UniqueFd OnBehalf::open_found(const UniqueFd& name, const std::string& path, int flags) const {
  if (!state_->remote) return reopen(name.get(), flags);
  UniqueFd fd = open(path, flags);
  if (fd && !same_file(fd.get(), name.get())) return errno = ESTALE, UniqueFd();
  return fd;
}

}  // namespace reprise
