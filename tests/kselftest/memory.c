// SPDX-License-Identifier: GPL-2.0-only
// Memory: every kind of mapping with content, protection and advice.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "advice.h"
#include "harness.h"

enum { PAGE = 4096, RW = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS };
static const size_t huge = 2 * MB;
static char *area, *second, *third;

static char *map(size_t bytes) {
  char *at = mmap(NULL, bytes, RW, ANON, -1, 0);
  if (at == MAP_FAILED) die("mmap of %zu bytes: errno %d", bytes, errno);
  return at;
}
static char *map_huge(size_t bytes) {  // aligned for huge pages
  char *raw = map(bytes + huge), *at = (char *)(((uintptr_t)raw + huge - 1) & ~(huge - 1));
  if (at > raw) munmap(raw, at - raw);
  munmap(at + bytes, raw + huge - at);
  return at;
}
static const char *zero(const char *at, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 8)
    if (*(const uint64_t *)(at + i)) return no("%p is not 0", (void *)(at + i));
  return NULL;
}

/* ---- private anonymous memory: written, dropped, unmapped, added, replaced */

static void anonymous_setup(void) {
  area = map(8 * MB);
  fill(area, 2 * MB, 1);
  fill(area + 4 * MB, 2 * MB, 2);  // the rest stays untouched
  second = map(64 * PAGE);
  fill(second, 64 * PAGE, 3);
  third = map(64 * PAGE);
  fill(third, 64 * PAGE, 4);
  maps_note();
}
static const char *anonymous_ok(void) {
  part("mappings", maps_same());
  part("written", filled(area, 2 * MB, 1));
  part("dropped", filled(area + 4 * MB, 2 * MB, 2));
  part("untouched", zero(area + 2 * MB, 2 * MB));
  part("unmapped", msync(second, 64 * PAGE, MS_ASYNC) ? no("not all mapped") : filled(second, 64 * PAGE, 3));
  part("replaced by a file", filled(third, 64 * PAGE, 4));
  return parts();
}
static void anonymous_change(void) {
  fill(area, MB, 9);
  MUST(madvise(area + 4 * MB, MB, MADV_DONTNEED));
  fill(area + 2 * MB, MB, 9);
  munmap(second + 8 * PAGE, 16 * PAGE);
  int fd = MUST(open("/proc/self/exe", O_RDONLY));
  MUST(mmap(third + PAGE, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0));
  close(fd);
  memset(map(3 * MB), 7, 3 * MB);
}

/* ---- heap and brk */

static char *blocks[64], *break_before;

static void heap_setup(void) {
  for (size_t i = 0; i < ARRAY_SIZE(blocks); i++) {
    blocks[i] = malloc(1000 + 300 * i);
    memset(blocks[i], (int)i + 1, 1000 + 300 * i);
  }
  area = sbrk(100000);
  memset(area, 77, 100000);
  break_before = sbrk(0);
  maps_note();
}
static const char *heap_ok(void) {
  part("mappings", maps_same());
  part("break", sbrk(0) != break_before ? no("%p instead of %p", sbrk(0), (void *)break_before) : NULL);
  const char *why = NULL;
  for (size_t i = 0; i < ARRAY_SIZE(blocks) && !why; i++)
    for (size_t j = 0; j < 1000 + 300 * i; j++)
      if (blocks[i][j] != (char)(i + 1)) {
        why = no("block %zu differs at %zu", i, j);
        break;
      }
  part("blocks", why);
  part("end of the heap", (char *)sbrk(0) < area + 100000 || area[99999] != 77 ? no("differs") : NULL);
  return parts();
}
static void heap_grow(void) {
  for (size_t i = 0; i < ARRAY_SIZE(blocks); i += 3) {
    memset(blocks[i], 200, 500);
    free(blocks[i]);
  }
  memset(area, 1, 100000);
  memset(sbrk(2 * MB), 5, 2 * MB);
  for (int i = 0; i < 100; i++) memset(malloc(3000), 6, 3000);
}
static void heap_shrink(void) {
  for (size_t i = 0; i < ARRAY_SIZE(blocks); i++) memset(blocks[i], 200, 500);
  if (sbrk(-100000) == (void *)-1) die("sbrk: errno %d", errno);
}

/* ---- stacks and guard pages */

static pthread_t deep_thread;
static volatile bool deep_ready;
static sigjmp_buf out_of_fault;
static char *guarded;

__attribute__((noinline)) static int deep(int levels, char mark) {
  volatile char room[8192];
  for (size_t i = 0; i < sizeof room; i += 512) room[i] = mark;
  int below = levels ? deep(levels - 1, mark) : 0;
  for (size_t i = 0; i < sizeof room; i += 512)
    if (room[i] != mark) return 1;
  return below;
}
static volatile int deep_wrong, deep_round;
static void *live_deep(void *arg) {
  volatile char room[200000];
  memset((char *)room, 33, sizeof room);
  deep_ready = true;
  while (deep_ready) {
    int wrong = 0;
    for (size_t i = 0; i < sizeof room; i += 64) wrong |= room[i] != 33 + deep_round;
    if (wrong) deep_wrong = 1;
    if (deep_round) memset((char *)room, 34, sizeof room);
    sleep_ms(2);
  }
  return arg;
}
static void on_fault(int signal) { siglongjmp(out_of_fault, signal); }
static bool faults(volatile char *at, bool write) {
  struct sigaction action = {.sa_handler = on_fault}, before;
  sigaction(SIGSEGV, &action, &before);
  bool got = true;
  if (!sigsetjmp(out_of_fault, 1)) {
    char c = *at;
    if (write) *at = c;
    got = false;
  }
  sigaction(SIGSEGV, &before, NULL);
  return got;
}
static bool is_deep(void *arg) {
  (void)arg;
  return deep_ready;
}
static void stack_setup(void) {
  deep(20, 3);
  guarded = map(16 * PAGE);
  fill(guarded, 16 * PAGE, 4);
  MUST(mprotect(guarded + 4 * PAGE, PAGE, PROT_NONE));
  faults(guarded, false);  // grows the stack before the mappings are stored
  pthread_create(&deep_thread, NULL, live_deep, NULL);
  soon(is_deep, NULL, 5000);
  maps_note();
}
static const char *stack_ok(void) {
  part("mappings", maps_same());
  part("guard page", faults(guarded + 4 * PAGE, false) ? NULL : no("can be read"));
  deep_wrong = 0;
  sleep_ms(20);
  part("a thread's stack", deep_wrong ? no("differs") : NULL);
  return parts();
}
static void stack_change(void) {
  if (deep(300, 9)) die("own stack is wrong");
  MUST(mprotect(guarded + 4 * PAGE, PAGE, RW));
  fill(guarded, 16 * PAGE, 9);
  deep_round = 1;
  sleep_ms(20);
  deep_round = 0;  // the thread's stack is filled with 34 now: the wrong content
}

/* ---- protections, with content */

static const int protections[] = {PROT_NONE, PROT_READ, RW, PROT_READ | PROT_EXEC, PROT_EXEC, PROT_WRITE,
                                  RW | PROT_EXEC};
static char *protected_at[ARRAY_SIZE(protections)];
enum { PROTECTED = 4 * PAGE };

// behind() reads memory of any protection in a child, which can change the protection of its copy.
// peeking(): newer kernels allow reading of protected memory through /proc/PID/mem only to debuggers.
static const char *peeking(void) {
  char byte, *at = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int fd = MUST(open("/proc/self/mem", O_RDONLY));
  ssize_t n = pread(fd, &byte, 1, (off_t)at);
  close(fd);
  munmap(at, PAGE);
  return n == 1 ? NULL : "this kernel lets nobody look behind a protection by /proc/self/mem";
}
static const char *behind(char *at, uint64_t seed) {
  int status = 0;
  pid_t child = MUST(fork());
  if (!child) {
    const uint64_t *have = (uint64_t *)at;
    if (mprotect(at, PROTECTED, PROT_READ)) _exit(2);
    for (size_t i = 0; i < PROTECTED / 8; i++)
      if (have[i] != seed * 1000003 + i) _exit(1);
    _exit(0);
  }
  waitpid(child, &status, 0);
  return !status ? NULL : WEXITSTATUS(status) == 1 ? no("content differs") : no("cannot be made readable");
}
static void number(char *at, uint64_t seed) {
  for (size_t i = 0; i < PROTECTED / 8; i++) ((uint64_t *)at)[i] = seed * 1000003 + i;
}
static void protections_setup(void) {
  for (size_t i = 0; i < ARRAY_SIZE(protections); i++) {
    protected_at[i] = map(PROTECTED + PAGE) + PAGE;
    MUST(mprotect(protected_at[i] - PAGE, PAGE, PROT_NONE));
    number(protected_at[i], i + 1);
    MUST(mprotect(protected_at[i], PROTECTED, protections[i]));
  }
  maps_note();
}
static const char *protections_ok(void) {
  part("mappings", maps_same());
  part("no write to read-only", faults(protected_at[1], true) ? NULL : no("can be written"));
  static const char *const names[] = {"---", "r--", "rw-", "r-x", "--x", "-w-", "rwx"};
  for (size_t i = 0; i < ARRAY_SIZE(protections); i++) part(names[i], behind(protected_at[i], i + 1));
  return parts();
}
static void protections_change(void) {
  for (size_t i = 0; i < ARRAY_SIZE(protections); i++) {
    MUST(mprotect(protected_at[i], PROTECTED, RW));
    number(protected_at[i], 100 + i);
    int next = protections[(i + 1) % ARRAY_SIZE(protections)];
    MUST(mprotect(protected_at[i] + (i & 1) * PAGE, 2 * PAGE, i == 1 ? RW : next));
  }
}

/* ---- private mappings of a file: changed pages are private, the others show the file */

static int filefd;

// Compares 64 bytes, because a single one may match by chance.
static const char *is_file_page(const char *at, int value) {
  for (int i = 0; i < 64; i++)
    if (at[i] != (char)value) return no("%d instead of %d", at[i], value);
  return NULL;
}

static void make_file(const char *name, size_t bytes, int number_) {
  filefd = MUST(open(path(name), O_RDWR | O_CREAT | O_TRUNC, 0600));
  static char page[PAGE];
  for (size_t i = 0; i < bytes / PAGE; i++) {
    memset(page, number_ + (int)i, PAGE);
    MUST(write(filefd, page, PAGE));
  }
}
static void private_file_setup(void) {
  make_file("private", 64 * PAGE, 1);
  area = mmap(NULL, 64 * PAGE, RW, MAP_PRIVATE, filefd, 0);
  second = mmap(NULL, 16 * PAGE, PROT_READ, MAP_PRIVATE, filefd, 16 * PAGE);
  close(filefd);
  fill(area + 8 * PAGE, 8 * PAGE, 1);
  maps_note();
}
static bool unlinked;
static const char *private_file_ok(void) {
  // A restart cannot open an unlinked file: it maps memory with the same content.
  if (!unlinked) part("mappings", maps_same());
  part("changed pages", filled(area + 8 * PAGE, 8 * PAGE, 1));
  const char *why = NULL;
  for (int i = 0; i < 64; i++)
    if ((i < 8 || i >= 16) && area[i * PAGE + 5] != (char)(1 + i)) why = no("page %d is not the file's", i);
  part("the file's pages", why);
  part("second mapping", msync(second, 16 * PAGE, MS_ASYNC) ? no("not all mapped") : is_file_page(second, 17));
  return parts();
}
static void private_file_change(void) {
  fill(area, 64 * PAGE, 2);
  munmap(second, 8 * PAGE);
  memset(map(PAGE * 8), 3, PAGE * 8);
}

// An unlinked file: a pause keeps it while it is mapped; else it is created again from the image.
static void unlinked_setup(void) {
  private_file_setup();
  unlink(path("private"));
  unlinked = true;
  maps_note();
}
static void unlinked_unmap(void) {
  MUST(munmap(second, 16 * PAGE));
  MUST(mmap(area, 64 * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
}

/* ---- a mapping of which a part was replaced must be one mapping again: mremap fails on two */

static void halves_setup(void) {
  area = map(32 * PAGE);
  fill(area, 32 * PAGE, 1);
  MUST(mprotect(area, 32 * PAGE, PROT_READ));
}
static const char *halves_ok(void) { return filled(area, 32 * PAGE, 1); }
static void halves_change(void) {
  MUST(mprotect(area, 32 * PAGE, RW));
  MUST(mmap(area + 16 * PAGE, 16 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
}
static const char *halves_grow(void) {
  static char had[32 * PAGE];
  memcpy(had, area, sizeof had);  // fill() depends on the address
  MUST(mprotect(area, 32 * PAGE, RW));
  char *to = mremap(area, 32 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
  if (to == MAP_FAILED) return no("mremap: errno %d", errno);
  return memcmp(to, had, sizeof had) ? no("the content differs") : NULL;
}

/* ---- shared memory */

static void shared_setup(void) {
  area = mmap(NULL, 32 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  fill(area, 16 * PAGE, 1);
  make_file("shared", 32 * PAGE, 1);
  second = mmap(NULL, 32 * PAGE, RW, MAP_SHARED, filefd, 0);
  fill(second, 16 * PAGE, 2);
  third = mmap(NULL, 8 * PAGE, PROT_READ, MAP_SHARED, filefd, 4 * PAGE);  // the same pages once more
  maps_note();
}
static const char *shared_ok(void) {
  part("mappings", maps_same());
  part("anonymous", filled(area, 16 * PAGE, 1));
  part("untouched anonymous", zero(area + 16 * PAGE, 16 * PAGE));
  part("file mapping", filled(second, 16 * PAGE, 2));
  part("the file's other pages", is_file_page(second + 20 * PAGE, 21));
  static char page[PAGE];
  ssize_t n = pread(filefd, page, PAGE, 4 * PAGE);
  part("the file itself", n != PAGE || memcmp(page, second + 4 * PAGE, PAGE) || memcmp(page, third, PAGE)
                              ? no("does not show what the mapping shows")
                              : filled(second + 4 * PAGE, PAGE, 2));
  return parts();
}
static void shared_change(void) {
  fill(area, 32 * PAGE, 8);
  fill(second, 32 * PAGE, 9);
  munmap(second + 30 * PAGE, 2 * PAGE);
  close(filefd);
}

// System V shared memory: a restart refuses it, because other processes may have attached it.
static void sysv_setup(void) {
  int id = MUST(shmget(IPC_PRIVATE, 16 * PAGE, IPC_CREAT | 0600));
  area = shmat(id, NULL, 0);
  if (area == (void *)-1) die("shmat: errno %d", errno);
  MUST(shmctl(id, IPC_RMID, NULL));  // removed at the last detach
  fill(area, 16 * PAGE, 1);
}
static const char *sysv_ok(void) { return filled(area, 16 * PAGE, 1); }
static void sysv_change(void) { fill(area, 16 * PAGE, 2); }

// Like a JVM's statistics file (hsperfdata), which is deleted when the JVM ends.
static void vanishing_setup(void) {
  make_file("vanishing", 16 * PAGE, 1);
  second = mmap(NULL, 16 * PAGE, RW, MAP_SHARED, filefd, 0);
  close(filefd);
  fill(second, 8 * PAGE, 2);
}
static const char *vanishing_ok(void) {
  part("written pages", filled(second, 8 * PAGE, 2));
  part("other pages", is_file_page(second + 9 * PAGE, 10));
  static char page[PAGE];
  int fd = open(path("vanishing"), O_RDONLY);
  ssize_t n = pread(fd, page, PAGE, 3 * PAGE);
  close(fd);
  part("the file", n != PAGE || memcmp(page, second + 3 * PAGE, PAGE) ? no("does not show the mapping's content")
                                                                      : filled(second + 3 * PAGE, PAGE, 2));
  return parts();
}
static void vanishing_change(void) {
  fill(second, 16 * PAGE, 9);
}
static void vanish(void) { unlink(path("vanishing")); }

// A file that was replaced under its name: the mapping shows the old file, and the new file must not change.
static const char *replaced_ok(void) {
  char text[4];
  int fd = MUST(open(path("vanishing"), O_RDONLY));
  ssize_t n = read(fd, text, sizeof text);
  struct stat st;
  MUST(fstat(fd, &st));
  close(fd);
  if (st.st_size != 16 * PAGE && (n != 3 || memcmp(text, "new", 3))) return no("the new file was changed");
  return filled(second, 8 * PAGE, 2);
}
static void replaced_change(void) {
  fill(second, 16 * PAGE, 9);
  MUST(unlink(path("vanishing")));
  int fd = MUST(open(path("vanishing"), O_RDWR | O_CREAT, 0600));
  MUST(write(fd, "new", 3));
  close(fd);
}

// All descriptors are in use, but the restore needs one for the file that it maps again.
static void crowded_setup(void) {
  struct rlimit limit = {1024, 1024};
  make_file("crowded", 16 * PAGE, 1);
  area = mmap(NULL, 16 * PAGE, RW, MAP_PRIVATE, filefd, 0);
  close(filefd);
  fill(area, 4 * PAGE, 5);
  int fd = MUST(open("/dev/null", O_RDWR));
  MUST(setrlimit(RLIMIT_NOFILE, &limit));
  while (dup(fd) >= 0) {
  }
  if (errno != EMFILE) die("dup: errno %d", errno);
}
static const char *crowded_ok(void) {
  if (msync(area, 16 * PAGE, MS_ASYNC)) return no("the mapping does not exist");
  const char *why = filled(area, 4 * PAGE, 5);
  return why ? why : is_file_page(area + 5 * PAGE, 6);
}
static void crowded_change(void) { MUST(munmap(area, 16 * PAGE)); }
static void crowded_write(void) { fill(area, 4 * PAGE, 6); }

// Files and a memfd whose size is not a multiple of the page size.
static int short_memfd;
static void short_setup(void) {
  make_file("short", 0, 1);
  MUST(pwrite(filefd, "twenty-nine bytes, and no more", 29, 0));
  second = mmap(NULL, PAGE, RW, MAP_SHARED, filefd, 0);
  third = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  fill(third, PAGE, 3);
  short_memfd = MUST((int)syscall(SYS_memfd_create, "short", 0));
  MUST(pwrite(short_memfd, "at an odd place", 15, 2 * PAGE));
}
static const char *short_ok(void) {
  char text[32] = "";
  struct stat st;
  part("mapping", memcmp(second, "twenty-nine bytes, and no mor", 30) ? no("\"%.32s\"", second) : NULL);
  part("the file", pread(filefd, text, sizeof text, 0) != 29 || memcmp(text, "twenty-nine", 11) ? no("\"%s\"", text) : NULL);
  part("anonymous", filled(third, PAGE, 3));
  memset(text, 0, sizeof text);
  ssize_t n = pread(short_memfd, text, sizeof text, 2 * PAGE);
  part("memfd", n != 15 || memcmp(text, "at an odd place", 15) ? no("%ld bytes, \"%s\"", (long)n, text) : NULL);
  part("its size", fstat(short_memfd, &st) || st.st_size != 2 * PAGE + 15 ? no("%ld", (long)st.st_size) : NULL);
  return parts();
}
static void short_change(void) {
  memset(second, 'x', 29);
  fill(third, PAGE, 4);
  MUST(pwrite(short_memfd, "something else that is longer", 29, 2 * PAGE));
}

static int memfd, memfd_seals;
static void memfd_make(void) {
  memfd = MUST((int)syscall(SYS_memfd_create, "kselftest", 2 /* MFD_ALLOW_SEALING */));
  MUST(ftruncate(memfd, 40 * PAGE));
  MUST(fcntl(memfd, 1033 /* F_ADD_SEALS */, memfd_seals));
  area = mmap(NULL, 32 * PAGE, RW, MAP_SHARED, memfd, 0);
  second = mmap(NULL, 32 * PAGE, RW, MAP_PRIVATE, memfd, 0);
  fill(area, 8 * PAGE, 1);
  fill(second + 8 * PAGE, 8 * PAGE, 2);
  MUST(pwrite(memfd, "at the end", 10, 39 * PAGE));
  MUST(lseek(memfd, 1234, SEEK_SET));
  maps_note();
}
static void memfd_setup(void) {
  memfd_seals = 1;  // F_SEAL_SEAL
  memfd_make();
}
// A memfd that grows after the checkpoint, which the seal forbids to undo in place.
static void memfd_sealed_setup(void) {
  memfd_seals = 2;  // F_SEAL_SHRINK
  memfd_make();
}
static const char *memfd_ok(void) {
  part("mappings", maps_same());
  part("shared", filled(area, 8 * PAGE, 1));
  part("private", filled(second + 8 * PAGE, 8 * PAGE, 2));
  part("private shows shared", memcmp(area, second, PAGE) ? no("differs") : filled(area, PAGE, 1));
  part("position", lseek(memfd, 0, SEEK_CUR) != 1234 ? no("%ld", (long)lseek(memfd, 0, SEEK_CUR)) : NULL);
  char text[11] = "";
  struct stat st;
  pread(memfd, text, 10, 39 * PAGE);
  part("beyond the mapping", strcmp(text, "at the end") ? no("\"%s\"", text) : NULL);
  part("size", fstat(memfd, &st) || st.st_size != 40 * PAGE ? no("%ld", (long)st.st_size) : NULL);
  int seals = fcntl(memfd, 1034 /* F_GET_SEALS */);
  if (seals != memfd_seals) part("seals", no("%#x instead of %d", seals, memfd_seals));
  return parts();
}
static void memfd_change(void) {
  fill(area, 8 * PAGE, 5);
  fill(second, 16 * PAGE, 6);
  MUST(pwrite(memfd, "something else", 14, 39 * PAGE));
  MUST(ftruncate(memfd, 100 * PAGE));
  MUST(lseek(memfd, 0, SEEK_SET));
  MUST(mprotect(area, PAGE, PROT_READ));
}
static void memfd_change_close(void) {
  memfd_change();
  close(memfd);
}

static void dev_zero_setup(void) {
  int fd = MUST(open("/dev/zero", O_RDWR));
  area = mmap(NULL, 8 * PAGE, RW, MAP_PRIVATE, fd, 0);
  second = mmap(NULL, 8 * PAGE, RW, MAP_SHARED, fd, 0);
  close(fd);
  fill(area, 4 * PAGE, 1);
  fill(second, 4 * PAGE, 2);
  maps_note();
}
static const char *dev_zero_ok(void) {
  part("mappings", maps_same());
  part("private", filled(area, 4 * PAGE, 1));
  part("shared", filled(second, 4 * PAGE, 2));
  return parts();
}
static void dev_zero_change(void) {
  fill(area, 8 * PAGE, 3);
  fill(second, 8 * PAGE, 3);
  map(PAGE);
  munmap(area + 6 * PAGE, PAGE);
}

/* ---- mremap */

static char *moved;
static void mremap_setup(void) {
  area = map(64 * PAGE);
  fill(area, 64 * PAGE, 1);
  second = map(64 * PAGE);
  fill(second, 64 * PAGE, 2);
  third = map(256 * PAGE);
  munmap(third, 256 * PAGE);
  moved = mremap(second, 32 * PAGE, 32 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, third);
  if (moved != third) die("mremap: errno %d", errno);
  for (size_t i = 0; i < 32 * PAGE / 8; i++) ((uint64_t *)moved)[i] = i * 7;  // at its new address
  maps_note();
}
static const char *mremap_ok(void) {
  part("mappings", maps_same());
  part("moved since", msync(area, 64 * PAGE, MS_ASYNC) ? no("not all mapped") : filled(area, 64 * PAGE, 1));
  const char *why = NULL;
  if (msync(moved, 32 * PAGE, MS_ASYNC)) why = no("not all mapped");
  for (size_t i = 0; !why && i < 32 * PAGE / 8; i++)
    if (((uint64_t *)moved)[i] != i * 7) why = no("differs at %zu", i * 8);
  part("moved before", why);
  return parts();
}
static void mremap_change(void) {
  char *to = mremap(area + 8 * PAGE, 16 * PAGE, 128 * PAGE, MREMAP_MAYMOVE);
  if (to == MAP_FAILED) die("mremap: errno %d", errno);
  memset(to, 9, 128 * PAGE);
  to = mremap(moved, 32 * PAGE, 32 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, map(32 * PAGE));
  if (to == MAP_FAILED) die("mremap: errno %d", errno);
  memset(to, 8, 100);
}
// A mapping of the same length and address, but with the pages of another mapping.
static void swap_change(void) {
  char *spare = map(64 * PAGE);
  MUST(mremap(area, 64 * PAGE, 64 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, spare));
  MUST(mremap(second + 32 * PAGE, 32 * PAGE, 32 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, area));
  MUST(mremap(spare, 32 * PAGE, 32 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, moved));
}

/* ---- madvise */

static const struct advice {
  int set, unset;
  const char *flag;
} advices[] = {{MADV_SEQUENTIAL, MADV_NORMAL, "sr"},  {MADV_RANDOM, MADV_NORMAL, "rr"},
               {MADV_DONTFORK, MADV_DOFORK, "dc"},    {MADV_DONTDUMP, MADV_DODUMP, "dd"},
               {MADV_WIPEONFORK, MADV_KEEPONFORK, "wf"}, {MADV_HUGEPAGE, MADV_NOHUGEPAGE, "hg"},
               {MADV_NOHUGEPAGE, MADV_HUGEPAGE, "nh"}, {MADV_MERGEABLE, MADV_UNMERGEABLE, "mg"}};
static char *advised[ARRAY_SIZE(advices)];
static bool can_advise[ARRAY_SIZE(advices)];

static void madvise_setup(void) {
  for (size_t i = 0; i < ARRAY_SIZE(advices); i++) {
    advised[i] = map(12 * PAGE) + 2 * PAGE;
    MUST(mprotect(advised[i] - PAGE, PAGE, PROT_NONE));
    fill(advised[i], 8 * PAGE, i);
    can_advise[i] = madvise(advised[i], 8 * PAGE, advices[i].set) == 0;
  }
  area = map(32 * PAGE);
  fill(area, 32 * PAGE, 50);
  MUST(madvise(area + 8 * PAGE, 8 * PAGE, MADV_DONTNEED));
  maps_note();
}
static const char *madvise_ok(void) {
  for (size_t i = 0; i < ARRAY_SIZE(advices); i++) {
    if (!can_advise[i]) continue;
    const char *why = filled(advised[i], 8 * PAGE, i);
    if (advices[i].set == MADV_WIPEONFORK && why) why = zero(advised[i], 8 * PAGE);  // a restore also wipes it
    part(advices[i].flag, vm_flag(advised[i], advices[i].flag) ? why : no("not set"));
  }
  part("dropped since", filled(area + 16 * PAGE, 16 * PAGE, 50));
  part("dropped before", zero(area + 8 * PAGE, 8 * PAGE));
  part("mappings", maps_same());
  return parts();
}
static void madvise_change(void) {
  for (size_t i = 0; i < ARRAY_SIZE(advices); i++)
    if (can_advise[i]) MUST(madvise(advised[i], 8 * PAGE, advices[i].unset));
  MUST(madvise(area + 16 * PAGE, 8 * PAGE, MADV_DONTNEED));
  MUST(madvise(area + 24 * PAGE, 8 * PAGE, MADV_FREE));
  fill(area + 8 * PAGE, 8 * PAGE, 51);
  munmap(area + 31 * PAGE, PAGE);
}

/* ---- guard pages inside of mappings */

enum { GUARD_INSTALL = 102, GUARD_REMOVE = 103 };  // MADV_GUARD_*
static const char *no_guards(void) {
  char *at = mmap(NULL, PAGE, RW, ANON, -1, 0);
  int r = madvise(at, PAGE, GUARD_INSTALL);
  munmap(at, PAGE);
  return r ? "the kernel has no guard pages" : NULL;
}
static void guards_setup(void) {
  area = map(64 * PAGE);
  fill(area, 64 * PAGE, 1);
  MUST(madvise(area + 8 * PAGE, 4 * PAGE, GUARD_INSTALL));   // stay
  MUST(madvise(area + 16 * PAGE, 4 * PAGE, GUARD_INSTALL));  // removed after the checkpoint
  second = map(16 * PAGE);                                   // locked after its guards, unmapped after the checkpoint
  MUST(madvise(second, PAGE, GUARD_INSTALL));
  mlock(second, 16 * PAGE);
  fill(second + PAGE, 15 * PAGE, 2);
}
static const char *guards_are(const char *at, size_t pages) {
  for (size_t i = 0; i < pages; i++)
    if (!faults((char *)at + i * PAGE, false)) return no("guard page %zu can be read", i);
  return NULL;
}
static const char *guards_ok(void) {
  part("kept", guards_are(area + 8 * PAGE, 4));
  part("removed since", guards_are(area + 16 * PAGE, 4));
  const char *why = NULL;
  for (size_t i = 0; i < 64 && !why; i++)
    if (!(i >= 8 && i < 12) && !(i >= 16 && i < 20) && faults(area + i * PAGE, false)) why = no("page %zu is a guard", i);
  if (!why) why = filled(area, 8 * PAGE, 1);
  part("no others", why);
  part("locked", guards_are(second, 1));
  part("lock", vm_flag(second + 8 * PAGE, "lo") ? NULL : no("is not set"));
  part("beside them", faults(second + PAGE, false) ? no("cannot be read") : filled(second + PAGE, 15 * PAGE, 2));
  return parts();
}
static void guards_change(void) {
  MUST(madvise(area + 8 * PAGE, 4 * PAGE, GUARD_REMOVE));
  MUST(madvise(area + 16 * PAGE, 4 * PAGE, GUARD_REMOVE));
  fill(area + 16 * PAGE, PAGE, 9);
  MUST(madvise(area + 2 * PAGE, PAGE, GUARD_INSTALL));
  munmap(second, 16 * PAGE);
  MUST(mmap(second, 16 * PAGE, RW, ANON | MAP_FIXED, -1, 0) == MAP_FAILED ? -1 : 0);
}

/* ---- MAP_DROPPABLE memory: after a restore it is droppable and empty */

enum { DROPPABLE = 0x08 };  // MAP_DROPPABLE
static const char *no_droppable(void) {
  char *at = mmap(NULL, PAGE, RW, DROPPABLE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return "the kernel has no droppable memory";
  munmap(at, PAGE);
  return NULL;
}
static void droppable_setup(void) {
  area = mmap(NULL, 4 * PAGE, RW, DROPPABLE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) die("droppable memory: errno %d", errno);
  second = mmap(NULL, 4 * PAGE, RW, DROPPABLE | MAP_ANONYMOUS, -1, 0);
  if (second == MAP_FAILED) die("droppable memory: errno %d", errno);
}
static const char *droppable_ok(void) {
  part("stays", vm_flag(area, "dp") ? zero(area, 4 * PAGE) : no("is not droppable"));
  part("unmapped since", vm_flag(second, "dp") ? zero(second, 4 * PAGE) : no("is not droppable"));
  return parts();
}
static void droppable_change(void) {
  fill(area, 4 * PAGE, 1);
  munmap(second, 4 * PAGE);
  MUST(mmap(second, 4 * PAGE, RW, ANON | MAP_FIXED, -1, 0) == MAP_FAILED ? -1 : 0);
}

/* ---- huge pages */

static const char *no_huge_pages(void) {
  char text[128];
  slurp("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text);
  return strstr(text, "[never]") || !text[0] ? "transparent huge pages are off" : NULL;
}
static void huge_setup(void) {
  area = map_huge(4 * huge);  // whole huge pages
  madvise(area, 4 * huge, MADV_HUGEPAGE);
  fill(area, 3 * huge, 1);
  second = map_huge(4 * huge);  // small pages with holes
  madvise(second, 4 * huge, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < 4 * huge; i += 4 * PAGE) fill(second + i, PAGE, 2);
  madvise(second, 4 * huge, MADV_HUGEPAGE);
  third = map_huge(4 * huge);  // never huge
  madvise(third, 4 * huge, MADV_NOHUGEPAGE);
  fill(third, 2 * huge, 3);
  maps_note();
}
static const char *huge_ok(void) {
  part("huge pages", filled(area, 3 * huge, 1));
  part("untouched huge page", zero(area + 3 * huge, huge));
  const char *why = NULL;
  for (size_t i = 0; i < 4 * huge && !why; i += 4 * PAGE)
    if (!(why = filled(second + i, PAGE, 2))) why = zero(second + i + PAGE, 3 * PAGE);
  part("holes", why);
  part("small pages", filled(third, 2 * huge, 3));
  part("mappings", maps_same());
  return parts();
}
static void huge_change(void) {
  fill(area + 100 * PAGE, PAGE, 7);                 // in the middle of a huge page
  MUST(madvise(area + huge, 10 * PAGE, MADV_DONTNEED));  // a part of a huge page
  fill(area + 3 * huge, huge, 7);
  MUST(mprotect(area + 2 * huge + 5 * PAGE, PAGE, PROT_READ));
  if (madvise(second, 2 * huge, MADV_COLLAPSE)) {  // small pages and holes become a huge page
  }
  fill(second + huge - PAGE, 2 * PAGE, 7);
  fill(second + 3 * huge, huge, 7);
  madvise(third, 4 * huge, MADV_HUGEPAGE);
  fill(third + huge, 2 * huge, 7);
}

/* ---- locked memory */

static long locked_before;
static void locked_setup(void) {
  area = map(64 * PAGE);
  fill(area, 64 * PAGE, 1);
  MUST(mlock(area, 32 * PAGE));
  second = map(64 * PAGE);
  MUST((int)syscall(SYS_mlock2, second, 32 * PAGE, 1 /* MLOCK_ONFAULT */));
  fill(second, 4 * PAGE, 2);
  locked_before = status_kb("VmLck:");
  maps_note();
}
static const char *locked_ok(void) {
  long locked = status_kb("VmLck:");
  part("locked bytes", locked != locked_before ? no("%ld kB instead of %ld kB", locked, locked_before) : NULL);
  part("locked content", filled(area, 64 * PAGE, 1));
  part("locked on fault", filled(second, 4 * PAGE, 2));
  part("flag", vm_flag(area, "lo") && !vm_flag(area + 40 * PAGE, "lo") ? NULL : no("not as it was"));
  part("untouched", page_state(second + 20 * PAGE) ? no("is present") : NULL);
  return parts();
}
static void locked_change(void) {
  MUST(munlock(area, 64 * PAGE));
  MUST(mlock(area + 48 * PAGE, 4 * PAGE));
  MUST(munlock(second, 64 * PAGE));
  fill(area, 64 * PAGE, 3);
  fill(second, 64 * PAGE, 3);
}

/* ---- swapped pages */

static const char *no_swap(void) {
  char text[4096];
  slurp("/proc/swaps", text, sizeof text);
  char *line = strchr(text, '\n');
  return line && line[1] ? NULL : "no swap is on";
}
static int swapped_pages(char *at, size_t bytes) {
  int n = 0;
  for (size_t i = 0; i < bytes; i += PAGE) n += page_state(at + i) == 2;
  return n;
}
static void swapped_setup(void) {
  area = map(512 * PAGE);
  madvise(area, 512 * PAGE, MADV_NOHUGEPAGE);
  fill(area, 512 * PAGE, 1);
  second = map(256 * PAGE);
  madvise(second, 256 * PAGE, MADV_NOHUGEPAGE);
  fill(second, 256 * PAGE, 2);
  third = mmap(NULL, 64 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  fill(third, 64 * PAGE, 3);
  madvise(third, 64 * PAGE, MADV_PAGEOUT);
  for (int i = 0; i < 20 && swapped_pages(area, 512 * PAGE) < 100; i++) madvise(area, 512 * PAGE, MADV_PAGEOUT);
  if (swapped_pages(area, 512 * PAGE) < 100) die("the kernel does not swap the pages out");
  maps_note();
}
static const char *swapped_ok(void) {
  part("swapped at the checkpoint", filled(area, 512 * PAGE, 1));
  part("swapped since", filled(second, 256 * PAGE, 2));
  part("shared", filled(third, 64 * PAGE, 3));
  return parts();
}
static void swapped_change(void) {
  fill(area, 256 * PAGE, 7);
  madvise(area, 128 * PAGE, MADV_PAGEOUT);  // changed, then swapped
  fill(second, 64 * PAGE, 7);
  madvise(second, 256 * PAGE, MADV_PAGEOUT);  // changed and unchanged ones
  fill(third, 8 * PAGE, 7);
}

/* ---- the vdso */

static const char *vdso_ok(void) {
  char *vdso = (char *)getauxval(AT_SYSINFO_EHDR);
  if (!vdso || memcmp(vdso, "\177ELF", 4)) return no("no vdso at %p", (void *)vdso);
  int64_t before = now_ns();
  struct timespec by_call;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &by_call);
  int64_t call = by_call.tv_sec * 1000000000LL + by_call.tv_nsec, after = now_ns();
  if (call < before - 1000000 || call > after + 1000000)
    return no("clock_gettime of the vdso returns %ld to %ld, the system call %ld", before, after, call);
  if (time(NULL) < 1000000000) return no("time() returns %ld", (long)time(NULL));
  unsigned cpu = ~0U, node;
  if (getcpu(&cpu, &node) || cpu > 1000) return no("getcpu returns %u", cpu);
  return maps_same();
}
static void vdso_change(void) { map(PAGE); }

/* ---- untouched memory stays untouched, and costs nothing */

static const size_t sparse = 100UL << 30;
static long rss_before;
static void sparse_setup(void) {
  area = mmap(NULL, sparse, RW, ANON | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) die("mmap of 100 GB: errno %d", errno);
  madvise(area, sparse, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < 64; i++) fill(area + i * (sparse / 64), PAGE, i);
  second = map(256 * PAGE);
  madvise(second, 256 * PAGE, MADV_NOHUGEPAGE);
  fill(second, 16 * PAGE, 5);
  // only read: maps the kernel's zero page
  for (size_t i = 128 * PAGE; i < 192 * PAGE; i += PAGE)
    if (second[i]) die("not 0");
  rss_before = status_kb("VmRSS:");
  maps_note();
}
static const char *sparse_ok(void) {
  const char *why = NULL;
  for (size_t i = 0; i < 64 && !why; i++) why = filled(area + i * (sparse / 64), PAGE, i);
  part("touched pages", why);
  int present = 0;
  for (size_t i = 0; i < 64; i++) present += page_state(area + i * (sparse / 64) + 100 * PAGE) != 0;
  part("untouched pages", present ? no("%d are present", present) : NULL);
  present = 0;
  for (size_t i = 16; i < 128; i++) present += page_state(second + i * PAGE) != 0;
  part("untouched pages in a used mapping", present ? no("%d are present", present) : NULL);
  part("pages of zeros", zero(second + 128 * PAGE, 64 * PAGE));
  long rss = status_kb("VmRSS:");
  part("resident size", rss > rss_before + 1500 ? no("%ld kB instead of %ld kB", rss, rss_before) : NULL);
  return parts();
}
static void sparse_change(void) {
  for (size_t i = 0; i < 64; i++) {
    fill(area + i * (sparse / 64), PAGE, 100);
    memset(area + i * (sparse / 64) + 90 * PAGE, 1, 20 * PAGE);
  }
  memset(second, 1, 256 * PAGE);
}

/* ---- unusual addresses */

static const char *grows_down;
static void odd_setup(void) {
  area = mmap((void *)0x10000, 4 * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
  if (area == MAP_FAILED) die("mmap at 0x10000: errno %d", errno);
  fill(area, 4 * PAGE, 1);
  second = mmap((void *)0x7fffffff0000, 4 * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
  if (second == MAP_FAILED) second = map(4 * PAGE);
  fill(second, 4 * PAGE, 2);
  third = mmap((void *)0x300000000000, 16 * PAGE, RW, ANON | MAP_GROWSDOWN | MAP_FIXED_NOREPLACE, -1, 0);
  if (third == MAP_FAILED) die("mmap with MAP_GROWSDOWN: errno %d", errno);
  fill(third, 16 * PAGE, 3);
  grows_down = third;
  maps_note();
}
static const char *odd_ok(void) {
  part("mappings", maps_same());
  part("lowest address", filled(area, 4 * PAGE, 1));
  part("high address", filled(second, 4 * PAGE, 2));
  part("grows down", filled(third, 16 * PAGE, 3));
  return parts();
}
static void odd_change(void) {
  fill(area, PAGE, 9);
  fill(second, PAGE, 9);
  fill(third, PAGE, 9);
  MUST(munmap(area + PAGE, PAGE));
}

/* ---- much memory: all of it changed, and almost none of it */

static void much_setup(void) {
  area = map(48 * MB);
  madvise(area, 48 * MB, MADV_NOHUGEPAGE);
  fill(area, 48 * MB, 1);
}
static const char *much_ok(void) { return filled(area, 48 * MB, 1); }
static void much_change(void) {
  static int round;
  size_t step = round++ & 1 ? PAGE : 101 * PAGE;
  for (size_t i = 0; i < 48 * MB; i += step) area[i + 100] ^= 1;
}

static const struct scenario scenarios[] = {
    {.name = "private anonymous", .setup = anonymous_setup, .check = anonymous_ok, .mutate = anonymous_change},
    {.name = "heap grown", .setup = heap_setup, .check = heap_ok, .mutate = heap_grow},
    {.name = "heap shrunk", .setup = heap_setup, .check = heap_ok, .mutate = heap_shrink},
    {.name = "stacks and guard pages", .setup = stack_setup, .check = stack_ok, .mutate = stack_change},
    {.name = "protections", .skip = peeking, .setup = protections_setup, .check = protections_ok, .mutate = protections_change},
    {.name = "private file mapping", .setup = private_file_setup, .check = private_file_ok, .mutate = private_file_change},
    {.name = "mapping of an unlinked file", .setup = unlinked_setup, .check = private_file_ok, .mutate = private_file_change},
    {.name = "mapping of an unlinked file, unmapped since", .setup = unlinked_setup, .check = private_file_ok,
     .mutate = unlinked_unmap},
    {.name = "halves of a mapping", .flags = FINISH_LAST, .setup = halves_setup, .check = halves_ok, .mutate = halves_change,
     .finish = halves_grow},
    {.name = "shared mappings", .setup = shared_setup, .check = shared_ok, .mutate = shared_change},
    {.name = "mapped files when no descriptor is free", .setup = crowded_setup, .check = crowded_ok, .mutate = crowded_change},
    {.name = "no descriptor is free, and none is needed", .flags = AS_USER | NO_RESTART, .setup = crowded_setup,
     .check = crowded_ok, .mutate = crowded_write},
    {.name = "shared memory that ends inside a page", .setup = short_setup, .check = short_ok, .mutate = short_change},
    {.name = "shared mapping of a file that vanishes", .setup = vanishing_setup, .check = vanishing_ok,
     .mutate = vanishing_change, .before_restart = vanish},
    {.name = "shared mapping of a file that is replaced", .flags = NO_RESTART, .setup = vanishing_setup,
     .check = replaced_ok, .mutate = replaced_change},
    {.name = "System V shared memory", .flags = RESTART_MAY_REFUSE, .setup = sysv_setup, .check = sysv_ok,
     .mutate = sysv_change},
    {.name = "memfd", .setup = memfd_setup, .check = memfd_ok, .mutate = memfd_change},
    {.name = "memfd sealed against shrinking", .flags = PAUSE_MAY_REFUSE, .setup = memfd_sealed_setup, .check = memfd_ok,
     .mutate = memfd_change},
    {.name = "memfd sealed against shrinking, closed since", .flags = PAUSE_MAY_REFUSE, .setup = memfd_sealed_setup,
     .check = memfd_ok, .mutate = memfd_change_close},
    {.name = "/dev/zero", .setup = dev_zero_setup, .check = dev_zero_ok, .mutate = dev_zero_change},
    {.name = "mremap", .setup = mremap_setup, .check = mremap_ok, .mutate = mremap_change},
    {.name = "mremap to each other's place", .setup = mremap_setup, .check = mremap_ok, .mutate = swap_change},
    {.name = "madvise", .setup = madvise_setup, .check = madvise_ok, .mutate = madvise_change},
    {.name = "guard pages of madvise", .setup = guards_setup, .check = guards_ok, .mutate = guards_change,
     .skip = no_guards},
    {.name = "droppable memory", .setup = droppable_setup, .check = droppable_ok, .mutate = droppable_change,
     .skip = no_droppable},
    {.name = "huge pages", .setup = huge_setup, .check = huge_ok, .mutate = huge_change, .skip = no_huge_pages},
    {.name = "locked pages", .setup = locked_setup, .check = locked_ok, .mutate = locked_change},
    {.name = "swapped pages", .setup = swapped_setup, .check = swapped_ok, .mutate = swapped_change, .skip = no_swap},
    {.name = "vdso", .setup = maps_note, .check = vdso_ok, .mutate = vdso_change},
    {.name = "sparse 100 GB", .setup = sparse_setup, .check = sparse_ok, .mutate = sparse_change},
    {.name = "odd places", .setup = odd_setup, .check = odd_ok, .mutate = odd_change},
    {.name = "48 MB", .setup = much_setup, .check = much_ok, .mutate = much_change},
    {},
};

/* ---- tests of their own */

static void sparse_costs_nothing(void) {
  static struct target t;
  static struct run r;
  struct stat st;
  const struct scenario *s = scenario_named(scenarios, "sparse 100 GB");
  if (!target_start(&t, s)) return;
  target_checkpoint(&t, &r);
  bool small = r.code == 0 && !stat(t.image, &st) && st.st_blocks * 512L < 8L * (long)MB;
  tap(small && r.seconds < 10, "checkpoint of sparse 100 GB is small and fast", "%ld bytes, %.1f s, %s",
      r.code ? -1L : (long)st.st_blocks * 512, r.seconds, why_not(&r));
  target_op(&t, OP_MUTATE);
  target_pause(&t, &r);
  tap(r.code == 0 && r.seconds < 10, "pause of sparse 100 GB is fast", "%.1f s, %s", r.seconds, why_not(&r));
  target_kill(&t);
  target_restart(&t, &r);
  tap(r.code == 0 && r.seconds < 10, "restart of sparse 100 GB is fast", "%.1f s, %s", r.seconds, why_not(&r));
  target_end(&t);
}

// The checkpoint must read swapped pages itself: the target does not touch them before.
static void swapped_unread(void) {
  static struct target t;
  static struct run r;
  const char *why = no_swap();
  if (why) {
    tap_skip("pages swapped out while the checkpoint is taken", why);
    return;
  }
  const struct scenario *s = scenario_named(scenarios, "swapped pages");
  if (!target_start(&t, s)) return;
  if (target_checkpoint(&t, &r)) {
    tap(false, "pages swapped out while the checkpoint is taken", "%s", why_not(&r));
  } else {
    target_op(&t, OP_MUTATE);
    why = target_pause(&t, &r) ? why_not(&r) : target_op(&t, OP_CHECK);
    tap(!why, "pages swapped out while the checkpoint is taken: pause", "%s", why ? why : "");
    target_kill(&t);
    why = target_restart(&t, &r) ? why_not(&r) : target_op(&t, OP_CHECK);
    tap(!why, "pages swapped out while the checkpoint is taken: restart", "%s", why ? why : "");
  }
  target_end(&t);
}

static const struct test tests[] = {
    {"sparse costs nothing", sparse_costs_nothing}, {"swapped, unread", swapped_unread}, {}};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, tests); }
