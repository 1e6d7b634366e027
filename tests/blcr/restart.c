/* SPDX-License-Identifier: GPL-2.0-only */
/* A program saves its child, restarts it, and waits for it. */
#include "common.h"

static volatile sig_atomic_t restarted, signalled;
static void on_signal(int number) {
  (void)number;
  signalled = restarted;
}

static int callback(void *arg) {
  int rc = cr_checkpoint(CR_CHECKPOINT_READY);
  (void)arg;
  if (rc > 0) {
    const struct cr_restart_info *info = cr_get_restart_info();
    CHECK(info && info->requester == getppid() && strcmp(strrchr(info->src, '/'), "/child") == 0);
    restarted = 1;
  }
  return 0;
}

static void child(int ready) {
  close(0);
  close(1);
  signal(SIGUSR1, on_signal);
  CHECK(cr_init() >= 0 && cr_register_callback(callback, NULL, CR_THREAD_CONTEXT) >= 0);
  close(ready);
  while (!signalled) usleep(1000);
  exit(42);
}

int main(void) {
  cr_restart_args_t args;
  cr_restart_handle_t handle;
  int ready[2], status;
  char none;
  pid_t pid;
  CHECK(pipe(ready) == 0);
  pid = fork();
  if (pid == 0) {
    close(ready[0]);
    child(ready[1]);
  }
  close(ready[1]);
  CHECK(read(ready[0], &none, 1) == 0);
  close(ready[0]);
  CHECK(take("child", CR_SCOPE_TREE, pid, SIGKILL) > 0);
  CHECK(waitpid(pid, &status, 0) == pid && WTERMSIG(status) == SIGKILL);
  CHECK(cr_initialize_restart_args_t(&args) == 0);
  args.cr_fd = open("child", O_RDONLY);
  args.cr_signal = SIGUSR1;
  CHECK(cr_request_restart(&args, &handle) == 0);
  CHECK(cr_poll_restart(&handle, NULL) == pid);
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
  return 0;
}
