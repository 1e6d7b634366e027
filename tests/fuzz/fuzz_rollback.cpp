// SPDX-License-Identifier: GPL-2.0-only
// A whole pause or restart, from a hostile image to the calls that it makes, against a fake kernel and a fake module
// (fake_kernel.h). Each call must be harmless. A refusal is an Error with a text and changes nothing. An error after the
// commit ends the process. Success leaves the process as the image says.
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <elf.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <xxhash.h>

#include "base/error.h"
#include "base/proc_dir.h"
#include "base/proc_stat.h"
#include "fake_kernel.h"
#include "image_sample.h"
#include "proto_mutator.h"
#include "request/requests.h"

using namespace reprise;

REPRISE_FUZZ_MESSAGE(reprise::fuzz::RollbackCase)

namespace {

constexpr std::uint64_t kMostBlob = 1 << 20;
constexpr int kMostNumber = 4096;  // of a timer or a watch: libcr creates and removes all lower numbers one by one

[[noreturn]] void broken(const char* what, const char* text) {
  std::fprintf(stderr, "%s: %s\n", what, text);
  std::abort();
}

/** Print the result of one input. */
void show(const char* when, const char* what) {
  static const bool wanted = std::getenv("REPRISE_FUZZ_SHOW");
  if (wanted) std::fprintf(stderr, "%s: %s\n", when, what);
}

/** The values that a restart compares with this machine, and a pause with the process. */
struct Here {
  std::string machine, vdso, boot;
  struct ::stat exe {}, root {};
  std::uint64_t ticks = 0;
  Here() {
    utsname name{};
    ::uname(&name);
    machine = name.machine;
    if (const auto base = reinterpret_cast<const char*>(::getauxval(AT_SYSINFO_EHDR))) {
      Elf64_Ehdr header;
      std::memcpy(&header, base, sizeof header);
      const std::uint64_t end = header.e_shoff + std::uint64_t{header.e_shnum} * header.e_shentsize;
      const std::uint64_t hash = ::XXH64(base, (end + 4095) & ~std::uint64_t{4095}, 0);
      vdso.assign(reinterpret_cast<const char*>(&hash), sizeof hash);
    }
    boot = read_proc("/proc/sys/kernel/random/boot_id");
    while (!boot.empty() && boot.back() == '\n') boot.pop_back();
    ::stat("/proc/self/exe", &exe);
    ::stat("/", &root);
    ticks = running_since(::getpid());
  }
};

/** Make the state fit this machine and the target, except where the case asks for differences. */
void fit(Process& state, const fuzz::RollbackCase& what) {
  static const Here here;
  const int old = state.pid(), pid = what.restart() && what.new_pid() ? 4711 : ::getpid();
  state.set_pid(pid);
  for (Thread& thread : *state.mutable_threads())
    if (thread.tid() == old) thread.set_tid(pid);
  for (auto& timer : *state.mutable_timers()->mutable_posix()) {
    if (timer.tid() == old) timer.set_tid(pid);
    timer.set_id(timer.id() % kMostNumber);
  }
  for (Description& one : *state.mutable_descriptions()) {
    if (one.owner_pid() == old) one.set_owner_pid(pid);
    for (auto& watch : *one.mutable_inotify()->mutable_watches()) watch.set_wd(watch.wd() % kMostNumber);
  }
  state.mutable_exe()->set_ino(here.exe.st_ino);
  state.mutable_exe()->set_dev(here.exe.st_dev);
  state.set_start_time_ticks(here.ticks);
  state.clear_lineage();
  if (!what.other_files()) {
    state.mutable_env()->mutable_root()->set_path("/");
    state.mutable_env()->mutable_root()->set_ino(here.root.st_ino);
    state.mutable_env()->mutable_root()->set_dev(here.root.st_dev);
  }
  state.mutable_host()->set_machine(here.machine);
  state.mutable_host()->set_vdso_hash(here.vdso);
  if (!what.other_boot()) state.mutable_host()->set_boot_id(here.boot);
}

/** @return a file with the image; none if it would be too large, or if the state cannot be written */
UniqueFd image_of(const fuzz::RollbackCase& what, const Process& state) {
  test::Sample sample;
  sample.process = state;
  std::uint64_t blob = 0;
  for (const SharedObject& object : state.shared_objects())
    for (const auto& extent : object.extents()) blob = std::max(blob, extent.blob_offset() + extent.length());
  if (blob > kMostBlob || state.threads_size() > 64) return {};
  for (int i = 0; i < state.threads_size(); ++i) {
    ThreadRegs regs;
    regs.tid = state.threads(i).tid();
    regs.fpregs.assign(image::kFpregsSize, 'f');
    if (i < what.registers_size()) {
      const auto& from = what.registers(i);
      regs.regs.orig_rax = static_cast<unsigned long long>(from.orig_rax());
      regs.regs.rax = static_cast<unsigned long long>(from.rax());
      regs.regs.rip = from.rip();
      regs.regs.rsp = from.rsp();
      regs.regs.rsi = from.rsi();
      regs.xstate = from.xstate();
    }
    sample.regs.push_back(std::move(regs));
  }
  for (const auto& run : what.runs())
    if (sample.runs.size() < 8) sample.runs.push_back({run.addr(), (1 + run.pages() % 16) * image::kPage});
  sample.blob = what.blob().substr(0, blob);
  UniqueFd fd(::memfd_create("image", MFD_CLOEXEC));
  try {
    ImageWriter writer(UniqueFd(::dup(fd.get())), "IMAGE", {.sync = false});
    sample.write(writer);
  } catch (const Error& error) {
    show("no image", error.what());
    return {};
  }
  return fd;
}

RestoreOptions options_of(const fuzz::RollbackCase& what) {
  RestoreOptions options;
  options.dead_sockets = what.dead_sockets();
  options.rewind_files = what.rewind_files();
  options.restore_pid = !what.new_pid();
  return options;
}

void roll_back(const fuzz::RollbackCase& what) {
  if (what.restart()) {
    RestartOptions options;
    options.image = fuzz::kImageName;
    options.restore = options_of(what);
    restart(options);
    return;
  }
  PauseOptions options;
  options.pid = ::getpid();
  options.image = fuzz::kImageName;
  options.restore = options_of(what);
  pause(options);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::RollbackCase what;
  if (!what.ParseFromArray(data, static_cast<int>(size))) return 0;
  Process state = what.state();
  fit(state, what);
  UniqueFd image = image_of(what, state);
  if (!image) return 0;
  fuzz::FakeKernel kernel(what, state, std::move(image));
  try {
    roll_back(what);
    show("done", "");
    if (!what.new_pid() && what.faults().empty()) kernel.check_complete();
  } catch (const Error& error) {
    show(kernel.committed() ? "behind the commit" : "refused", error.what());
    if (!*error.what()) broken("a refusal says nothing", "");
    kernel.check_refused();
  } catch (const std::exception& error) {
    broken("a refusal is no Error", error.what());
  }
  return 0;
}
