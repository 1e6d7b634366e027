// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/spawn.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <initializer_list>
#include <cstdlib>
#include <cstring>

namespace reprise::api {
namespace {

constexpr std::size_t kStack = 64 * 1024;

struct Launch {
  const char* path;
  char* argv[3];
  const Inherited* inherited;
  bool detached;
  char* second_stack_top;
  volatile int error = 0;
  volatile pid_t pid = 0;
};

/** Runs in the helper process until exec, with our memory (CLONE_VM) and all signals blocked. */
int become_helper(void* arg) {
  auto* launch = static_cast<Launch*>(arg);
  // The helper must not keep the program's files, pipes and sockets open.
  bool ok = syscall(SYS_close_range, 3U, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */) == 0;
  for (int fd : {launch->inherited->block, launch->inherited->owner_mem, launch->inherited->target_mem,
                 launch->inherited->image, launch->inherited->socket})
    if (ok && fd >= 0) ok = fcntl(fd, F_SETFD, 0) == 0;
  // These keep their numbers. Those below 3 are the helper's anyway: it is not detached in a restart.
  const cr_rstrt_fds* fds = launch->inherited->fds;
  for (unsigned i = 0; ok && fds != nullptr && i < fds->count; ++i)
    if (fds->fd[i].with > 2) ok = fcntl(fds->fd[i].with, F_SETFD, 0) == 0;
  const cr_rstrt_kept* kept = launch->inherited->kept;
  for (unsigned i = 0; ok && kept != nullptr && i < kept->count; ++i)
    if (kept->memory[i].with > 2) ok = fcntl(kept->memory[i].with, F_SETFD, 0) == 0;
  if (ok && launch->detached) {
    // The helper must not get the terminal's signals, nor hold the program's output open: readers wait for EOF.
    setsid();
    const int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3 && ok; ++fd) ok = dup2(null, fd) == fd;
  }
  char* const environment[] = {nullptr};
  if (ok) execve(launch->path, launch->argv, environment);
  launch->error = errno;
  _exit(127);
}

/** Intermediate process that starts the helper and exits at once, so that the helper is not the program's child. */
int step_aside(void* arg) {
  auto* launch = static_cast<Launch*>(arg);
  launch->pid = clone(become_helper, launch->second_stack_top, CLONE_VM | CLONE_VFORK | SIGCHLD, launch);
  if (launch->pid < 0) launch->error = errno;
  _exit(0);
}

bool usable(const char* path) { return access(path, X_OK) == 0; }

}  // namespace

int spawn_helper(const char* path, const Inherited& inherited, bool detached, pid_t& pid) {
  void* stacks = mmap(nullptr, 2 * kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stacks == MAP_FAILED) return errno;
  char* base = static_cast<char*>(stacks);

  char name[] = "cr-helper", numbers[64];
  std::snprintf(numbers, sizeof numbers, "%d,%d,%d,%d,%d", inherited.block, inherited.owner_mem, inherited.target_mem,
                inherited.image, inherited.socket);
  Launch launch{path, {name, numbers, nullptr}, &inherited, detached, base + 2 * kStack};

  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  // No exit signal: the program gets no SIGCHLD and its wait() does not see this child.
  const pid_t child = clone(step_aside, base + kStack, CLONE_VM | CLONE_VFORK, &launch);
  int err = child < 0 ? errno : 0;
  if (child >= 0) {
    int status;
    while (waitpid(child, &status, __WCLONE) < 0 && errno == EINTR) {}
    err = launch.error;
    pid = launch.pid;
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  munmap(stacks, 2 * kStack);
  return err;
}

bool find_helper(char* path, std::size_t size) {
  const char* wish = secure_getenv("REPRISE_HELPER");
  if (wish != nullptr && *wish != '\0') {
    std::snprintf(path, size, "%s", wish);
    return usable(path);
  }
  std::snprintf(path, size, "%s", CR_HELPER_PATH);
  if (usable(path)) return true;
  // Not installed: the build directory has library and helper in the same folder.
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&find_helper), &info) == 0 || info.dli_fname == nullptr) return false;
  const char* slash = std::strrchr(info.dli_fname, '/');
  if (slash == nullptr) return false;
  std::snprintf(path, size, "%.*s/cr-helper", static_cast<int>(slash - info.dli_fname), info.dli_fname);
  return usable(path);
}

}  // namespace reprise::api
