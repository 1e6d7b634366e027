/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by these programs, which compile as C99 and as C++98, as programs written for BLCR do. */
#include <blcr_common.h>
#include <libcr.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                                            \
  do {                                                                                         \
    if (!(what)) {                                                                             \
      printf("%s:%d: %s: errno %d (%s), %s\n", __FILE__, __LINE__, #what, errno, cr_strerror(errno), cr_last_error()); \
      exit(1);                                                                                 \
    }                                                                                          \
  } while (0)

/** Begin a checkpoint. @return the result of cr_request_checkpoint() */
static int begin(const char *file, cr_scope_t scope, pid_t target, int signal, cr_checkpoint_handle_t *handle) {
  cr_checkpoint_args_t args;
  int rc, err;
  cr_initialize_checkpoint_args_t(&args);
  args.cr_scope = scope;
  args.cr_target = target;
  args.cr_signal = signal;
  args.cr_fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  rc = cr_request_checkpoint(&args, handle);
  err = errno;
  close(args.cr_fd);
  errno = err;
  return rc;
}

/** Take a checkpoint and wait. @return the result of cr_poll_checkpoint(); CR_POLL_CHKPT_ERR_PRE if it cannot begin */
static int take(const char *file, cr_scope_t scope, pid_t target, int signal) {
  cr_checkpoint_handle_t handle;
  int rc = begin(file, scope, target, signal, &handle);
  if (rc < 0) return CR_POLL_CHKPT_ERR_PRE;
  do rc = cr_poll_checkpoint(&handle, NULL);
  while (rc == CR_POLL_CHKPT_ERR_PRE && errno == EINTR);
  return rc;
}
