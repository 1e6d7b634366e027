// SPDX-License-Identifier: GPL-2.0-only
// Executed by targets, set-uid or not: keeps a secret in its registers for a while and ends.
#include <stdint.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

#include "victim.h"

static long ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int main(void) {
  uint64_t secret = getauxval(AT_SECURE) ? ~0ULL : 0;
  long end = ms() + 200;
  while (ms() < end)
    __asm__ volatile(
        "movq %0, %%r12\n\tmovq %1, %%r13\n\tmovq %2, %%r14\n\tmovl $300000, %%ecx\n"
        "1:\tdecl %%ecx\n\tjnz 1b"
        :
        : "r"(kVictimR12 & secret), "r"(kVictimR13 & secret), "r"(kVictimR14 & secret)
        : "rcx", "r12", "r13", "r14", "cc");
  struct timespec t = {0, 20000000};
  nanosleep(&t, NULL);
  return 0;
}
