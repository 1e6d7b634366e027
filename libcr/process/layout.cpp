// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/layout.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <linux/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/text.h"
#include "restore/on_behalf.h"

namespace reprise {
namespace {


/** @return the number of auxv words, AT_NULL included */
int auxv_words(const cr_process& data) {
  return static_cast<int>(std::min<std::uint32_t>(data.auxv_words, std::size(data.auxv)));
}

bool same(const cr_process& now, const MemoryLayout& layout) {
  if (now.start_code != layout.start_code() || now.end_code != layout.end_code() ||
      now.start_data != layout.start_data() || now.end_data != layout.end_data() ||
      now.start_brk != layout.start_brk() || now.brk != layout.brk() || now.start_stack != layout.start_stack() ||
      now.arg_start != layout.arg_start() || now.arg_end != layout.arg_end() ||
      now.env_start != layout.env_start() || now.env_end != layout.env_end())
    return false;
  return auxv_words(now) == layout.auxv_size() && std::equal(layout.auxv().begin(), layout.auxv().end(), now.auxv);
}

prctl_mm_map request_of(const MemoryLayout& layout) {
  prctl_mm_map map{};
  map.start_code = layout.start_code();
  map.end_code = layout.end_code();
  map.start_data = layout.start_data();
  map.end_data = layout.end_data();
  map.start_brk = layout.start_brk();
  map.brk = layout.brk();
  map.start_stack = layout.start_stack();
  map.arg_start = layout.arg_start();
  map.arg_end = layout.arg_end();
  map.env_start = layout.env_start();
  map.env_end = layout.env_end();
  map.exe_fd = static_cast<__u32>(-1);
  return map;
}

/** Is the file @p fd what /proc/PID/exe shows? */
bool is_executable_of(pid_t pid, int fd) {
  struct stat now {}, file {};
  return ::stat(("/proc/" + std::to_string(pid) + "/exe").c_str(), &now) == 0 && ::fstat(fd, &file) == 0 &&
         now.st_dev == file.st_dev && now.st_ino == file.st_ino;
}

}  // namespace

void collect_layout(const cr_process& data, Process& process) {
  MemoryLayout& layout = *process.mutable_layout();
  layout.set_start_code(data.start_code);
  layout.set_end_code(data.end_code);
  layout.set_start_data(data.start_data);
  layout.set_end_data(data.end_data);
  layout.set_start_brk(data.start_brk);
  layout.set_brk(data.brk);
  layout.set_start_stack(data.start_stack);
  layout.set_arg_start(data.arg_start);
  layout.set_arg_end(data.arg_end);
  layout.set_env_start(data.env_start);
  layout.set_env_end(data.env_end);
  layout.set_vdso(data.vdso);
  layout.mutable_auxv()->Add(data.auxv, data.auxv + auxv_words(data));
  layout.set_thp_disabled(data.mm_flags_thp_disabled != 0);
  layout.set_dumpable(data.dumpable);
  layout.set_future(data.future);
  process.set_membarrier(data.membarrier);
}

void restore_layout(Session& session, Remote& remote, const cr_process& now, const Process& image,
                    const RestoreOptions& options, RestoreMode mode, Report& report) {
  const MemoryLayout& layout = image.layout();
  if (!same(now, layout)) {
    prctl_mm_map map = request_of(layout);
    std::uint64_t at;
    const std::size_t bytes = static_cast<std::size_t>(layout.auxv_size()) * sizeof(std::uint64_t);
    auto* words = static_cast<std::uint64_t*>(remote.argument(bytes, at));
    std::copy(layout.auxv().begin(), layout.auxv().end(), words);
    map.auxv = reinterpret_cast<__u64*>(at);
    map.auxv_size = static_cast<__u32>(bytes);
    const std::uint64_t arg = remote.argument_of(map);
    remote.must("heap and argument addresses", 0, SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, arg, sizeof map, 0);
  }
  if (mode == RestoreMode::restart && !image.exe().path().empty()) {
    // Needs CAP_CHECKPOINT_RESTORE. Only /proc/PID/exe depends on it, so a failure is a warning.
    const std::string path = options.relocated(image.exe().path());
    const UniqueFd exe = OnBehalf::of_image(image, options).open(path, O_RDONLY);
    std::int64_t ret = exe ? 0 : -errno;
    if (exe && !is_executable_of(session.pid(), exe.get())) {  // a copy has it from its template
      prctl_mm_map map = request_of(layout);
      const int fd = session.put_fd(exe.get(), true);
      map.exe_fd = static_cast<__u32>(fd);
      const std::uint64_t arg = remote.argument_of(map);
      const std::size_t index = remote.add({SYS_prctl, {PR_SET_MM, PR_SET_MM_MAP, arg, sizeof map, 0}}, false);
      remote.add({SYS_close, {static_cast<std::uint64_t>(fd)}}, false);
      ret = remote.run()[index];
    }
    if (ret < 0) report.warnings.push_back("/proc/" + std::to_string(session.pid()) + "/exe does not show " + path + ": " + error_text(ret));
  }
  for (std::uint32_t missing = image.membarrier() & ~now.membarrier; missing; missing &= missing - 1) {
    // One command each. The kernel has no call to unregister, so newer registrations stay.
    const std::int64_t ret = remote.call(0, SYS_membarrier, missing & -missing, 0, 0);
    if (ret < 0) report.warnings.push_back("a membarrier registration is not restored: " + error_text(ret));
  }
  if ((now.mm_flags_thp_disabled != 0) != layout.thp_disabled()) {
    const std::int64_t ret = remote.call(0, SYS_prctl, PR_SET_THP_DISABLE, layout.thp_disabled(), 0, 0, 0);
    if (ret < 0) report.warnings.push_back("PR_SET_THP_DISABLE (huge pages) stays as it is: " + error_text(ret));
  }
}

void restore_dumpable(Session& session, Remote& remote, const Process& image, Report& report) {
  // Only the kernel sets values above 1; prctl refuses them.
  const std::uint32_t wanted = image.layout().dumpable();
  if (wanted > 1 || session.process().dumpable == wanted) return;
  const std::int64_t ret = remote.call(0, SYS_prctl, PR_SET_DUMPABLE, wanted, 0, 0, 0);
  if (ret < 0) report.warnings.push_back("its dumpable flag stays as it is: " + error_text(ret));
}

}  // namespace reprise
