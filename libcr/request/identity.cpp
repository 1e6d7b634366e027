// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/identity.h"

#include <cerrno>
#include <cstring>
#include <ctime>

#include <elf.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/proc_dir.h"
#include "base/proc_stat.h"
#include "base/text.h"
#include "process/clocks.h"
#include "process/maps.h"
#include "process/xstate.h"

namespace reprise {
namespace {

constexpr std::uint64_t kPage = 4096;

ProcStat must_stat(pid_t pid) {
  const auto stat = proc_stat(pid);
  if (!stat) throw Error(Failure::permanent, ESRCH, "process " + std::to_string(pid) + " is gone");
  return *stat;
}

/** @return the hash of this kernel's vdso, which is the same in every process; "" if there is none */
std::string vdso_hash() {
  const auto base = reinterpret_cast<const char*>(::getauxval(AT_SYSINFO_EHDR));
  if (!base) return {};
  Elf64_Ehdr header;
  std::memcpy(&header, base, sizeof header);
  const std::uint64_t end = header.e_shoff + std::uint64_t{header.e_shnum} * header.e_shentsize;
  const std::uint64_t hash = ::XXH64(base, (end + kPage - 1) & ~(kPage - 1), 0);
  std::string bytes(sizeof hash, '\0');
  std::memcpy(bytes.data(), &hash, sizeof hash);
  return bytes;
}

std::string boot_id() {
  std::string id = read_proc("/proc/sys/kernel/random/boot_id");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

/**
 * @return a value that is the same for a process and its restarts, and differs from that of every other process with
 * the same pid: the value that a restart has set, else a hash of boot id and start time. A fork inherits neither.
 */
std::string lineage_of(Session& session, const ProcStat& stat) {
  if (std::string set = session.lineage(); !set.empty()) return set;
  const std::string start = boot_id() + " " + std::to_string(stat.start_ticks);
  XXH128_canonical_t hash;
  ::XXH128_canonicalFromHash(&hash, ::XXH3_128bits(start.data(), start.size()));
  static_assert(sizeof hash.digest == CR_ID_SIZE);
  return {reinterpret_cast<const char*>(hash.digest), sizeof hash.digest};
}

std::string exe_path(pid_t pid) {
  char path[4096];
  const ssize_t len = ::readlink(("/proc/" + std::to_string(pid) + "/exe").c_str(), path, sizeof path);
  return len > 0 ? std::string(path, static_cast<std::size_t>(len)) : std::string();
}

struct stat exe_stat(Session& session) {
  struct stat st {};
  const std::string path = "/proc/" + std::to_string(session.pid()) + "/exe";
  if (::stat(path.c_str(), &st) != 0)
    throw Error(Failure::permanent, errno, "cannot look at " + path + ": " + error_text(errno));
  return st;
}

std::string seconds_since_boot(std::uint64_t ticks) {
  return std::to_string(ticks / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK))) + " s after boot";
}

void collect_exe(Session& session, Process& process) {
  File& exe = *process.mutable_exe();
  constexpr std::string_view deleted = " (deleted)";
  std::string path = exe_path(session.pid());
  const struct stat st = exe_stat(session);
  if (std::string_view(path).ends_with(deleted) && st.st_nlink == 0) {
    path.resize(path.size() - deleted.size());
    exe.set_deleted(true);
  }
  exe.set_path(path);
  exe.set_dev(st.st_dev);
  exe.set_ino(st.st_ino);
  exe.set_size(static_cast<std::uint64_t>(st.st_size));
  exe.set_mtime_ns(st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec);
  exe.set_mode(st.st_mode);
}

}  // namespace

std::string process_name(const Process& image) {
  return std::to_string(image.pid()) + (image.comm().empty() ? "" : " (" + image.comm() + ")");
}

void collect_identity(Session& session, Process& process) {
  const pid_t pid = session.pid();
  const ProcStat stat = must_stat(pid);
  process.set_format(1);
  process.set_pid(pid);
  process.set_ppid(stat.ppid);
  process.set_pgid(stat.pgid);
  process.set_sid(stat.sid);
  process.set_comm(stat.comm);
  process.set_start_time_ticks(stat.start_ticks);
  process.set_lineage(lineage_of(session, stat));

  const std::string cmdline = read_proc("/proc/" + std::to_string(pid) + "/cmdline");
  for (std::size_t at = 0; at < cmdline.size();) {
    const std::size_t end = std::min(cmdline.find('\0', at), cmdline.size());
    process.add_cmdline(cmdline.substr(at, end - at));
    at = end + 1;
  }
}

void collect_host(Session& session, Process& process) {
  collect_exe(session, process);
  utsname name{};
  ::uname(&name);
  Host& host = *process.mutable_host();
  host.set_nodename(name.nodename);
  host.set_kernel_release(name.release);
  host.set_machine(name.machine);
  host.set_vdso_hash(vdso_hash());
  host.set_boot_id(boot_id());
  collect_clocks(session.pid(), host);
  collect_xstate_layout(host);
  process.set_taken_unix_ns(host.realtime_ns());
}

bool check_same_process(Session& session, const Process& image, bool tracked) {
  const ProcStat stat = must_stat(session.pid());
  const auto refuse = [&](const std::string& why) {
    throw Error(Failure::refused, ESRCH,
                "the image is of process " + process_name(image) + ", started " +
                    seconds_since_boot(image.start_time_ticks()) + ", but process " + std::to_string(session.pid()) +
                    " (" + stat.comm + ") " + why + ": to bring the saved one back use cr_restart");
  };
  if (image.pid() != session.pid()) refuse("is another one");
  // Tracking belongs to the process, so it proves the identity.
  const bool same_start = image.start_time_ticks() == stat.start_ticks && same_boot(image);
  const bool same_run = image.lineage().empty() ? same_start : image.lineage() == lineage_of(session, stat);
  if (!tracked && !same_run) {
    if (same_start)
      refuse("was restarted from another one's image");
    refuse("was started " + seconds_since_boot(stat.start_ticks) +
           (same_boot(image) ? "" : ", and the machine has been booted since"));
  }
  const struct stat st = exe_stat(session);
  if (st.st_ino != image.exe().ino() || st.st_dev != image.exe().dev())
    refuse("runs another program now, " + exe_path(session.pid()));
  return !same_start;
}

void check_same_machine(const Process& image) {
  utsname name{};
  ::uname(&name);
  if (image.host().machine() != name.machine)
    throw Error(Failure::refused, ENOEXEC,
                "the image was taken on a " + image.host().machine() + " machine, this is a " + name.machine);
  if (image.host().vdso_hash() != vdso_hash())
    throw Error(Failure::refused, ENOEXEC,
                "the image was taken under kernel " + image.host().kernel_release() + ", this is " + name.release +
                    " (or another kind of processor), and the code that the kernel maps into every program differs: "
                    "restart it on a node like the one it was taken on");
}

bool same_boot(const Process& image) { return image.host().boot_id() == boot_id(); }

}  // namespace reprise
