// SPDX-License-Identifier: GPL-2.0-only
// An executor: a process with some lanes, its sessions, and the memory that arguments point at.
#include "executor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

#include <linux/futex.h>

namespace fuzz {
namespace {

Slot slots[kSlots];
Context contexts[kLanes];
uint8_t* uffd_pages;    // shared by all lanes
uint8_t* uffd_sources;
int uffd = -1;
constexpr size_t kPage = 4096, kUffdPages = 4;

// Answers a fault of the slow pages after a delay: meanwhile the faulting thread is in the kernel, holding the module's
// locks.
void* uffd_handler(void*) {
  Random r(static_cast<uint64_t>(getpid()));
  for (;;) {
    uffd_msg m;
    if (read(uffd, &m, sizeof m) != sizeof m || m.event != UFFD_EVENT_PAGEFAULT) continue;
    sleep_us(unsigned(10000 + r.below(150000)));
    uint64_t page = m.arg.pagefault.address & ~(kPage - 1);
    uffdio_copy copy = {};
    copy.dst = page;
    copy.src = uint64_t(uffd_sources) + (page - uint64_t(uffd_pages)) / (kUffdPages * kPage) * kPage;
    copy.len = kPage;
    ioctl(uffd, UFFDIO_COPY, &copy);
  }
}

uint8_t* map(size_t size, int prot = PROT_READ | PROT_WRITE) {
  void* p = mmap(nullptr, size, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) _exit(3);
  return static_cast<uint8_t*>(p);
}

void open_uffd() {
  uffd_pages = map(kLanes * kUffdPages * kPage);
  uffd_sources = map(kLanes * kPage);
  uffd = int(syscall(SYS_userfaultfd, O_CLOEXEC));
  uffdio_api api = {};
  api.api = UFFD_API;
  uffdio_register reg = {};
  reg.range = {uint64_t(uffd_pages), kLanes * kUffdPages * kPage};
  reg.mode = UFFDIO_REGISTER_MODE_MISSING;
  pthread_t t;
  if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &reg) ||
      pthread_create(&t, nullptr, uffd_handler, nullptr))
    _exit(4);
}

void open_memory(Memory& m, int lane) {
  m.rw = map(kRwSize);
  m.ro = map(kPage, PROT_READ);
  m.hole = map(kPage);
  munmap(m.hole, kPage);
  uint8_t* two = map(2 * kPage);
  munmap(two + kPage, kPage);
  m.edge = two + kPage;
  m.uffd = uffd_pages + size_t(lane) * kUffdPages * kPage;
  m.uffd_source = uffd_sources + size_t(lane) * kPage;
}

void* run_lane(void* arg) {
  Context& c = *static_cast<Context*>(arg);
  Lane& lane = world->lane[c.lane];
  cover_thread(c.lane);
  uint32_t done = lane.done;
  lane.tid = gettid();
  for (;;) {
    while (world->generation == done) syscall(SYS_futex, &world->generation, FUTEX_WAIT, done, nullptr, nullptr, 0);
    done = world->generation;
    const Program& p = world->program;
    for (uint32_t i = 0; i < p.count && i < kMaxActions; i++) {
      const Action& a = p.action[i];
      if (a.lane != c.lane) continue;
      lane.at = i;
      const Op& op = ops()[a.op];
      long result = op.run(c, a, a.arg);
      lane.result[i] = result < 0 ? int32_t(result) : int32_t(result & INT_MAX);
    }
    lane.done = done;
  }
}

}  // namespace

int inbox[kExecutors][2];

void executor(int number) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, number == 2 ? "fuzz-root" : "fuzz-user");
  cgroup_write("e/cgroup.procs", "0");
  if (number != 2 && (setresgid(kUser, kUser, kUser) || setresuid(kUser, kUser, kUser))) _exit(2);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of ids clears it (commit_creds())
  struct sigaction act = {};
  act.sa_handler = [](int) {};
  sigaction(SIGUSR1, &act, nullptr);
  signal(SIGPIPE, SIG_IGN);
  open_uffd();
  for (int lane = 0; lane < kLanes; lane++) {
    if (executor_of(lane) != number) continue;
    Context& c = contexts[lane];
    c.lane = lane;
    c.slots = slots;
    open_memory(c.mem, lane);
    pthread_t t;
    if (pthread_create(&t, nullptr, run_lane, &c)) _exit(5);
  }
  for (;;) pause();
}

uint64_t resolve(Context& c, const Slot& slot, uint64_t value) {
  uint64_t n = rest_of(value);
  char name[64];
  switch (class_of(value)) {
    case kThread: {
      const auto& t = targets->target[n >= 16 ? (n / 16 - 1) % kTargets : uint64_t(slot.target)];
      uint64_t k = n % 16 % kTargetThreads;
      return uint64_t(int64_t(k && t.tid[k] ? t.tid[k] : t.pid));
    }
    case kBorn: return uint64_t(int64_t(slot.born));
    case kSelf: return uint64_t(gettid());
    case kRw: return uint64_t(c.mem.rw) + n % kRwSize;
    case kRo: return uint64_t(c.mem.ro) + n % kPage;
    case kHole: return uint64_t(c.mem.hole) + n % kPage;
    case kEdge: return uint64_t(c.mem.edge) - n % kPage;
    case kUffd:
      madvise(c.mem.uffd, kUffdPages * kPage, MADV_DONTNEED);
      return uint64_t(c.mem.uffd) + n % (kUffdPages * kPage);
    case kHeap: return kHeapAt + n;
    case kArena: return slot.arena + n;
    case kString:
      return n % 4 < 2 ? uint64_t(targets->path[n % 4]) : n % 4 == 2 ? uint64_t(targets->argv) : uint64_t(targets->envp);
    case kSession: return uint64_t(int64_t(c.slots[n % kSlots].fd));
    case kMem:
    case kFile: {  // a new descriptor, closed by close_made() or at the executor's end
      const char* what = "mem";
      int flags = O_RDWR, fd;
      if (class_of(value) == kFile) {
        if (n % 5 == 0) return uint64_t(int64_t(open((std::string(kFolder) + "/content").c_str(), O_RDONLY | O_CLOEXEC)));
        if (n % 5 == 1) {
          int p[2];
          if (pipe2(p, O_CLOEXEC)) return ~0ULL;
          close(p[1]);
          return uint64_t(p[0]);
        }
        if (n % 5 == 4) return uint64_t(int64_t(open("/proc/self/mem", O_RDWR | O_CLOEXEC)));
        what = n % 5 == 2 ? "environ" : "mem";
        flags = O_RDONLY;
        n = 0;
      }
      snprintf(name, sizeof name, "/proc/%d/%s", int(targets->target[n % kTargets].pid), what);
      fd = open(name, flags | O_CLOEXEC);
      return uint64_t(int64_t(fd));
    }
    case kSoon: {
      timespec now;
      clock_gettime(CLOCK_BOOTTIME, &now);
      return uint64_t(now.tv_sec) * 1000000000 + uint64_t(now.tv_nsec) + n * 1000000;
    }
    default: return value;
  }
}

const Name* call_name(uint64_t nr) { return named(calls(), nr); }

}  // namespace fuzz
