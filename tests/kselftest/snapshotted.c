// SPDX-License-Identifier: GPL-2.0-only
#include "snapshotted.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

struct session s;
struct cr_rollback request;
struct cr_range scope;
struct cr_thread_regs threads[8];
struct user_regs_struct general[8];
unsigned char extended[8][CR_MAX_REGSET];
pid_t pid;
int order;
struct cr_vma vmas[256];
struct cr_fd fds[64];
struct cr_process data;
struct cr_range mappings[256];
struct cr_fd_pos positions[64];
unsigned nvmas, nfds;

void obey(void (*job)(void)) {
  static volatile long done;  // no rollback of these tests changes it
  sh->ready = 1;
  for (;;) {
    usleep(500);
    const int order = sh->go;
    if (order > done) {
      job();
      done = order;
    }
    sh->value[0] = done;
    sh->value[2]++;
  }
}

static bool has_done(void *number) { return sh->value[0] == *(int *)number; }

void works(void) {
  sh->go = ++order;
  need(soon(has_done, &order, 30), "the target does not do what it is told");
  need(!sh->wrong, "the target fails");
}

static void save_registers(const struct cr_thread *thread, int n) {
  struct cr_regs regs = {.tid = thread->tid, .type = NT_PRSTATUS, .buf = (uintptr_t)&general[n], .len = sizeof general[n]};
  need(!session_ioctl(&s, CR_IOC_GET_REGS, &regs), "general registers: errno %d", errno);
  threads[n] = (struct cr_thread_regs){.tid = thread->tid, .sigmask = thread->sigmask, .general = (uintptr_t)&general[n]};
  regs = (struct cr_regs){.tid = thread->tid, .type = NT_X86_XSTATE, .buf = (uintptr_t)extended[n], .len = sizeof extended[n]};
  need(!session_ioctl(&s, CR_IOC_GET_REGS, &regs), "extended registers: errno %d", errno);
  threads[n].extended = (uintptr_t)extended[n];
  threads[n].extended_len = regs.len;
  if ((long)general[n].orig_rax >= 0 && (long)general[n].rax == -516) threads[n].flags = CR_REGS_RESTART;
  if (regs.len > request.threads.room) request.threads.room = (unsigned)regs.len;
}

/* What a frozen target has. */
void look(void) {
  struct cr_array list = {(uintptr_t)vmas, ARRAY_SIZE(vmas)};
  need(!session_ioctl(&s, CR_IOC_VMAS, &list), "mappings");
  nvmas = (unsigned)list.count;
  list = (struct cr_array){(uintptr_t)fds, ARRAY_SIZE(fds)};
  need(!session_ioctl(&s, CR_IOC_FDS, &list), "descriptors");
  nfds = (unsigned)list.count;
  need(!session_ioctl(&s, CR_IOC_PROCESS, &data), "process");
}

/* Tell the call what the target had. */
void told(void) {
  for (unsigned i = 0; i < nvmas; i++) mappings[i] = (struct cr_range){vmas[i].start, vmas[i].end - vmas[i].start};
  for (unsigned i = 0; i < nfds; i++) positions[i] = (struct cr_fd_pos){.fd = fds[i].fd, .pos = fds[i].pos};
  request.mappings = (uintptr_t)mappings;
  request.nmappings = nvmas;
  request.fds = (uintptr_t)positions;
  request.nfds = nfds;
  request.brk = data.brk;
}

void take_of(void (*body)(void), int nthreads, size_t bytes) {
  struct cr_snapshot snapshot = {.flags = CR_SNAP_PAGES | CR_SNAP_TRACK, .id = "rollback"};
  struct cr_thread list[8];
  struct cr_digest digest;
  pid = target(body);
  need(!session_open(&s, pid), "attach");
  need(session_freeze(&s, 5000, 0) == nthreads, "freeze");
  request = (struct cr_rollback){0};
  const int n = session_threads(&s, list, 8);
  need(n == nthreads, "%d threads", n);
  for (int i = 0; i < n; i++) save_registers(&list[i], i);
  need(!session_ioctl(&s, CR_IOC_DIGEST, &digest), "digest");
  look();
  need(!session_ioctl(&s, CR_IOC_SNAPSHOT, &snapshot), "snapshot");
  need(!session_thaw(&s, 0), "thaw");
  scope = (struct cr_range){(uintptr_t)sh->at[0], bytes};
  memcpy(request.area, digest.area, sizeof digest.area);
  for (int i = 0; i < CR_AREAS; i++) need(request.area[i], "area %d cannot be compared", i);
  request.pages = (struct cr_restore){.source_fd = -1, .flags = CR_RESTORE_TRACK, .id = "rollback", .scope = (uintptr_t)&scope, .nscope = 1};
  request.threads.threads = (uintptr_t)threads;
  request.threads.count = (unsigned)n;
}

int roll_back(void) { return session_ioctl(&s, CR_IOC_ROLLBACK, &request); }

uint64_t peek(const volatile void *at) {
  uint64_t value = ~0ULL;
  const ssize_t got = pread(s.mem, &value, sizeof value, (off_t)(uintptr_t)at);
  need(got == sizeof value, "the target's memory cannot be read: errno %d", errno);
  return value;
}

static bool counts(void *before) { return sh->value[2] > *(long *)before; }

bool goes_on(void) {
  long before = sh->value[2];
  return soon(counts, &before, 10);
}

/* Names the areas that the module finds changed, for messages. Target frozen. */
void note_areas(void) {
  struct cr_digest now;
  if (session_ioctl(&s, CR_IOC_DIGEST, &now)) return;
  for (int i = 0; i < CR_AREAS; i++)
    if (now.area[i] != request.area[i]) note("area %d differs", i);
}

void is_done(const char *when) {
  const int r = roll_back();
  if (!r && request.result == CR_ROLLBACK_DIFFERS) note_areas();
  need(!r && request.result == CR_ROLLBACK_DONE, "%s: %d, result %u", when, r, request.result);
  expect(request.frozen_ns > 0, "%s: no time", when);
}
