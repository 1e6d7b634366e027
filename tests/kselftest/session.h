// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/*
 * A session of the module by its ioctls alone, without libcr. Functions return 0
 * (or the value named beside them) or -errno; `why` is the reason that the last ioctl returned.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cr.h"

#define PAGE 4096UL

struct session {
  int dev, mem;  // -1: closed
  pid_t pid;
  struct cr_why why;
  struct cr_arena arena;
  struct cr_call *calls;  // CR_MAX_CALLS of them, for session_run()
  char *data;             // the arena's data as this process sees it, NULL before session_arena()
};

int session_open(struct session *s, pid_t pid);  // opens the device and attaches
int session_attach(struct session *s, pid_t pid);  // with s->dev open
int session_ioctl(struct session *s, unsigned long request, void *arg);
int session_freeze(struct session *s, unsigned timeout_ms, unsigned thaw_after_ms);  // number of threads
int session_thaw(struct session *s, unsigned flags);
int session_arena(struct session *s, uint64_t at);
// The first ncalls of calls; the batch's struct cr_run goes to *r (may be NULL).
int session_run(struct session *s, pid_t tid, unsigned ncalls, unsigned flags, unsigned timeout_ms, struct cr_run *r);
// One call with up to six arguments: its result or its -errno; SESSION_FAILED - errno when the ioctl
// itself failed, SESSION_ENDED when the call ended the thread.
#define SESSION_FAILED (-100000L)
#define SESSION_ENDED (-99999L)
#define session_call(s, tid, nr, ...) session_call6(s, tid, nr, (const uint64_t[6]){__VA_ARGS__})
long session_call6(struct session *s, pid_t tid, unsigned nr, const uint64_t arg[6]);
int session_threads(struct session *s, struct cr_thread *t, unsigned room);  // number of threads
int session_share(struct session *s);  // in a child: map the arena, because fork does not copy that mapping
void session_close(struct session *s);
uint64_t session_code(const struct session *s);  // address of the arena's page of code in the target
