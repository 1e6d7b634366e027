// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/environment.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include "base/proc_dir.h"
#include "base/text.h"
#include "process/credentials_of_threads.h"
#include "restore/file_identity.h"
#include "restore/nameless_files.h"
#include "restore/on_behalf.h"

namespace reprise {
namespace {

void collect_directory(const ProcDir& proc, const TargetPaths& paths, const char* name, File& file) {
  struct ::stat status;
  const std::string link = proc.link(name);
  if (link.empty() || !proc.stat(name, status)) fail_errno(errno, proc.path() + "/" + name);
  fill_file(file, link, status, paths);
}

int oom_score_adj(const ProcDir& proc) {
  const auto text = proc.try_read("oom_score_adj");
  return text ? std::atoi(text->c_str()) : 0;
}

/** /proc/PID/coredump_filter; nullopt if the kernel is built without core dumps. */
std::optional<std::uint32_t> coredump_filter(const ProcDir& proc) {
  const auto text = proc.try_read("coredump_filter");
  if (!text || text->empty()) return std::nullopt;
  return static_cast<std::uint32_t>(std::strtoul(text->c_str(), nullptr, 16));
}

/** @return true on success; false with errno set */
bool write_to(const ProcDir& proc, const char* name, const std::string& text) {
  const UniqueFd file(::openat(proc.fd(), name, O_WRONLY | O_CLOEXEC));
  return file && ::write(file.get(), text.data(), text.size()) >= 0;
}

/** Have the target write a file, with its own rights. @return 0 or errno */
int write_itself(Remote& remote, const std::string& path, const std::string& text) {
  const std::int64_t fd = remote.call(0, SYS_openat, static_cast<std::uint64_t>(AT_FDCWD), remote.argument(path),
                                      O_WRONLY | O_CLOEXEC, 0);
  if (fd < 0) return static_cast<int>(-fd);
  const std::int64_t written = remote.call(0, SYS_write, static_cast<std::uint64_t>(fd), remote.argument(text), text.size());
  remote.call(0, SYS_close, static_cast<std::uint64_t>(fd));
  return written < 0 ? static_cast<int>(-written) : 0;
}

/** Open the working directory of the image and check its identity. Throws Error (refused). */
UniqueFd open_cwd(const OnBehalf& behalf, const Process& image, const RestoreOptions& options, RestoreMode mode) {
  const File& cwd = image.env().cwd();
  const bool restart = mode == RestoreMode::restart;
  const std::string path = restart ? options.relocated(cwd.path()) : cwd.path();
  const std::string what = "working directory " + path;
  UniqueFd fd = behalf.open(path, O_PATH | O_DIRECTORY);
  if (!fd)
    throw Error(Failure::refused, errno, what + ": " + error_text(errno) + (restart ? " (use --relocate?)" : ""));
  struct ::stat now;
  if (!restart && (::fstat(fd.get(), &now) != 0 || now.st_ino != cwd.ino() || now.st_dev != cwd.dev()))
    throw Error(Failure::refused, ESTALE, what + ": another directory has that name now");
  return fd;
}

bool same_directory(const ProcDir& proc, const char* name, const File& file) {
  struct ::stat now;
  return proc.stat(name, now) && now.st_ino == file.ino() && now.st_dev == file.dev();
}

/** Restore PR_SET_MDWE (memory-deny-write-execute). The kernel never clears it once it is set. */
void restore_mdwe(Session& session, Remote& remote, std::uint32_t wanted, Report& report) {
  constexpr std::uint64_t kSetMdwe = 65;  // PR_SET_MDWE, Linux 6.3
  const std::uint32_t now = session.process().mdwe;
  if (now == wanted) return;
  const std::int64_t result = now ? -EPERM : remote.call(0, SYS_prctl, kSetMdwe, wanted, 0, 0, 0);
  if (result < 0)
    report.warnings.push_back(std::string("PR_SET_MDWE (memory never writable and executable) ") +
                              (now ? "was set since the checkpoint and stays set"
                                   : "cannot be set again: " + error_text(result)));
}

}  // namespace

Limits read_limits(const Session& session) {
  Limits limits{};
  for (int resource = 0; resource < RLIM_NLIMITS; ++resource)
    if (::prlimit(session.pid(), static_cast<__rlimit_resource>(resource), nullptr,
                  &limits[static_cast<std::size_t>(resource)]) != 0)
      fail_errno(errno, "process " + std::to_string(session.pid()) + ": its resource limits");
  return limits;
}

void collect_environment(Session& session, const cr_process& data, Process& process) {
  Environment& env = *process.mutable_env();
  const ProcDir proc(session.pid());
  const TargetPaths paths(session.pid());
  collect_directory(proc, paths, "cwd", *env.mutable_cwd());
  collect_directory(proc, paths, "root", *env.mutable_root());
  const std::string status = proc.read("status");
  env.set_umask(static_cast<std::uint32_t>(std::strtoul(proc_field(status, "Umask:").c_str(), nullptr, 8)));
  env.set_oom_score_adj(oom_score_adj(proc));
  if (const auto filter = coredump_filter(proc)) env.set_coredump_filter(*filter);
  env.set_mdwe(data.mdwe);
  env.set_pkeys(data.pkeys);
  const Limits limits = read_limits(session);
  for (std::size_t resource = 0; resource < limits.size(); ++resource) {
    auto* saved = env.add_limits();
    saved->set_resource(static_cast<std::uint32_t>(resource));
    saved->set_soft(limits[resource].rlim_cur);
    saved->set_hard(limits[resource].rlim_max);
  }
  env.set_child_subreaper(data.child_subreaper != 0);
}

void check_environment(const Process& image, const RestoreOptions& options, RestoreMode mode) {
  if (mode != RestoreMode::restart) return;
  const Environment& env = image.env();
  if (env.has_root() && env.root().path() != "/")
    throw Error(Failure::refused, EOPNOTSUPP,
                "the process had the root directory " + env.root().path() + " (chroot), which restart does not restore");
  check_credentials(image);
  if (!env.cwd().deleted()) open_cwd(OnBehalf::of_image(image, options), image, options, mode);
}

UniqueFd check_environment_live(Session& session, const Process& image, const RestoreOptions& options, RestoreMode mode,
                                const OnBehalf& behalf, NamelessFiles& nameless) {
  const File& cwd = image.env().cwd();
  const auto make_again = [&] { return UniqueFd(::fcntl(nameless.folder(cwd), F_DUPFD_CLOEXEC, 0)); };
  if (mode == RestoreMode::restart) return cwd.deleted() ? make_again() : UniqueFd();
  const ProcDir proc(session.pid());
  const std::string who = "process " + std::to_string(session.pid());
  if (!same_directory(proc, "root", image.env().root()))
    throw Error(Failure::refused, EOPNOTSUPP, who + " has changed its root directory since (chroot): restart the image instead");
  check_credentials_live(session, image);
  if (same_directory(proc, "cwd", cwd)) return {};
  if (cwd.deleted()) return make_again();
  open_cwd(behalf, image, options, mode);
  return {};
}

void restore_environment(Session& session, Remote& remote, const Process& image, const RestoreOptions& options,
                         RestoreMode mode, const OnBehalf& behalf, Report& report, UniqueFd made_cwd) {
  const Environment& env = image.env();
  const ProcDir proc(session.pid());
  const bool restart = mode == RestoreMode::restart;

  const bool moved = restart && options.relocated(env.cwd().path()) != env.cwd().path();
  if (made_cwd || moved || !same_directory(proc, "cwd", env.cwd())) {
    const UniqueFd cwd = made_cwd ? std::move(made_cwd) : open_cwd(behalf, image, options, mode);
    const auto there = static_cast<std::uint64_t>(session.put_fd(cwd.get(), true));
    const std::size_t change = remote.add({SYS_fchdir, {there}}, false);
    remote.add({SYS_close, {there}}, false);
    if (const std::int64_t result = remote.run()[change]; result < 0)
      throw Error(Failure::permanent, static_cast<int>(-result),
                  "working directory " + env.cwd().path() + ": " + error_text(result));
  }

  const std::string status = proc.read("status");
  if (std::strtoul(proc_field(status, "Umask:").c_str(), nullptr, 8) != env.umask())
    remote.must("its umask", 0, SYS_umask, env.umask());
  if ((session.process().child_subreaper != 0) != env.child_subreaper()) {
    const std::int64_t result = remote.call(0, SYS_prctl, PR_SET_CHILD_SUBREAPER, env.child_subreaper(), 0, 0, 0);
    if (result < 0) report.warnings.push_back("its child subreaper attribute stays as it is: " + error_text(result));
  }
  for (const cr_thread& thread : session.threads())
    if (thread.personality != image.personality())
      remote.must("its personality", thread.tid, SYS_personality, image.personality());
  if (const int now = oom_score_adj(proc); now != env.oom_score_adj()) {
    // To raise it harms only the process itself.
    const bool own = mode == RestoreMode::pause && !options.trust && env.oom_score_adj() < now;
    const std::string text = std::to_string(env.oom_score_adj());
    if (const int error = own ? write_itself(remote, "/proc/self/oom_score_adj", text)
                              : (write_to(proc, "oom_score_adj", text) ? 0 : errno))
      report.warnings.push_back("its OOM score adjustment stays as it is: " + error_text(error));
  }
  if (env.has_coredump_filter() && coredump_filter(proc) != env.coredump_filter() &&
      !write_to(proc, "coredump_filter", std::to_string(env.coredump_filter())))
    report.warnings.push_back("its core dump filter stays as it is: " + error_text(errno));
  restore_mdwe(session, remote, env.mdwe(), report);
}

void restore_limits(const Session& session, const Process& image, const Limits& before, Remote* by_itself,
                    Report& report) {
  static const char* const names[] = {"CPU",    "FSIZE", "DATA",       "STACK",    "CORE", "RSS",    "NPROC",  "NOFILE",
                                      "MEMLOCK", "AS",    "LOCKS",      "SIGPENDING", "MSGQUEUE", "NICE", "RTPRIO", "RTTIME"};
  for (const Environment::Limit& saved : image.env().limits()) {
    const auto resource = static_cast<__rlimit_resource>(saved.resource());
    rlimit now;
    if (saved.resource() >= RLIM_NLIMITS || ::prlimit(session.pid(), resource, nullptr, &now) != 0) continue;
    const rlimit& was = before[saved.resource()];
    // What we have raised for the rollback is not the target's to keep.
    if (by_itself && (now.rlim_cur != was.rlim_cur || now.rlim_max != was.rlim_max) &&
        ::prlimit(session.pid(), resource, &was, nullptr) == 0)
      now = was;
    if (now.rlim_cur == saved.soft() && now.rlim_max == saved.hard()) continue;
    const auto set = [&](const rlimit& to) -> std::int64_t {
      if (by_itself) return by_itself->call(0, SYS_prlimit64, 0, saved.resource(), by_itself->argument_of(to), 0);
      return ::prlimit(session.pid(), resource, &to, nullptr) == 0 ? 0 : -errno;
    };
    const std::int64_t result = set({saved.soft(), saved.hard()});
    if (result == 0) continue;
    // Raising the hard limit needs CAP_SYS_RESOURCE: restore what the current one allows.
    const bool some = set({std::min<rlim_t>(saved.soft(), now.rlim_max), std::min<rlim_t>(saved.hard(), now.rlim_max)}) == 0;
    report.warnings.push_back(std::string("the limit ") + names[saved.resource()] +
                              (some ? " is lower than it was: " : " stays as it is: ") + error_text(result));
  }
}

}  // namespace reprise
