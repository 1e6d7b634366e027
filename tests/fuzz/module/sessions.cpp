// SPDX-License-Identifier: GPL-2.0-only
// Actions on sessions: their files, the ioctls, and calls by parked threads. The output of the module is checked here: no
// kernel addresses, no more calls than requested, no registers of a program with other rights.
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor.h"
#include "victim.h"

namespace fuzz {
namespace {

constexpr size_t kRegsAt = 0x8000, kAutoCount = 4096, kDataSize = 64 * 4096;

Slot& slot_of(Context& c, uint64_t v) { return c.slots[v % kSlots]; }
long answer(long r) { return r < 0 ? -errno : r; }

// Descriptors that resolve() has opened for one action.
bool is_made(uint64_t v) { return class_of(v) == kMem || class_of(v) == kFile; }
void close_made(uint64_t v, uint64_t fd) {
  if (is_made(v) && int(fd) > 2) close(int(fd));
}

// Ranges of the direct map, vmalloc and page structures of a kernel without address randomisation. Register values that a
// program itself has set are recognizable: they are round addresses.
bool is_kernel_address(uint64_t v) {
  bool inside = (v >= 0xffff888000000000 && v < 0xffff908000000000) || (v >= 0xffffc90000000000 && v < 0xffffca0000000000) ||
                (v >= 0xffffea0000000000 && v < 0xffffeb0000000000);
  return inside && (v & ~0xffffULL) != 0xffff888000000000;
}

void look_for_leaks(const char* what, const void* at, size_t size) {
  for (size_t i = 0; i + 8 <= size; i += 8) {
    uint64_t v;
    memcpy(&v, static_cast<const char*>(at) + i, 8);
    if (is_kernel_address(v)) violation("%s handed out the kernel's address %#llx, at offset %zu", what, (unsigned long long)v, i);
  }
}

// Fills an array for CR_IOC_RESTORE; returns its address.
uint64_t make_up(Context& c, Slot& s, uint64_t which, uint64_t id) {
  uint8_t* at = c.mem.rw + kArrayAt + (which >= kRunsHeap ? kRwSize / 2 : 0);
  auto* ranges = reinterpret_cast<cr_range*>(at);
  auto* runs = reinterpret_cast<cr_page_run*>(at);
  uint64_t n = 0;
  switch (which % kScopes) {
    case kScopeAll: {
      auto* vmas = reinterpret_cast<cr_vma*>(c.mem.rw + kRwSize / 2);
      cr_array a = {uint64_t(vmas), kAutoCount};
      if (ioctl(s.fd, CR_IOC_VMAS, &a)) break;
      for (uint64_t i = 0; i < a.count && i < kAutoCount; i++)
        if (vmas[i].flags & CR_VMA_PAGES) ranges[n++] = {vmas[i].start, vmas[i].end - vmas[i].start};
      break;
    }
    case kScopeHeap: ranges[n++] = {kHeapAt, kHeapSize}; break;
    case kScopeDirty: {
      cr_dirty d = {};
      d.id[0] = uint8_t(id);
      d.ranges = {uint64_t(ranges), kAutoCount};
      if (!ioctl(s.fd, CR_IOC_DIRTY, &d)) n = d.ranges.count;
      break;
    }
    case kScopeBad:  // out of order, overlapping, unaligned, beyond the end
      ranges[n++] = {kHeapAt + 0x3000, 0x4000};
      ranges[n++] = {kHeapAt + 0x1000, 0x4001};
      ranges[n++] = {~0xfffULL, 0x2000};
      ranges[n++] = {kHeapAt, ~0ULL};
      break;
    case kRunsHeap:
      for (; n < 8; n++) runs[n] = {kHeapAt + n * 0x8000, 0x4000, n * 0x1000};
      break;
    case kRunsBad:
      runs[n++] = {kHeapAt + 0x8000, 0x4000, ~0xfffULL};
      runs[n++] = {kHeapAt, 1ULL << 47, 0x7ffffffffffff000};
      runs[n++] = {0, ~0xfffULL, 1};
      break;
  }
  c.made_up = n;
  return uint64_t(at);
}

void look_at_registers(Context& c, const cr_regs& r) {
  if (r.type != NT_PRSTATUS || r.buf != uint64_t(c.mem.rw + kRegsAt) || executor_of(c.lane) == 2) return;
  user_regs_struct u;
  memcpy(&u, c.mem.rw + kRegsAt, sizeof u);
  if (u.r12 == kVictimR12 && u.r13 == kVictimR13 && u.r14 == kVictimR14)
    violation("user %d has read the registers of a set-uid program (thread %d)", int(kUser), r.tid);
}

// Let the kernel copy, as in put(): the area may be unmapped meanwhile.
bool get(const Slot& s, uint64_t offset, void* to, size_t size) {
  auto* data = static_cast<const uint8_t*>(s.data);
  if (!data || offset > kDataSize - size) return false;
  int p[2];
  if (pipe2(p, O_CLOEXEC)) return false;
  bool ok = write(p[1], data + offset, size) == ssize_t(size) && read(p[0], to, size) == ssize_t(size);
  close(p[0]);
  close(p[1]);
  return ok;
}

// Whether no other lane may have changed the table meanwhile.
bool is_alone(const Context& c) {
  const Program& p = world->program;
  for (uint32_t i = 0; i < p.count; i++)
    if (p.action[i].lane != c.lane || ops()[p.action[i].op].run == do_recv) return false;
  return true;
}

void look_at_result(const Context& c, const Slot& s, const cr_run& r) {
  if (r.done > r.ncalls) violation("a batch of %u calls says that %u were made", r.ncalls, r.done);
  cr_call last = {};
  uint64_t at = r.calls - uint64_t(s.data) + (uint64_t{r.ncalls} - 1) * sizeof last;
  if (r.done != r.ncalls || r.gone || !is_alone(c) || !get(s, at, &last, sizeof last) || last.nr == SYS_rt_sigreturn) return;
  if (last.ret != r.ret)
    violation("the batch at %#llx says %#llx, its last call %#llx", (unsigned long long)r.calls, (unsigned long long)r.ret,
              (unsigned long long)last.ret);
}

void after(Context& c, Slot& s, const Op& op, const Action& a, const uint8_t* out, uint64_t in_fd) {
  switch (op.request) {
    case CR_IOC_ATTACH:
      if (class_of(a.arg[2]) == kMem) s.target = int(rest_of(a.arg[2]) % kTargets);
      break;
    case CR_IOC_THAW: s.arena = 0; break;
    case CR_IOC_ARENA: memcpy(&s.arena, out + offsetof(cr_arena, addr), 8); break;
    case CR_IOC_GET_REGS: look_at_registers(c, *reinterpret_cast<const cr_regs*>(out)); break;
    case CR_IOC_RUN: look_at_result(c, s, *reinterpret_cast<const cr_run*>(out)); break;
    case CR_IOC_GET_FILE: {
      int fd = reinterpret_cast<const cr_get_file*>(out)->fd;
      char byte;
      if (fd > 2 && fd != int(in_fd)) (void)!pread(fd, &byte, 1, 0), close(fd);
      break;
    }
  }
}

}  // namespace

FUZZ_ACTION(do_ioctl) {
  const Op& op = ops()[a.op];
  Slot& s = slot_of(c, v[0]);
  size_t size = _IOC_SIZE(op.request);
  uint8_t image[4096] = {};
  uint64_t id = 0, fd = ~0ULL, fd_value = 0;
  bool regs = op.request == CR_IOC_GET_REGS || op.request == CR_IOC_SET_REGS;
  c.made_up = kAutoCount;
  for (size_t i = 2; i < op.params.size(); i++) {
    const Param& p = op.params[i];
    if (!p.size) continue;
    if (p.kind == Kind::kId) id = v[i];
    if (p.kind == Kind::kRuns && !v[i]) c.made_up = 0;
    uint64_t value;
    if (class_of(v[i]) == fuzz::kScope) value = make_up(c, s, rest_of(v[i]), id);
    else if (class_of(v[i]) == kAuto) value = regs && op.request == CR_IOC_SET_REGS ? c.regs_len : c.made_up;
    else if (p.kind == Kind::kBuffer && v[i] == ref(kRw)) value = uint64_t(c.mem.rw) + (regs ? kRegsAt : kArrayAt);
    else value = resolve(c, s, v[i]);
    if (p.kind == Kind::kDescriptor) fd = value, fd_value = v[i];
    // The table of a batch is in this process: at an offset of the arena's data, if that is mapped.
    if (p.kind == Kind::kOffset && s.data && value < kDataSize) value += uint64_t(s.data);
    memcpy(image + p.offset, &value, p.size < 8 ? p.size : 8);
  }
  if (op.request == CR_IOC_SET_REGS && v[6] < 27) {
    uint64_t word = resolve(c, s, v[7]);
    memcpy(c.mem.rw + kRegsAt + v[6] * 8, &word, 8);
  }
  uint64_t at = resolve(c, s, v[1]);
  uint8_t* out = reinterpret_cast<uint8_t*>(at);
  switch (class_of(v[1])) {
    case kRw:
      out = c.mem.rw;
      at = uint64_t(out);
      memcpy(out, image, size);
      break;
    case kUffd: memcpy(c.mem.uffd_source + at % 4096 / 8 * 8 % 2048, image, size < 2048 ? size : 2048); break;
    case kEdge: memcpy(out, image, std::min<size_t>(size, size_t(c.mem.edge - out))); break;
    default: break;
  }
  long r = answer(ioctl(s.fd, op.request, at));
  if (fd != ~0ULL) close_made(fd_value, fd);
  if (at == uint64_t(c.mem.rw)) {
    look_for_leaks(op.name, out, size);
    if (op.request == CR_IOC_GET_REGS && r >= 0) c.regs_len = reinterpret_cast<cr_regs*>(out)->len % 0x8000;
    if (r >= 0) after(c, s, op, a, out, fd);
    if (op.request == CR_IOC_VMAS || op.request == CR_IOC_FDS || op.request == CR_IOC_THREADS)
      look_for_leaks(op.name, c.mem.rw + kArrayAt, 4096);
  }
  return r;
}

FUZZ_ACTION(do_raw_ioctl) {
  (void)a;
  Slot& s = slot_of(c, v[0]);
  return answer(ioctl(s.fd, _IOC(v[2] & 3, CR_IOC_MAGIC, v[3] & 0xff, v[4] & 0x3fff), resolve(c, s, v[1])));
}

FUZZ_ACTION(do_open) {
  (void)a;
  Slot& s = slot_of(c, v[0]);
  int fd = open(CR_DEVICE, O_RDWR | O_CLOEXEC), old = s.fd;
  s.fd = fd;
  s.arena = 0;
  s.data = nullptr;  // the old session's data stays mapped and keeps its file
  if (old >= 0) close(old);
  return answer(fd);
}

FUZZ_ACTION(do_close) {
  (void)a;
  Slot& s = slot_of(c, v[0]);
  int fd = s.fd;
  s.fd = -1;
  return answer(close(fd));
}

FUZZ_ACTION(do_dup) {
  (void)a;
  Slot &s = slot_of(c, v[0]), &to = slot_of(c, v[1]);
  if (&s == &to) return -EINVAL;
  int fd = fcntl(s.fd, F_DUPFD_CLOEXEC, 3);
  if (fd < 0) return -errno;
  if (to.fd >= 0) close(to.fd);
  to.fd = fd;
  to.target = s.target;
  to.arena = s.arena;
  return 0;
}

struct Passed {
  int target, born;
  uint64_t arena;
};

// The message that passes a session from one executor to another, with space for a descriptor.
struct Letter {
  explicit Letter(Passed passed) : what(passed) {
    m.msg_iov = &io;
    m.msg_iovlen = 1;
    m.msg_control = control;
    m.msg_controllen = sizeof control;
  }
  Letter(const Letter&) = delete;
  Letter& operator=(const Letter&) = delete;

  Passed what;
  iovec io = {&what, sizeof what};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr m = {};
};

// Sessions of root are sent only to root: what others do with theirs must be within their rights.
FUZZ_ACTION(do_send) {
  (void)a;
  Slot& s = slot_of(c, v[0]);
  int to = executor_of(c.lane) == 2 ? 2 : int(v[1] % kExecutors);
  Letter letter({s.target, s.born, s.arena});
  cmsghdr* h = CMSG_FIRSTHDR(&letter.m);
  h->cmsg_level = SOL_SOCKET;
  h->cmsg_type = SCM_RIGHTS;
  h->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(h), &s.fd, sizeof(int));
  return answer(sendmsg(inbox[to][0], &letter.m, MSG_DONTWAIT | MSG_NOSIGNAL));
}

FUZZ_ACTION(do_recv) {
  (void)a;
  Slot& s = slot_of(c, v[0]);
  int from = inbox[executor_of(c.lane)][1];
  pollfd p = {from, POLLIN, 0};
  if (poll(&p, 1, 30) <= 0) return -EAGAIN;
  Letter letter({});
  if (recvmsg(from, &letter.m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0) return -errno;
  const Passed& what = letter.what;
  cmsghdr* h = CMSG_FIRSTHDR(&letter.m);
  if (!h || h->cmsg_type != SCM_RIGHTS) return -EBADMSG;
  int old = s.fd;
  memcpy(&s.fd, CMSG_DATA(h), sizeof(int));
  s.data = nullptr;
  s.target = what.target % kTargets;
  s.born = what.born;
  s.arena = what.arena;
  if (old >= 0) close(old);
  return 0;
}

// A child keeps copies of the descriptors for a while; the executor may close its own meanwhile.
FUZZ_ACTION(do_hold) {
  (void)a;
  pid_t child = fork();
  if (!child) {
    sleep_us(unsigned(v[1] % 300) * 1000);
    _exit(0);
  }
  if (child > 0) close(slot_of(c, v[0]).fd), slot_of(c, v[0]).fd = -1;
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  return answer(child);
}

FUZZ_ACTION(do_mmap) {
  (void)a;
  Slot& s = slot_of(c, v[0]);
  void* at = mmap(nullptr, v[2], int(v[3] & 7), MAP_SHARED, s.fd, off_t(v[1]));
  if (at == MAP_FAILED) return -errno;
  if (v[2] < kDataSize || v[1] || (v[3] & 3) != 3) {  // not usable for calls
    if (v[3] & 2) *static_cast<volatile char*>(at) = 1;
    munmap(at, v[2]);
    return 0;
  }
  void* old = __atomic_exchange_n(&s.data, at, __ATOMIC_SEQ_CST);
  if (old) munmap(old, kDataSize);
  return 0;
}

FUZZ_ACTION(do_munmap) {
  (void)a;
  void* old = __atomic_exchange_n(&slot_of(c, v[0]).data, nullptr, __ATOMIC_SEQ_CST);
  return old ? answer(munmap(old, kDataSize)) : -EINVAL;
}

FUZZ_ACTION(do_read) {
  (void)a;
  Slot& s = slot_of(c, v[0]);
  size_t len = class_of(v[1]) == kRw && v[2] > kRwSize / 2 ? kRwSize / 2 : v[2];
  return answer(pread(s.fd, reinterpret_cast<void*>(resolve(c, s, v[1])), len, off_t(resolve(c, s, v[3]))));
}

// Another lane may unmap the data area at any time: let the kernel write, which then only fails.
static bool put(Slot& s, uint64_t offset, const void* what, size_t size) {
  if (!s.data) {  // map it on first use
    void* at = mmap(nullptr, kDataSize, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);
    if (at != MAP_FAILED) __atomic_store_n(&s.data, at, __ATOMIC_SEQ_CST);
  }
  uint8_t* data = static_cast<uint8_t*>(s.data);
  if (!data || offset > kDataSize - size) return false;
  int p[2];
  if (pipe2(p, O_CLOEXEC)) return false;
  bool ok = write(p[1], what, size) == ssize_t(size) && read(p[0], data + offset, size) == ssize_t(size);
  close(p[0]);
  close(p[1]);
  return ok;
}

static bool put_call(Context& c, Slot& s, uint64_t at, uint64_t nr, uint64_t flags, const uint64_t* v) {
  cr_call call = {};
  if (!call_name(nr)) return false;
  call.nr = uint32_t(nr);
  call.flags = uint32_t(flags);
  for (int i = 0; i < 6; i++) call.arg[i] = is_made(v[i]) ? ~0ULL : resolve(c, s, v[i]);
  call.ret = -12345;
  return put(s, at, &call, sizeof call);
}

FUZZ_ACTION(do_call) {
  (void)a;
  Slot& s = slot_of(c, v[0]);
  return put_call(c, s, v[1] % kDataSize, v[3], v[2], v + 4) ? 0 : -EINVAL;
}

FUZZ_ACTION(do_run1) {
  (void)a;
  Slot& s = slot_of(c, v[0]);
  cr_arena arena = {};
  if (!s.arena && !ioctl(s.fd, CR_IOC_ARENA, &arena)) s.arena = arena.addr;
  if (!put_call(c, s, 0, v[4], 0, v + 5)) return -EINVAL;
  cr_run r = {};
  r.tid = int(resolve(c, s, v[1]));
  r.ncalls = 1;
  r.calls = uint64_t(s.data);
  r.flags = uint32_t(v[2]);
  r.timeout_ms = uint32_t(v[3]);
  if (ioctl(s.fd, CR_IOC_RUN, &r)) return -errno;
  look_for_leaks("run", &r, sizeof r);
  look_at_result(c, s, r);
  cr_call made;  // the thread may have ended by now
  if (v[4] == SYS_geteuid && executor_of(c.lane) != 2 && is_alone(c) && get(s, 0, &made, sizeof made) && made.nr == SYS_geteuid && !made.ret)
    violation("thread %d has made a call for user %d with the rights of root", r.tid, int(kUser));
  if ((v[4] == SYS_clone || v[4] == SYS_clone3) && r.ret > 0) s.born = int(r.ret);
  return r.gone ? kThreadGone : r.ret < 0 ? kCallFailed : r.ret;
}

FUZZ_ACTION(do_poke) {
  (void)a;
  Slot& s = slot_of(c, v[0]);
  uint64_t value = resolve(c, s, v[2]);
  return put(s, v[1] % kDataSize, &value, 8) ? 0 : -EINVAL;
}

}  // namespace fuzz
