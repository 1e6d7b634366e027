/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A program in the style of those for BLCR: callbacks in both contexts, critical sections, a request for itself. It at
 * least names everything else of the interface, so that a missing or changed declaration breaks the build. Without the
 * kernel module it only checks the error of cr_init().
 */
#include <libcr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int restarted;

static int thread_callback(void *arg) {
  int rc;
  const struct cr_checkpoint_info *info = cr_get_checkpoint_info();

  if (!info || info->requester == 0) return -1;
  rc = cr_checkpoint(CR_CHECKPOINT_READY);
  if (rc < 0) {
    fprintf(stderr, "checkpoint failed: %s\n", cr_strerror(-rc));
  } else if (rc == CR_PAUSED) {
    puts("rolled back");
  } else if (rc) {
    const struct cr_restart_info *from = cr_get_restart_info();
    *(int *)arg = 1;
    printf("restarted from %s\n", from ? from->src : "?");
  }
  return 0;
}

static int signal_callback(void *arg) {
  (void)arg;
  cr_checkpoint(0);
  return 0;
}

static int refusing_callback(void *arg) {
  (void)arg;
  if (cr_checkpoint(CR_CHECKPOINT_TEMP_FAILURE) == -CR_ETEMPFAIL) return 0;
  if (cr_checkpoint(CR_CHECKPOINT_PERM_FAILURE_CODE(3)) == -3) return 0;
  return cr_replace_self(signal_callback, NULL, CR_SIGNAL_CONTEXT) || cr_forward_checkpoint(CR_SCOPE_PGRP, 0);
}

static void hook(cr_hook_event_t event) { (void)event; }

static int checkpoint_self(void) {
  cr_checkpoint_args_t args;
  cr_checkpoint_handle_t handle;
  struct timeval limit = {60, 0};
  char *messages = NULL;
  int rc;

  cr_initialize_checkpoint_args_t(&args);
  args.cr_scope = CR_SCOPE_PROC;
  args.cr_target = 0;
  args.cr_fd = CR_DEST_CWD;
  args.cr_signal = 0;
  args.cr_timeout = 30;
  args.cr_flags = CR_CHKPT_DUMP_ALL | CR_CHKPT_ASYNC_ERR;
  if (cr_request_checkpoint(&args, &handle) < 0) return -1;
  do {
    rc = cr_poll_checkpoint_msg(&handle, &limit, &messages);
    if (rc == CR_POLL_CHKPT_ERR_POST && errno == CR_ERESTARTED) return 1;
  } while (rc < 0 && errno == EINTR);
  if (messages) fputs(messages, stderr);
  free(messages);
  return rc > 0 ? 0 : -1;
}

static int never(void) {
  size_t size = CR_RSTRT_RELOCATE_SIZE(1);
  struct cr_rstrt_relocate *moves = (struct cr_rstrt_relocate *)malloc(size);
  cr_restart_args_t restart;
  cr_restart_handle_t handle;
  cr_checkpoint_handle_t checkpoint = 0;

  if (!moves || cr_initialize_restart_args_t(&restart)) return -1;
  moves->count = 1;
  moves->path[0].oldpath = "/old";
  moves->path[0].newpath = "/new";
  restart.cr_relocate = moves;
  restart.cr_flags = CR_RSTRT_RESTORE_PID | CR_RSTRT_RESTORE_PGID | CR_RSTRT_RESTORE_SID;
  return cr_request_restart(&restart, &handle) || cr_wait_restart(&handle, NULL) ||
         cr_log_restart(&handle, 0, NULL) || cr_reap_restart(&handle) || cr_poll_restart(&handle, NULL) ||
         cr_poll_restart_msg(&handle, NULL, NULL) || cr_wait_checkpoint(&checkpoint, NULL) ||
         cr_log_checkpoint(&checkpoint, 0, NULL) || cr_reap_checkpoint(&checkpoint) ||
         cr_poll_checkpoint(&checkpoint, NULL) || cr_inc_persist() || cr_dec_persist();
}

int main(int argc, char **argv) {
  cr_client_id_t id = cr_init();
  cr_spinlock_t lock = CR_SPINLOCK_INITIALIZER;
  cr_callback_id_t callback;

  if (id < 0) {
    int err = errno;
    printf("no checkpoints: %s\n", cr_strerror(err));
    return err == ENOSYS || err == EACCES ? 0 : 1;
  }
  callback = cr_register_callback(thread_callback, &restarted, CR_THREAD_CONTEXT);
  if (callback < 0 || cr_register_callback(signal_callback, NULL, CR_SIGNAL_CONTEXT) < 0) return 1;
  if (argc > 2) {
    cr_replace_callback(callback, refusing_callback, argv, CR_THREAD_CONTEXT);
    return never();
  }
  if (cr_register_hook(CR_HOOK_RSTRT_SIGNAL_CONTEXT, hook) == CR_HOOK_FN_ERROR) return 1;
  cr_hold_ctrl(CR_HOLD_SCOPE_THREAD, CR_HOLD_BOTH);
  cr_spinlock_init(&lock);
  cr_spinlock_lock(&lock);
  if (cr_spinlock_trylock(&lock)) return 1;
  cr_spinlock_unlock(&lock);
  if (cr_enter_cs(id) || cr_tryenter_cs(id) || cr_leave_cs(id) || cr_leave_cs(id)) return 1;
  if (cr_status() != CR_STATE_IDLE) return 1;
  if (argc > 1 && strcmp(argv[1], "checkpoint") == 0) {
    int rc = checkpoint_self();
    if (rc < 0) {
      printf("cannot checkpoint: %s\n", cr_last_error());
      return 1;
    }
    puts(rc > 0 || restarted ? "restarted" : "continued");
  }
  return 0;
}
