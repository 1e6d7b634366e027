// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/*
 * A thread whose registers are all full of known values, and which tells them on
 * request: general registers, flags, fs and gs base, x87, SSE, AVX, AVX-512,
 * PKRU and AMX, whatever the CPU has.
 */
#include "harness.h"

struct registers {
  // offsets up to here are known to the assembly
  volatile uint64_t request;  // 0: keep them, 1: tell them, 2: tell them and leave
  uint64_t in[16], out[16];   // rax rbx rcx* rdx rsi rdi rbp rsp* r8 … r15 (*: not used)
  uint64_t flags_in, flags_out, rsp_in, rsp_out, mask, xin, xout, xclean, fs_out, sleep;
  // the rest
  uint64_t seed;
  volatile uint64_t rounds;   // how often it has left
  volatile bool quit;
  bool sleeps;                // sits in nanosleep instead of looping
  void *altstack;             // 64 KB, for signal handlers of this thread, or NULL
  pid_t tid;
  pthread_t thread;
  uint64_t fs_area[2][8];
  struct timespec_ { int64_t sec, nsec; } pause;
  char storage[3][12288 + 64];
};

void registers_start(struct registers *r, bool sleeps, uint64_t seed);
const char *registers_check(struct registers *r, uint64_t seed);
void registers_next(struct registers *r);  // leave, and come back with seed + 1
void registers_end(struct registers *r);
