// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/*
 * A thread whose registers all hold known values, and which stores them in memory on
 * request: general registers, flags, fs and gs base, and of x87, SSE, AVX, AVX-512,
 * PKRU and AMX those that the CPU has.
 */
#include "harness.h"

struct registers {
  // the assembly uses the offsets of these fields
  volatile uint64_t request;  // 0: keep the values, 1: store them, 2: store them and leave the loop
  uint64_t in[16], out[16];   // rax rbx rcx* rdx rsi rdi rbp rsp* r8 … r15 (*: not used)
  uint64_t flags_in, flags_out, rsp_in, rsp_out, mask, xin, xout, xclean, fs_out, sleep;
  // not used by the assembly
  uint64_t seed;
  volatile uint64_t rounds;   // how often it has entered the loop
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
void registers_next(struct registers *r);  // leave the loop, and enter it again with seed + 1
void registers_end(struct registers *r);
