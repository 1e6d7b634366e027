// SPDX-License-Identifier: LGPL-2.1-or-later
/** @file The deprecated requests cr_request…(): checkpoint the caller and wait, without a result. */
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "libcr.h"

namespace {

void checkpoint_self(int fd) {
  cr_checkpoint_args_t args;
  cr_checkpoint_handle_t handle;
  cr_initialize_checkpoint_args_t(&args);
  args.cr_scope = CR_SCOPE_PROC;
  args.cr_fd = fd;
  if (cr_request_checkpoint(&args, &handle) != 0) return;
  while (cr_poll_checkpoint(&handle, nullptr) == CR_POLL_CHKPT_ERR_PRE && errno == EINTR) {}
}

}  // namespace

extern "C" {

void cr_request(void) { checkpoint_self(CR_DEST_CWD); }

void cr_request_file(const char* filename) {
  const int fd = open(filename, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  checkpoint_self(fd);
  close(fd);
}

void cr_request_fd(int fd) { checkpoint_self(fd); }

}  // extern "C"
