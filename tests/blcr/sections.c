/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A program requests its own checkpoint inside a critical section. Other requests fail with EBUSY meanwhile. Then it
 * saves its whole process tree.
 */
#include "common.h"

static int called, forwarded = 1, busy;
static int callback(void *arg) {
  char file[64];
  const struct cr_checkpoint_info *info = cr_get_checkpoint_info();
  CHECK(info && info->requester == getpid() && info->target == getpid() && info->scope == (cr_scope_t)*(int *)arg);
  CHECK(realpath("own", NULL) == NULL || strcmp(strrchr(info->dest, '/'), "/own") == 0);
  forwarded = cr_forward_checkpoint(CR_SCOPE_TREE, getpid());
  sprintf(file, "cr_checkpoint %d other 2>/dev/null", (int)getpid());
  busy = WEXITSTATUS(system(file));
  CHECK(cr_checkpoint(0) == 0);
  ++called;
  return 0;
}

int main(void) {
  int scope = CR_SCOPE_PROC;
  cr_checkpoint_handle_t handle, none;
  cr_client_id_t id = cr_init();
  CHECK(id >= 0 && cr_register_callback(callback, &scope, CR_THREAD_CONTEXT) >= 0);
  CHECK(cr_enter_cs(id) == 0 && cr_status() == CR_STATE_IDLE);
  CHECK(begin("own", CR_SCOPE_PROC, 0, 0, &handle) == 0);
  CHECK(cr_status() == CR_STATE_PENDING && called == 0);
  CHECK(begin("other", CR_SCOPE_PROC, 0, 0, &none) == -1 && errno == EBUSY);
  CHECK(cr_leave_cs(id) == 0);
  CHECK(called == 1 && forwarded == 0 && cr_status() == CR_STATE_IDLE);
  CHECK(cr_poll_checkpoint(&handle, NULL) > 0);
  CHECK(busy == 4 && access("other", F_OK) == 0);
  scope = CR_SCOPE_TREE;
  CHECK(take("own", CR_SCOPE_TREE, 0, 0) > 0);
  return called == 2 ? 0 : 1;
}
