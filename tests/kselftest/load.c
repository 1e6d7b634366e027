// SPDX-License-Identifier: GPL-2.0-only
// Sizes: many threads, mappings, descriptors and processes, large sparse memory, and
// more memory than the node has. Environment variables set the sizes:
//   LOAD_THREADS LOAD_MAPPINGS LOAD_DESCRIPTORS LOAD_SPARSE_GB LOAD_PROCESSES LOAD_ROUNDS
//   LOAD_SHARED_BY descriptors of one open file description
//   LOAD_SCRATCH   a folder on a disk; without it there is no test of swapping
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

enum { PAGE = 4096 };

static size_t size_of(const char *name, size_t usual) {
  const char *text = getenv(name);
  size_t size = text ? strtoul(text, NULL, 0) : 0;
  return size ? size : usual;
}

static void *map(size_t bytes, int flags) {
  return MUST(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0));
}

// Fills only the first and last words of a page, because there are too many pages.
static void stamp(void *page, uint64_t seed) {
  fill(page, 32, seed);
  fill((char *)page + PAGE - 32, 32, seed + 1);
}
static const char *stamped(const void *page, uint64_t seed) {
  const char *why = filled(page, 32, seed);
  return why ? why : filled((const char *)page + PAGE - 32, 32, seed + 1);
}

/* ---- threads: every one blocks in a system call with known values in its registers */

enum { KEPT = 6, ARGS = 6, TICKERS = 8, STACK = 64 << 10 };
struct slot {
  // the assembly uses the offsets of these fields
  uint64_t in[KEPT], nr, arg[ARGS], rsp_in;               // 0, 48, 56, 104
  uint64_t out[KEPT], arg_out[ARGS], rsp_out, ret;        // 112, 160, 208, 216
  uint64_t xin[32], xout[32];                             // 224, 480
  // not used by the assembly
  volatile uint32_t gate;  // futex: the thread waits for the end of this turn
  volatile uint64_t turn;
  volatile uint64_t woken;  // the turn that began with the latest completed wake
  volatile uint64_t last;  // it leaves when this turn begins; 0: never
  char byte;
  char wrong[96];
  pthread_t thread;
  bool alive;
};
_Static_assert(offsetof(struct slot, xout) == 480, "known to the assembly");

// Make the slot's call, with the slot's values in all registers that a system call preserves.
void hold(struct slot *s);
__asm__(
    ".text\n.type hold,@function\nhold:\n"
    "  push %rbx\n  push %rbp\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n  push %rdi\n"
    "  mov %rsp,104(%rdi)\n"
    "  .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n  movdqu 224+16*\\n(%rdi),%xmm\\n\n  .endr\n"
    "  mov 0(%rdi),%rbx\n  mov 8(%rdi),%rbp\n  mov 16(%rdi),%r12\n  mov 24(%rdi),%r13\n  mov 32(%rdi),%r14\n"
    "  mov 40(%rdi),%r15\n  mov 48(%rdi),%rax\n"
    "  mov 64(%rdi),%rsi\n  mov 72(%rdi),%rdx\n  mov 80(%rdi),%r10\n  mov 88(%rdi),%r8\n  mov 96(%rdi),%r9\n"
    "  mov 56(%rdi),%rdi\n  syscall\n  mov (%rsp),%rcx\n"
    "  mov %rbx,112(%rcx)\n  mov %rbp,120(%rcx)\n  mov %r12,128(%rcx)\n  mov %r13,136(%rcx)\n  mov %r14,144(%rcx)\n"
    "  mov %r15,152(%rcx)\n  mov %rdi,160(%rcx)\n  mov %rsi,168(%rcx)\n  mov %rdx,176(%rcx)\n  mov %r10,184(%rcx)\n"
    "  mov %r8,192(%rcx)\n  mov %r9,200(%rcx)\n  mov %rsp,208(%rcx)\n  mov %rax,216(%rcx)\n"
    "  .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n  movdqu %xmm\\n,480+16*\\n(%rcx)\n  .endr\n"
    "  pop %rdi\n  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbp\n  pop %rbx\n  ret\n"
    ".size hold,.-hold\n");

static struct slot *slots;
static size_t nslots;
// A third of the threads read from these pipes in alternate turns, so that none takes two bytes of one turn.
static int bytes[2][2];
static uint64_t generation;
static volatile uint64_t ticks[TICKERS];
static const struct timespec hour = {3600, 0};

static uint64_t value(const struct slot *s, uint64_t which) {
  uint64_t x = ((uint64_t)(s - slots) * 64 + which + 1) * 0x9e3779b97f4a7c15ULL + s->turn * 0xd6e8feb86659fd93ULL;
  return x ^ x >> 29;
}

static void prepare(struct slot *s) {
  size_t kind = (size_t)(s - slots) % 3;
  for (int i = 0; i < KEPT; i++) s->in[i] = value(s, i);
  for (int i = 0; i < 32; i++) s->xin[i] = value(s, 16 + i);
  for (int i = 0; i < ARGS; i++) s->arg[i] = value(s, 8 + i);
  if (kind == 2) {
    s->nr = SYS_read;
    s->arg[0] = (uint64_t)bytes[s->turn % 2][0], s->arg[1] = (uint64_t)&s->byte, s->arg[2] = 1;
  } else {  // without a timeout, and with one: then the kernel restarts the call with the remaining time
    s->nr = SYS_futex;
    s->arg[0] = (uint64_t)&s->gate, s->arg[1] = FUTEX_WAIT_PRIVATE, s->arg[2] = s->turn;
    s->arg[3] = kind ? (uint64_t)&hour : 0;
  }
}

static void verify(struct slot *s) {
  static const char *const kept[KEPT] = {"rbx", "rbp", "r12", "r13", "r14", "r15"};
  static const char *const args[ARGS] = {"rdi", "rsi", "rdx", "r10", "r8", "r9"};
  long ret = (long)s->ret;
  char *w = s->wrong;
  if (w[0]) return;
  bool ended = s->nr == SYS_read ? ret == 1 : s->gate != (uint32_t)s->turn && (ret == 0 || ret == -EAGAIN);
  if (!ended) snprintf(w, sizeof s->wrong, "call %lu gave %ld too early", s->nr, ret);
  for (int i = 0; i < KEPT; i++)
    if (s->out[i] != s->in[i]) snprintf(w, sizeof s->wrong, "%s is %#lx instead of %#lx", kept[i], s->out[i], s->in[i]);
  for (int i = 0; i < ARGS; i++)
    if (s->arg_out[i] != s->arg[i])
      snprintf(w, sizeof s->wrong, "%s is %#lx instead of %#lx", args[i], s->arg_out[i], s->arg[i]);
  for (int i = 0; i < 32; i++)
    if (s->xout[i] != s->xin[i])
      snprintf(w, sizeof s->wrong, "xmm%d is %#lx instead of %#lx", i / 2, s->xout[i], s->xin[i]);
  if (s->rsp_in != s->rsp_out) snprintf(w, sizeof s->wrong, "rsp is %#lx instead of %#lx", s->rsp_out, s->rsp_in);
}

static void *holder(void *arg) {
  struct slot *s = arg;
  while (!s->last || s->turn != s->last) {
    // The wake that ended the previous turn may arrive late, and then ends this call too early.
    bool stale = s->woken < s->turn;
    prepare(s);
    hold(s);
    if (stale && s->nr == SYS_futex && s->ret == 0 && s->gate == (uint32_t)s->turn) hold(s);
    verify(s);
    s->turn++;
  }
  return s;
}

static void *ticker(void *arg) {
  for (volatile uint64_t *mine = arg;; ++*mine) sleep_ms(5);
  return NULL;
}

static pthread_t start_thread(void *(*what)(void *), void *arg) {
  pthread_attr_t attr;
  pthread_t thread;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, STACK);
  if ((errno = pthread_create(&thread, &attr, what, arg))) die("pthread_create: errno %d", errno);
  pthread_attr_destroy(&attr);
  return thread;
}

static void start_slot(struct slot *s) {
  s->turn = s->woken = s->gate = (uint32_t)generation;
  s->last = 0;
  s->alive = true;
  s->thread = start_thread(holder, s);
}

// Ends the turn of every thread; joins those for which quits() is true.
static const char *next_generation(bool (*quits)(size_t)) {
  for (size_t i = 0; i < nslots; i++) slots[i].last = slots[i].alive && quits && quits(i) ? generation + 1 : 0;
  int feed = bytes[generation++ % 2][1];
  for (size_t i = 0; i < nslots; i++) {
    struct slot *s = &slots[i];
    if (!s->alive) continue;
    s->gate = (uint32_t)generation;
    if (i % 3 == 2)
      MUST(write(feed, "", 1));
    else
      syscall(SYS_futex, &s->gate, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    s->woken = generation;
  }
  int64_t begin = now_ns();
  for (size_t i = 0; i < nslots; i++) {
    while (slots[i].alive && slots[i].turn != generation) {
      if (slots[i].turn > generation) return no("thread %zu is in turn %lu of %lu", i, slots[i].turn, generation);
      if (now_ns() - begin > 30000000000) return no("thread %zu does not go on", i);
      sleep_ms(1);
    }
    if (slots[i].wrong[0]) return no("thread %zu: %s", i, slots[i].wrong);
    if (slots[i].alive && slots[i].last) {
      void *result = NULL;
      if ((errno = pthread_join(slots[i].thread, &result)) || result != &slots[i])
        return no("thread %zu cannot be joined: errno %d", i, errno);
      slots[i].alive = false;
    }
  }
  return NULL;
}

static int threads_expected(void) {
  int n = 1 + TICKERS;
  for (size_t i = 0; i < nslots; i++) n += slots[i].alive;
  return n;
}

// A joined thread is listed until the kernel has released its task.
static bool all_counted(void *arg) {
  (void)arg;
  return thread_count() == threads_expected();
}

static void threads_setup(void) {
  nslots = size_of("LOAD_THREADS", 1000);
  slots = map((nslots + 100) * sizeof *slots, 0);
  for (int i = 0; i < 2; i++) MUST(pipe(bytes[i]));
  generation = 1;
  for (size_t i = 0; i < nslots; i++) start_slot(&slots[i]);
  for (int i = 0; i < TICKERS; i++) start_thread(ticker, (void *)&ticks[i]);
}
static const char *threads_ok(void) {
  if (generation != 1) return no("the threads are in generation %lu", generation);
  for (size_t i = 0; i < nslots; i++) {
    if (!slots[i].alive) return no("thread %zu is not there", i);
    if (slots[i].turn != 1) return no("thread %zu is in turn %lu", i, slots[i].turn);
    if (slots[i].wrong[0]) return no("thread %zu: %s", i, slots[i].wrong);
  }
  if (!soon(all_counted, NULL, 10000)) return no("%d threads instead of %d", thread_count(), threads_expected());
  return NULL;
}
static bool every_tenth(size_t i) { return i % 10 == 0; }
static void threads_change(void) {
  const char *why = next_generation(every_tenth);
  size_t born = 50;
  for (size_t i = 0; i < born; i++) start_slot(&slots[nslots + i]);
  nslots += born;
  if (!why) why = next_generation(NULL);
  if (why) die("%s", why);
}
static uint64_t ticks_before[TICKERS];
static bool all_tick(void *arg) {
  (void)arg;
  for (int i = 0; i < TICKERS; i++)
    if (ticks[i] == ticks_before[i]) return false;
  return true;
}
static const char *threads_go_on(void) {
  for (int i = 0; i < TICKERS; i++) ticks_before[i] = ticks[i];
  const char *why = next_generation(every_tenth);
  if (!why && !soon(all_counted, NULL, 10000))
    why = no("%d threads instead of %d after their ends", thread_count(), threads_expected());
  if (!why) why = next_generation(NULL);
  if (!why && !soon(all_tick, NULL, 10000)) why = "a thread that sleeps and counts stands still";
  return why;
}

/* ---- mappings of one page each that the kernel cannot merge */

static char *pages;
static size_t npages;

static const char *pages_mapped(void) {  // compares them with /proc/self/maps
  char line[512];
  size_t at = 0;
  const char *why = NULL;
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps) return "cannot open /proc/self/maps";
  while (!why && fgets(line, sizeof line, maps)) {
    unsigned long start, end;
    char perms[8];
    if (sscanf(line, "%lx-%lx %7s", &start, &end, perms) != 3 || start < (unsigned long)pages ||
        start >= (unsigned long)(pages + npages * PAGE))
      continue;
    const char *want = at % 2 ? "r--p" : "rw-p";
    if (start != (unsigned long)(pages + at * PAGE) || end != start + PAGE || strcmp(perms, want))
      why = no("mapping %zu is %lx-%lx %s instead of %lx-%lx %s", at, start, end, perms,
               (unsigned long)(pages + at * PAGE), (unsigned long)(pages + at * PAGE + PAGE), want);
    at++;
  }
  fclose(maps);
  if (!why && at != npages) why = no("%zu mappings instead of %zu", at, npages);
  return why;
}
static void mappings_setup(void) {
  npages = size_of("LOAD_MAPPINGS", 5000);
  pages = map(npages * PAGE, 0);
  madvise(pages, npages * PAGE, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < npages; i++) stamp(pages + i * PAGE, i);
  for (size_t i = 1; i < npages; i += 2) MUST(mprotect(pages + i * PAGE, PAGE, PROT_READ));
}
static const char *mappings_ok(void) {
  const char *why = pages_mapped(), *first = NULL;
  part("mappings", why);
  if (why) return parts();  // the pages may be unmapped
  for (size_t i = 0; i < npages && !first; i++) first = stamped(pages + i * PAGE, i);
  part("content", first);
  return parts();
}
static void mappings_change(void) {
  for (size_t i = 0; i < npages; i++) {
    char *at = pages + i * PAGE;
    if (i % 7 == 0) {
      MUST(munmap(at, PAGE));
    } else if (i % 5 == 0) {
      MUST(mprotect(at, PAGE, PROT_READ | PROT_WRITE));
      stamp(at, i + 1);
      MUST(mprotect(at, PAGE, PROT_NONE));
    } else if (i % 2 == 0) {
      stamp(at, i + 2);
    }
  }
  for (size_t i = 0; i < npages / 10; i++) {  // and new mappings
    char *at = map(2 * PAGE, 0);
    MUST(mprotect(at, PAGE, PROT_READ));
    at[PAGE] = 1;
  }
}

/* ---- descriptors: many descriptors of one open file description, and more than the commands may have open */

enum { FIRST_FD = 1000, OTHER_AT = 1 << 20, FEW = 768 };  // FEW: above the harness's descriptor, 700
static size_t ndescriptors, shared_by = 70;

static const char *cannot_raise(void) {
  struct rlimit limit, wide;
  rlim_t need = size_of("LOAD_DESCRIPTORS", 50000) + FIRST_FD + 1000;
  getrlimit(RLIMIT_NOFILE, &limit);
  wide = (struct rlimit){limit.rlim_cur, need > limit.rlim_max ? need : limit.rlim_max};
  if (setrlimit(RLIMIT_NOFILE, &wide)) return "RLIMIT_NOFILE is too low and cannot be raised";
  limit.rlim_cur = FEW;  // limit of the commands, which must count in advance the files that they will open
  setrlimit(RLIMIT_NOFILE, &limit);
  return NULL;
}
static off_t position(size_t i) { return (off_t)(i / shared_by) * 7 + 1; }
static void descriptors_setup(void) {
  ndescriptors = size_of("LOAD_DESCRIPTORS", 50000);
  shared_by = size_of("LOAD_SHARED_BY", shared_by);
  rlim_t need = ndescriptors + FIRST_FD + 1000;
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = need;
  if (limit.rlim_max < need) limit.rlim_max = need;
  MUST(setrlimit(RLIMIT_NOFILE, &limit));
  close(MUST(open(path("many"), O_RDWR | O_CREAT, 0600)));
  for (size_t i = 0; i < ndescriptors; i++) {
    int want = FIRST_FD + (int)i, flags = i % 3 ? 0 : O_CLOEXEC;
    int from = i % shared_by ? want - (int)(i % shared_by) : MUST(open(path("many"), O_RDWR));
    MUST(dup3(from, want, flags));
    if (i % shared_by) continue;
    close(from);
    MUST(lseek(want, position(i), SEEK_SET));
  }
}
// All positions differ, so they also show which descriptors share an open file description.
static const char *descriptors_ok(void) {
  for (size_t i = 0; i < ndescriptors; i++) {
    int fd = FIRST_FD + (int)i, flags = fcntl(fd, F_GETFD);
    if (flags != (i % 3 ? 0 : FD_CLOEXEC)) return no("descriptor %d has flags %d", fd, flags);
    off_t at = lseek(fd, 0, SEEK_CUR);
    if (at != position(i)) return no("descriptor %d is at %ld instead of %ld", fd, (long)at, (long)position(i));
  }
  if (fcntl(FIRST_FD + (int)ndescriptors, F_GETFD) != -1) return "a descriptor too many is open";
  return NULL;
}
static const char *descriptors_shared(void) {  // a seek in one moves the others
  for (size_t i = 0; i + shared_by <= ndescriptors; i += shared_by) {
    int fd = FIRST_FD + (int)i;
    MUST(lseek(fd, OTHER_AT + (off_t)i, SEEK_SET));
    for (size_t k = 1; k < shared_by; k += 1 + shared_by / 8)
      if (lseek(fd + (int)k, 0, SEEK_CUR) != OTHER_AT + (off_t)i) return no("%d does not share with %d", fd + (int)k, fd);
  }
  return NULL;
}
static void descriptors_change(void) {
  for (size_t i = 0; i < ndescriptors; i++) {
    int fd = FIRST_FD + (int)i;
    if (i % 4 == 0) close(fd);
    if (i % 100 == 1) {
      int other = MUST(open(path("many"), O_RDONLY));
      MUST(dup3(other, fd, 0));
      close(other);
    }
    if (i % 10 == 2) fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (i % shared_by == 3) lseek(fd, 5, SEEK_CUR);
  }
  MUST(fcntl(FIRST_FD + 1, F_DUPFD, FIRST_FD + (int)ndescriptors));
}

/* ---- sparse memory: a few hundred pages in gigabytes */

enum { TOUCHED = 400 };
static char *sparse;
static size_t sparse_pages;

static char *sparse_page(uint64_t i) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ULL;
  return sparse + (x ^ x >> 31) % sparse_pages * PAGE;
}
static void sparse_setup(void) {
  sparse_pages = (size_of("LOAD_SPARSE_GB", 8) << 30) / PAGE;
  sparse = map(sparse_pages * PAGE, MAP_NORESERVE);
  madvise(sparse, sparse_pages * PAGE, MADV_NOHUGEPAGE);
  for (uint64_t i = 0; i < TOUCHED; i++) stamp(sparse_page(i), i);
}
static const char *sparse_ok(void) {
  const char *why = NULL, *too_many = NULL;
  for (uint64_t i = 0; i < TOUCHED && !why; i++) why = stamped(sparse_page(i), i);
  part("touched pages", why);
  for (uint64_t i = TOUCHED; i < 2 * TOUCHED && !too_many; i++)
    if (page_state(sparse_page(i))) too_many = no("page %p is there, which was never touched", (void *)sparse_page(i));
  part("untouched pages", too_many);
  return parts();
}
static void sparse_change(void) {
  for (uint64_t i = 0; i < TOUCHED; i++) {
    if (i % 3 == 0) MUST(madvise(sparse_page(i), PAGE, MADV_DONTNEED));
    else if (i % 3 == 1) stamp(sparse_page(i), i + 1);
  }
  for (uint64_t i = TOUCHED; i < 2 * TOUCHED; i++) stamp(sparse_page(i), 1);
}
static void sparse_image(void) {
  struct stat st = {0};
  long most = TOUCHED * PAGE + (64 << 20);
  stat(current->image, &st);
  tap(st.st_size > TOUCHED * PAGE && st.st_size < most, "sparse: the image is no larger than what is there",
      "%ld bytes, at most %ld expected", (long)st.st_size, most);
}

/* ---- many processes at once */

enum { SMALL = 64 };
static char *small;
static struct worker companion;
static uint64_t small_state = 1;

static void one_setup(void) {
  small = map(SMALL * PAGE, 0);
  fill(small, SMALL * PAGE, small_state);
  worker_start(&companion);
}
static const char *thirteen(void *arg) { return arg == &companion ? NULL : "the argument differs"; }
static const char *one_ok(void) {
  if (small_state != 1) return no("it is in state %lu", small_state);
  const char *why = filled(small, SMALL * PAGE, 1);
  return why ? why : worker_do(&companion, thirteen, &companion);
}
static void one_change(void) { fill(small, SMALL * PAGE, ++small_state); }

/* ---- more memory than the node has */

static char *large;
static size_t large_pages;

static long meminfo_kb(const char *field) {
  static char text[8192];
  slurp("/proc/meminfo", text, sizeof text);
  const char *at = strstr(text, field);
  return at ? strtol(at + strlen(field) + 1, NULL, 10) : 0;
}
// All of memory and three tenths of the swap: the rest is for copies of pages that are written.
static size_t more_than_memory(void) {
  return ((size_t)meminfo_kb("MemTotal") + (size_t)meminfo_kb("SwapTotal") * 3 / 10) * 1024;
}
static void large_setup(void) {
  large_pages = more_than_memory() / PAGE;
  large = map(large_pages * PAGE, MAP_NORESERVE);
  madvise(large, large_pages * PAGE, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < large_pages; i++) stamp(large + i * PAGE, i);
}
static const char *large_ok(void) {
  for (size_t i = 0; i < large_pages; i++) {
    const char *why = stamped(large + i * PAGE, i);
    if (why) return why;
  }
  return NULL;
}
static void large_change(void) {
  for (size_t i = 0; i < large_pages; i += 50) stamp(large + i * PAGE, i + 1);
}

static const struct scenario scenarios[] = {
    {.name = "threads", .setup = threads_setup, .check = threads_ok, .mutate = threads_change, .finish = threads_go_on},
    {.name = "mappings", .setup = mappings_setup, .check = mappings_ok, .mutate = mappings_change},
    {.name = "descriptors", .setup = descriptors_setup, .check = descriptors_ok, .mutate = descriptors_change,
     .finish = descriptors_shared, .skip = cannot_raise},
    {.name = "sparse", .setup = sparse_setup, .check = sparse_ok, .mutate = sparse_change,
     .before_restart = sparse_image},
    // only the tests below use these two
    {.name = "one of many", .flags = NO_PAUSE | NO_RESTART, .setup = one_setup, .check = one_ok, .mutate = one_change},
    {.name = "large", .flags = NO_PAUSE | NO_RESTART, .setup = large_setup, .check = large_ok, .mutate = large_change},
    {},
};
static const struct scenario *const one_of_many = &scenarios[4], *const larger = &scenarios[5];

static struct run r;

static void begin(struct target *t, pid_t *pid, const char *tool, const char *option) {
  char text[16];
  snprintf(text, sizeof text, "%d", t->pid);
  current = t;
  const char *said = path("said");
  fflush(stdout);
  if ((*pid = MUST(fork()))) return;
  int null = open("/dev/null", O_RDWR), file = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(null, 0);
  dup2(file, 1);
  dup2(file, 2);
  execlp(tool, tool, option, text, t->image, NULL);
  _exit(127);
}
static const char *end(struct target *t, pid_t pid, const char *tool) {
  char said[512];
  int status;
  waitpid(pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return NULL;
  current = t;
  slurp(path("said"), said, sizeof said);
  return no("%s of process %d ended with status %#x: %s", tool, t->pid, status, said);
}
// Runs the command for every target, at_once of them at a time.
static const char *for_all(struct target *t, size_t n, size_t at_once, const char *tool, const char *option) {
  pid_t *pid = calloc(n, sizeof *pid);
  static char first[1024];
  first[0] = 0;
  for (size_t i = 0; i < n + at_once; i++) {
    if (i >= at_once) {
      const char *why = end(&t[i - at_once], pid[i - at_once], tool);
      if (why && !first[0]) snprintf(first, sizeof first, "%s", why);
    }
    if (i < n) begin(&t[i], &pid[i], tool, option);
  }
  free(pid);
  return first[0] ? first : NULL;
}
static const char *all_do(struct target *t, size_t n, enum op op) {
  const char *why = NULL;
  size_t i = 0;
  for (; i < n && !why; i++) why = target_op(&t[i], op);
  return why ? no("process %zu: %s", i - 1, strdup(why)) : NULL;
}

static void many_processes(void) {
  size_t n = size_of("LOAD_PROCESSES", 100), started = 0;
  struct target *t = calloc(n, sizeof *t);
  while (started < n && target_start(&t[started], one_of_many)) started++;
  n = started;
  const char *why = for_all(t, n, 4, "cr_checkpoint", "--no-sync");
  tap(!why, "many processes: checkpoints", "%s", why);
  for (size_t round = 0; round < size_of("LOAD_ROUNDS", 1) && !why; round++) {
    why = all_do(t, n, OP_MUTATE);
    if (!why && !target_op(&t[n - 1], OP_CHECK)) why = "the test is blind: changed processes pass";
    int64_t start = now_ns();
    if (!why) why = for_all(t, n, n, "cr_pause", "--quiet");
    if (!why) note("%zu processes paused at once in %.1f s", n, (now_ns() - start) / 1e9);
    if (!why) why = all_do(t, n, OP_CHECK);
    tap(!why, "many processes: all paused at once", "%s", why);
  }
  while (started) target_end(&t[--started]);
  free(t);
}

static long swapped_kb(pid_t pid) {
  char name[64], text[8192];
  snprintf(name, sizeof name, "/proc/%d/status", pid);
  slurp(name, text, sizeof text);
  const char *at = strstr(text, "VmSwap:");
  return at ? strtol(at + 7, NULL, 10) : 0;
}

// The image is written to a disk, because in a tmpfs it would use memory itself.
static void swapping(void) {
  static struct target t;
  const char *scratch = getenv("LOAD_SCRATCH"), *why;
  if (!scratch || meminfo_kb("SwapTotal") < 256 << 10) {
    tap_skip("swapping", "needs LOAD_SCRATCH and 256 MB of swap");
    return;
  }
  run_limit_s = 240;
  if (!target_start(&t, larger)) return;
  snprintf(t.image, sizeof t.image, "%s/load-image.%d", scratch, t.pid);
  long memory = meminfo_kb("MemTotal"), swapped = swapped_kb(t.pid);
  note("%zu MB in %ld MB of memory, %ld MB of them swapped out", more_than_memory() >> 20, memory >> 10, swapped >> 10);
  tap(swapped > 0, "swapping: the process is larger than memory", "nothing is swapped out");
  int code = target_checkpoint(&t, &r);
  note("cr_checkpoint: exit %d after %.1f s", code, r.seconds);
  // The checkpoint may be refused for lack of memory, but the program must be unharmed.
  tap(code == 0 || (code == 4 && strstr(r.err, "memory")), "swapping: checkpoint, or a refusal that names the memory",
      "%s", why_not(&r));
  why = target_op(&t, OP_CHECK);
  tap(!why, "swapping: the process is unharmed by it", "%s", why);
  if (code == 0 && !why) {
    why = target_op(&t, OP_MUTATE);
    if (!why && !target_op(&t, OP_CHECK)) why = "the test is blind: a changed process passes";
    if (!why && target_pause(&t, &r)) why = why_not(&r);
    if (!why) why = target_op(&t, OP_CHECK);
    tap(!why, "swapping: pause", "%s", why);
    target_kill(&t);
    why = target_restart(&t, &r) ? why_not(&r) : target_op(&t, OP_CHECK);
    tap(!why, "swapping: restart", "%s", why);
  }
  unlink(t.image);
  target_end(&t);
}

static const struct test tests[] = {{"many processes", many_processes}, {"swapping", swapping}, {}};

int main(int argc, char **argv) {
  run_limit_s = 120;
  return harness_main(argc, argv, scenarios, tests);
}
