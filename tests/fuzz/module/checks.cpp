// SPDX-License-Identifier: GPL-2.0-only
// Invariants between programs: no process is stuck; the module is idle, works and leaks nothing; the kernel has not
// complained.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cr.h"
#include "world.h"

namespace fuzz {
namespace {

int kmsg = -1;

const char* const kComplaints[] = {"WARNING: ", "BUG: ", "BUG at ", "Oops", "general protection", "KASAN", "UBSAN", "soft lockup",
                                   "blocked for more than", "self-detected stall", "detected stalls", "sleeping function called",
                                   "suspicious RCU usage", "circular locking", "recursive locking", "inconsistent lock state",
                                   "refcount_t:", "corruption", "Bad page", "bad pte", "bad pmd", "unable to handle", "cut here"};

std::string task_state(const std::string& task) {
  std::string status = get_file(task + "/status"), wchan = get_file(task + "/wchan");
  size_t at = status.find("State:");
  std::string text = task + " " + get_file(task + "/comm");
  if (!text.empty() && text.back() == '\n') text.pop_back();
  text += at == std::string::npos ? "" : ", " + status.substr(at, status.find('\n', at) - at);
  return text + ", in " + wchan + "\n" + get_file(task + "/stack");
}

}  // namespace

void violation(const char* format, ...) {
  if (world->violated.exchange(1)) return;
  va_list args;
  va_start(args, format);
  vsnprintf(world->violation, sizeof world->violation, format, args);
  va_end(args);
  world->violated = 2;
}

bool put_file(const std::string& path, const std::string& text) {
  int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t n = write(fd, text.data(), text.size());
  int error = errno;
  close(fd);
  errno = error;
  return n == ssize_t(text.size());
}

std::string get_file(const std::string& path) {
  std::string text;
  char part[4096];
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return text;
  for (ssize_t n; text.size() < 1 << 20 && (n = read(fd, part, sizeof part)) > 0;) text.append(part, size_t(n));
  close(fd);
  return text;
}

void sleep_us(unsigned us) {
  timespec t = {us / 1000000, us % 1000000 * 1000L};
  nanosleep(&t, nullptr);
}

void checks_begin() {
  kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (kmsg >= 0) lseek(kmsg, 0, SEEK_END);
}

std::string kernel_complaint() {
  char line[8192];
  for (;;) {
    ssize_t n = read(kmsg, line, sizeof line - 1);
    if (n < 0 && errno == EPIPE) continue;
    if (n <= 0) return "";
    line[n] = 0;
    if (strstr(line, "traps: ")) continue;
    for (const char* c : kComplaints)
      if (strstr(line, c)) return line;
  }
}

bool cgroup_write(const std::string& file, const std::string& text) { return put_file(kCgroup + ("/" + file), text); }

// Whether every thread has finished exiting; its parent may still have to reap it. The kernel's list of threads stops at
// a thread that ends while the list is read, so it may be too short: it must have as many entries as the link count
// before.
bool ended(pid_t pid) {
  std::string base = "/proc/" + std::to_string(pid) + "/task";
  struct stat before;  // st_nlink is 2 plus the number of threads
  if (stat(base.c_str(), &before)) return errno == ENOENT;
  bool all = true;
  nlink_t listed = 2;
  DIR* d = opendir(base.c_str());
  while (dirent* e = d ? readdir(d) : nullptr) {
    if (e->d_name[0] == '.') continue;
    listed++;
    std::string status = get_file(base + "/" + e->d_name + "/status");
    all &= status.empty() || status.find("State:\tZ") != std::string::npos || status.find("State:\tX") != std::string::npos;
  }
  if (d) closedir(d);
  return all && listed >= before.st_nlink;
}

void stuck(pid_t pid, const char* what) {
  std::string text, base = "/proc/" + std::to_string(pid) + "/task";
  if (DIR* d = opendir(base.c_str())) {
    while (dirent* e = readdir(d))
      if (e->d_name[0] != '.') text += task_state(base + "/" + e->d_name);
    closedir(d);
  }
  violation("%s: process %d does not end\n%s", what, int(pid), text.c_str());
}

bool cgroup_kill(int seconds) {
  for (int t = 0; t < kTargets; t++) cgroup_write("t" + std::to_string(t) + "/cgroup.freeze", "0");
  for (int i = 0; i < seconds * 100; i++) {
    if (i % 50 == 0) cgroup_write("cgroup.kill", "1");
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (get_file(kCgroup + std::string("/cgroup.events")).find("populated 0") != std::string::npos) return true;
    sleep_us(10000);
  }
  for (const char* part : {"e", "t0", "t1", "t2", "t3"}) {
    int pid = atoi(get_file(kCgroup + std::string("/") + part + "/cgroup.procs").c_str());
    if (pid > 1) stuck(pid, "killed at the end of a round");
  }
  violation("a killed process does not end");
  return false;
}

// The files of an ended process are closed shortly after its end.
void module_idle() {
  std::string count;
  for (int i = 0; i < 1000; i++) {
    count = get_file("/sys/module/cr/refcnt");
    if (count.empty() || count == "0\n") return;
    sleep_us(10000);
  }
  violation("nobody uses the module, and its reference count stays at %s", count.c_str());
}

bool module_unload() { return !syscall(SYS_delete_module, "cr", O_NONBLOCK); }

void module_load() {
  utsname u;
  uname(&u);
  int fd = open(("/lib/modules/" + std::string(u.release) + "/updates/cr.ko").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    syscall(SYS_finit_module, fd, "", 0);
    close(fd);
  }
  for (int i = 0; i < 100 && chmod(CR_DEVICE, 0666); i++) sleep_us(10000);
}

// ------------------------------------------------------------------ does the module work?
namespace {

constexpr uint64_t kAt = 0x200000000000, kLength = 64 * 4096;

[[noreturn]] void plain_target(volatile uint64_t* ticks) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  mmap(reinterpret_cast<void*>(kAt), kLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  memset(reinterpret_cast<void*>(kAt), 1, kLength);
  for (;;) {
    *ticks = *ticks + 1;
    sleep_us(1000);
  }
}

#define NEED(what) \
  if (!(what)) return #what

const char* try_module(pid_t pid, volatile uint64_t* ticks) {
  char name[64];
  snprintf(name, sizeof name, "/proc/%d/mem", int(pid));
  int mem = open(name, O_RDWR | O_CLOEXEC), fd = open(CR_DEVICE, O_RDWR | O_CLOEXEC);
  while (*ticks < 2) sleep_us(1000);
  cr_attach attach = {};
  attach.mem_fd = mem;
  NEED(!ioctl(fd, CR_IOC_ATTACH, &attach) && attach.pid == pid);
  cr_freeze freeze = {};
  NEED(!ioctl(fd, CR_IOC_FREEZE, &freeze) && freeze.nthreads == 1);
  cr_arena arena = {};
  NEED(!ioctl(fd, CR_IOC_ARENA, &arena));
  auto* call = static_cast<cr_call*>(mmap(nullptr, arena.data_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  NEED(call != MAP_FAILED);
  uint8_t code[4096];
  if (pread(mem, code, sizeof code, off_t(arena.addr)) == ssize_t(sizeof code)) {
    if (!world->stub_size) {
      memcpy(world->stub, code, sizeof code);
      world->stub_size = sizeof code;
    }
    if (memcmp(code, world->stub, sizeof code)) return "the arena's code is what it was for other sessions";
  }
  *call = {};
  call->nr = SYS_getpid;
  cr_run run = {};
  run.tid = pid;
  run.ncalls = 1;
  run.calls = uint64_t(call);
  NEED(!ioctl(fd, CR_IOC_RUN, &run) && run.done == 1 && run.ret == pid);
  cr_snapshot snapshot = {};
  snapshot.flags = CR_SNAP_PAGES | CR_SNAP_TRACK;
  snapshot.id[0] = 9;
  NEED(!ioctl(fd, CR_IOC_SNAPSHOT, &snapshot) && snapshot.pages >= 64);
  cr_thaw thaw = {};
  NEED(!ioctl(fd, CR_IOC_THAW, &thaw));
  uint64_t before = *ticks, word = 0;
  while (*ticks < before + 2) sleep_us(1000);
  NEED(pwrite(mem, "spoilt", 6, off_t(kAt + 5 * 4096)) == 6);
  NEED(!ioctl(fd, CR_IOC_FREEZE, &freeze));
  cr_range scope = {kAt, kLength};
  cr_restore restore = {};
  restore.source_fd = -1;
  restore.scope = uint64_t(&scope);
  restore.nscope = 1;
  NEED(!ioctl(fd, CR_IOC_RESTORE, &restore));
  NEED(pread(mem, &word, 8, off_t(kAt + 5 * 4096)) == 8 && word == 0x0101010101010101);
  NEED(!ioctl(fd, CR_IOC_THAW, &thaw));
  before = *ticks;
  while (*ticks < before + 2) sleep_us(1000);
  return nullptr;
}

}  // namespace

void module_works() {
  auto* ticks = static_cast<volatile uint64_t*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  pid_t pid = fork();
  if (!pid) plain_target(ticks);
  pid_t checker = fork();
  if (!checker) {
    alarm(30);
    if (const char* bad = try_module(pid, ticks)) violation("the module does not work any more: not %s (errno %d)", bad, errno);
    _exit(0);
  }
  int status;
  if (waitpid(checker, &status, 0) == checker && WIFSIGNALED(status)) {
    stuck(pid, "the module does not work any more, its target");
  }
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  munmap(const_cast<uint64_t*>(ticks), 4096);
}

void module_leaks() {
  const std::string file = "/sys/kernel/debug/kmemleak";
  for (int i = 0; i < 2; i++) {
    if (!put_file(file, "scan")) return;
    sleep_us(6000000);  // kmemleak does not report younger objects
  }
  std::string all = get_file(file);
  for (size_t at = 0; at < all.size();) {
    size_t next = all.find("unreferenced object", at + 1);
    std::string one = all.substr(at, next - at);
    if (one.find("[cr]") != std::string::npos) violation("memory is lost:\n%s", one.c_str());
    at = next;
  }
}

}  // namespace fuzz
