// SPDX-License-Identifier: GPL-2.0-only
#include "registers.h"

#include <asm/prctl.h>
#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef ARCH_REQ_XCOMP_PERM
#define ARCH_REQ_XCOMP_PERM 0x1023
#endif

#define FLAGS_TESTED 0xcd5UL  // CF PF AF ZF SF DF OF
#define STR_(x) #x
#define STR(x) STR_(x)
#define IN(n) "%gs:8+8*" #n
#define OUT(n) "%gs:136+8*" #n
#define FLAGS_IN "%gs:264"
#define FLAGS_OUT "%gs:272"
#define RSP_IN "%gs:280"
#define RSP_OUT "%gs:288"
#define MASK_LOW "%gs:296"
#define MASK_HIGH "%gs:300"
#define XIN "%gs:304"
#define XOUT "%gs:312"
#define XCLEAN "%gs:320"
#define FS_OUT "%gs:328"
#define SLEEP "%gs:336"
_Static_assert(offsetof(struct registers, sleep) == 336, "known to the assembly");

// The loop changes only rcx (and rax, rdi, rsi, r11 when it sleeps).
void registers_loop(void);
__asm__(
    ".text\n.type registers_loop,@function\nregisters_loop:\n"
    "  push %rbx\n  push %rbp\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n  pushfq\n"
    "  mov %rsp," RSP_IN "\n"
    "  mov " MASK_LOW ",%eax\n  mov " MASK_HIGH ",%edx\n  mov " XIN ",%rcx\n  xrstor64 (%rcx)\n"
    "1:\n"  // load
    "  pushq " FLAGS_IN "\n  popfq\n"
    "  mov " IN(0) ",%rax\n  mov " IN(1) ",%rbx\n  mov " IN(3) ",%rdx\n  mov " IN(4) ",%rsi\n"
    "  mov " IN(5) ",%rdi\n  mov " IN(6) ",%rbp\n  mov " IN(8) ",%r8\n  mov " IN(9) ",%r9\n"
    "  mov " IN(10) ",%r10\n  mov " IN(11) ",%r11\n  mov " IN(12) ",%r12\n  mov " IN(13) ",%r13\n"
    "  mov " IN(14) ",%r14\n  mov " IN(15) ",%r15\n"
    "2:\n"  // keep
    "  mov " SLEEP ",%rcx\n  jrcxz 3f\n"
    "  mov %rcx,%rdi\n  mov $0,%esi\n  mov $" STR(35) ",%eax\n  syscall\n"
    "3:\n  pause\n  mov %gs:0,%rcx\n  jrcxz 2b\n"
    // store
    "  mov %rax," OUT(0) "\n  mov %rbx," OUT(1) "\n  mov %rdx," OUT(3) "\n  mov %rsi," OUT(4) "\n"
    "  mov %rdi," OUT(5) "\n  mov %rbp," OUT(6) "\n  mov %r8," OUT(8) "\n  mov %r9," OUT(9) "\n"
    "  mov %r10," OUT(10) "\n  mov %r11," OUT(11) "\n  mov %r12," OUT(12) "\n  mov %r13," OUT(13) "\n"
    "  mov %r14," OUT(14) "\n  mov %r15," OUT(15) "\n"
    "  mov %rsp," RSP_OUT "\n  pushfq\n  popq " FLAGS_OUT "\n  cld\n"
    "  mov %fs:0,%rcx\n  mov %rcx," FS_OUT "\n"
    "  mov " MASK_LOW ",%eax\n  mov " MASK_HIGH ",%edx\n  mov " XOUT ",%rcx\n  xsave64 (%rcx)\n"
    "  mov %gs:0,%rcx\n  movq $0,%gs:0\n  lea -2(%rcx),%rcx\n  jrcxz 4f\n  jmp 1b\n"
    "4:\n"  // leave
    "  mov " MASK_LOW ",%eax\n  mov " MASK_HIGH ",%edx\n  mov " XCLEAN ",%rcx\n  xrstor64 (%rcx)\n"
    "  popfq\n  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbp\n  pop %rbx\n  ret\n"
    ".size registers_loop,.-registers_loop\n");

static char *buffer(struct registers *r, int which) {
  return (char *)(((uintptr_t)r->storage[which] + 63) & ~63UL);
}

static uint64_t value(uint64_t seed, uint64_t which) {
  uint64_t x = (seed * 1000 + which + 1) * 0x9e3779b97f4a7c15ULL;
  return x ^ x >> 29;
}

static uint64_t components(void) {
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  uint64_t mask = ((uint64_t)high << 32 | low) & (7 | 0xe0 | 0x200 | 0x60000);
  if (mask & 0x60000 && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, 18)) mask &= ~0x60000UL;
  return mask;
}

static void component(unsigned n, unsigned *offset, unsigned *size) {
  unsigned c, d;
  __cpuid_count(0xd, n, *size, *offset, c, d);
}

// The state that belongs to a seed, in the layout of xsave.
static void make_state(char *x, uint64_t mask, uint64_t seed) {
  memset(x, 0, 12288);
  *(uint16_t *)(x + 0) = 0x37f & ~(seed & 1 ? 0x300 : 0);  // FCW: precision
  *(uint16_t *)(x + 2) = 3 << 11;                          // FSW: top of stack
  x[4] = (char)0xff;                                       // FTW: all in use
  for (int i = 0; i < 8; i++) {
    *(uint64_t *)(x + 32 + 16 * i) = value(seed, 100 + i) | 1UL << 63;
    *(uint16_t *)(x + 40 + 16 * i) = 0x3fff + i;
  }
  *(uint32_t *)(x + 24) = 0x1f80 | (seed & 1 ? 0x6000 : 0x2000);  // MXCSR: rounding
  for (int i = 0; i < 32; i++) *(uint64_t *)(x + 160 + 8 * i) = value(seed, 200 + i);
  for (unsigned n = 2; n < 19; n++) {
    unsigned offset, size;
    if (!(mask >> n & 1)) continue;
    component(n, &offset, &size);
    if (n == 9) {
      *(uint32_t *)(x + offset) = seed & 1 ? 1u << 30 : 3u << 28;
    } else if (n == 17) {
      x[offset] = 1;
      for (int i = 0; i < 8; i++) {
        *(uint16_t *)(x + offset + 16 + 2 * i) = seed & 1 ? 64 : 32;
        x[offset + 48 + i] = 16;
      }
    } else if (n == 18) {  // bytes beyond the configured columns read as 0
      for (unsigned i = 0; i < size / 8; i++)
        if (seed & 1 || i % 8 < 4) *(uint64_t *)(x + offset + 8 * i) = value(seed, 300 + i);
    } else {
      for (unsigned i = 0; i < size / 8; i++) *(uint64_t *)(x + offset + 8 * i) = value(seed, 10000 * n + i);
    }
  }
  *(uint64_t *)(x + 512) = mask;
}

static void load(struct registers *r) {
  for (int i = 0; i < 16; i++) r->in[i] = value(r->seed, i);
  r->flags_in = 0x202 | (r->seed & 1 ? 0x8d5 : 0x445);
  r->fs_area[r->seed & 1][0] = value(r->seed, 50);
  make_state(buffer(r, 0), r->mask, r->seed);
}

static long raw(long nr, uint64_t a, uint64_t b) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(nr), "D"(a), "S"(b) : "rcx", "r11", "memory");
  return result;
}

// No code between the two calls may use the thread's own fs (thread-local storage, stack protector).
__attribute__((noinline, optimize("no-stack-protector"))) static void go(struct registers *r, uint64_t own_fs) {
  raw(SYS_arch_prctl, ARCH_SET_GS, (uint64_t)r);
  raw(SYS_arch_prctl, ARCH_SET_FS, (uint64_t)r->fs_area[r->seed & 1]);
  registers_loop();
  raw(SYS_arch_prctl, ARCH_SET_FS, own_fs);
}

static void *thread(void *arg) {
  struct registers *r = arg;
  uint64_t own_fs;
  syscall(SYS_arch_prctl, ARCH_GET_FS, &own_fs);
  r->tid = gettid_();
  stack_t stack = {.ss_sp = r->altstack, .ss_size = 65536};
  if (r->altstack) sigaltstack(&stack, NULL);
  setpriority(PRIO_PROCESS, r->tid, 5);  // the loop spins: leave CPU time to the other threads
  r->mask = components();
  r->xin = (uint64_t)buffer(r, 0);
  r->xout = (uint64_t)buffer(r, 1);
  r->xclean = (uint64_t)buffer(r, 2);
  memset(buffer(r, 2), 0, 12288);
  *(uint16_t *)buffer(r, 2) = 0x37f;
  *(uint32_t *)(buffer(r, 2) + 24) = 0x1f80;
  *(uint64_t *)(buffer(r, 2) + 512) = 3;
  for (;;) {
    load(r);
    r->rounds++;
    go(r, own_fs);
    if (r->quit) return r;
    r->seed++;
  }
}

static bool answered(void *arg) { return ((struct registers *)arg)->request == 0; }
static bool running(void *arg) { return ((struct registers *)arg)->rounds > 0; }

void registers_start(struct registers *r, bool sleeps, uint64_t seed) {
  void *altstack = r->altstack;
  memset(r, 0, sizeof *r);
  r->altstack = altstack;
  r->seed = seed;
  r->pause.nsec = 3000000;
  r->sleeps = sleeps;
  r->sleep = sleeps ? (uint64_t)&r->pause : 0;
  if ((errno = pthread_create(&r->thread, NULL, thread, r))) die("pthread_create: errno %d", errno);
  soon(running, r, 5000);
}

const char *registers_check(struct registers *r, uint64_t seed) {
  static char want[12288];
  if (r->seed != seed) return no("the registers' thread is at seed %lu", r->seed);
  memset(buffer(r, 1), 0, 12288);
  r->request = 1;
  if (!soon(answered, r, 10000)) return no("thread %d does not store its registers", r->tid);
  static const char *const names[16] = {"rax", "rbx", 0,    "rdx", "rsi", "rdi", "rbp", 0,
                                        "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
  for (int i = 0; i < 16; i++) {
    if (!names[i] || (r->sleeps && (i == 0 || i == 4 || i == 5 || i == 11))) continue;
    if (r->out[i] != value(seed, i)) return no("%s is %#lx instead of %#lx", names[i], r->out[i], value(seed, i));
  }
  if (r->sleeps && r->out[0] != 0) return no("nanosleep gave %ld", (long)r->out[0]);
  if ((r->flags_in ^ r->flags_out) & FLAGS_TESTED) return no("flags are %#lx instead of %#lx", r->flags_out, r->flags_in);
  if (r->rsp_in != r->rsp_out) return no("rsp is %#lx instead of %#lx", r->rsp_out, r->rsp_in);
  if (r->fs_out != value(seed, 50)) return no("fs:0 is %#lx instead of %#lx", r->fs_out, value(seed, 50));
  make_state(want, r->mask, seed);
  const char *have = buffer(r, 1);
  if (memcmp(want, have, 2) || have[4] != want[4]) return no("x87 control or tag word differs");
  if ((*(uint16_t *)(have + 2) ^ *(uint16_t *)(want + 2)) & 0x3800) return no("x87 stack top differs");
  if (memcmp(want + 24, have + 24, 4)) return no("mxcsr is %#x instead of %#x", *(uint32_t *)(have + 24), *(uint32_t *)(want + 24));
  for (int i = 0; i < 8; i++)
    if (memcmp(want + 32 + 16 * i, have + 32 + 16 * i, 10)) return no("st%d differs", i);
  for (int i = 0; i < 16; i++)
    if (memcmp(want + 160 + 16 * i, have + 160 + 16 * i, 16)) return no("xmm%d differs", i);
  for (unsigned n = 2; n < 19; n++) {
    unsigned offset, size;
    if (!(r->mask >> n & 1)) continue;
    component(n, &offset, &size);
    if (n == 9) size = 4;
    if (memcmp(want + offset, have + offset, size)) return no("xstate component %u differs", n);
  }
  return NULL;
}

static bool went_on(void *arg) {
  uint64_t *before = arg;
  return ((struct registers *)before[1])->rounds > before[0];
}

void registers_next(struct registers *r) {
  uint64_t before[2] = {r->rounds, (uint64_t)r};
  r->request = 2;
  if (!soon(went_on, before, 10000)) die("thread %d does not continue", r->tid);
}

void registers_end(struct registers *r) {
  r->quit = true;
  r->request = 2;
  pthread_join(r->thread, NULL);
}
