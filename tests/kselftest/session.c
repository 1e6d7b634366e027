// SPDX-License-Identifier: GPL-2.0-only
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

int session_ioctl(struct session *s, unsigned long request, void *arg) {
  return ioctl(s->dev, request, arg) < 0 ? -errno : 0;
}

int session_attach(struct session *s, pid_t pid) {
  char name[64];
  snprintf(name, sizeof name, "/proc/%d/mem", pid);
  s->mem = open(name, O_RDWR | O_CLOEXEC);
  if (s->mem < 0) return -errno;
  struct cr_attach a = {.mem_fd = s->mem};
  int r = session_ioctl(s, CR_IOC_ATTACH, &a);
  s->why = a.why;
  s->pid = a.pid;
  return r;
}

int session_open(struct session *s, pid_t pid) {
  *s = (struct session){.dev = open(CR_DEVICE, O_RDWR | O_CLOEXEC), .mem = -1};
  return s->dev < 0 ? -errno : session_attach(s, pid);
}

int session_freeze(struct session *s, unsigned timeout_ms, unsigned thaw_after_ms) {
  struct cr_freeze f = {.timeout_ms = timeout_ms, .thaw_after_ms = thaw_after_ms};
  int r = session_ioctl(s, CR_IOC_FREEZE, &f);
  s->why = f.why;
  return r ? r : (int)f.nthreads;
}

int session_thaw(struct session *s, unsigned flags) {
  struct cr_thaw t = {.flags = flags};
  return session_ioctl(s, CR_IOC_THAW, &t);
}

int session_arena(struct session *s, uint64_t at) {
  s->arena = (struct cr_arena){.addr = at};
  int r = session_ioctl(s, CR_IOC_ARENA, &s->arena);
  s->why = s->arena.why;
  return r || s->data ? r : session_share(s);
}

int session_share(struct session *s) {
  if (!s->calls) s->calls = calloc(CR_MAX_CALLS, sizeof *s->calls);
  s->data = mmap(NULL, s->arena.data_size, PROT_READ | PROT_WRITE, MAP_SHARED, s->dev, 0);
  if (s->data != MAP_FAILED) return 0;
  s->data = NULL;
  return -errno;
}

int session_run(struct session *s, pid_t tid, unsigned ncalls, unsigned flags, unsigned timeout_ms, struct cr_run *out) {
  struct cr_run r = {.tid = tid, .ncalls = ncalls, .calls = (uintptr_t)s->calls, .flags = flags, .timeout_ms = timeout_ms};
  int e = session_ioctl(s, CR_IOC_RUN, &r);
  s->why = r.why;
  if (out) *out = r;
  return e;
}

long session_call6(struct session *s, pid_t tid, unsigned nr, const uint64_t arg[6]) {
  struct cr_run r;
  s->calls[0] = (struct cr_call){.nr = nr};
  memcpy(s->calls[0].arg, arg, sizeof s->calls[0].arg);
  int e = session_run(s, tid, 1, 0, 0, &r);
  return e ? SESSION_FAILED + e : r.gone ? SESSION_ENDED : (long)r.ret;
}

int session_threads(struct session *s, struct cr_thread *t, unsigned room) {
  struct cr_array a = {.buf = (uintptr_t)t, .count = room};
  int r = session_ioctl(s, CR_IOC_THREADS, &a);
  return r ? r : (int)a.count;
}

void session_close(struct session *s) {
  if (s->data) munmap(s->data, s->arena.data_size);
  free(s->calls);
  if (s->dev >= 0) close(s->dev);
  if (s->mem >= 0) close(s->mem);
  *s = (struct session){.dev = -1, .mem = -1};
}

uint64_t session_code(const struct session *s) { return s->arena.addr; }
