// SPDX-License-Identifier: GPL-2.0-only
// The calls that the target's threads are made to execute: checks of what each may do, and its effect on the fake's
// state.
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "fake_kernel.h"
#include "image/format.h"
#include "process/clone_args.h"

namespace reprise::fuzz {
namespace {

constexpr std::uint64_t kPage = image::kPage, kEnd = image::kTaskSize;
constexpr std::size_t kMostCalls = 300'000;
constexpr long kMseal = 462;

bool page_aligned(std::uint64_t value) { return value % kPage == 0; }

}  // namespace

const char* FakeKernel::argument(std::uint64_t at, std::size_t size) const {
  const std::uint64_t begin = arena_addr_ + 2 * kPage;
  need(at >= begin && at - begin <= arena_.size() && size <= arena_.size() - (at - begin), "an argument lies outside of the arena");
  return arena_.data() + (at - begin);
}

int FakeKernel::run(cr_run& request) {
  need(arena_addr_, "calls are made without an arena");
  need(has_thread(request.tid), "calls are made by a thread that is not there");
  need(request.calls && request.ncalls && request.ncalls <= CR_MAX_CALLS, "more calls are made at once than may be");
  auto* const table = reinterpret_cast<cr_call*>(static_cast<std::uintptr_t>(request.calls));
  for (std::uint32_t i = 0; i < request.ncalls; ++i) {
    cr_call call;
    std::memcpy(&call, &table[i], sizeof call);
    need(++calls_ < kMostCalls, "calls are made without end");
    const int error = call.nr == SYS_close ? 0 : fault(false);  // close(2) gives the number up whatever it returns
    call.ret = error ? -error : run_one(request.tid, call);
    std::memcpy(&table[i], &call, sizeof call);
    request.done = i + 1;
    request.ret = call.ret;
    if (call.nr == SYS_exit && !error) {
      need(request.tid != pid_, "the first thread is ended");
      std::erase_if(threads_, [&](const cr_thread& one) { return one.tid == request.tid; });
      request.gone = 1;
      return 0;
    }
    if (call.ret < 0 && (call.flags & CR_CALL_STOP)) break;
  }
  return 0;
}

void FakeKernel::check_range(std::uint64_t start, std::uint64_t size) const {
  need(page_aligned(start) && page_aligned(size) && size > 0, "a mapping is changed that is of no pages");
  need(start < kEnd && size <= kEnd - start, "a mapping is changed outside of the address space");
  need(start + size <= arena_addr_ || start >= arena_addr_ + 34 * kPage, "the arena is changed");
}

std::int64_t FakeKernel::run_mapping(const cr_call& call) {
  const std::uint64_t start = call.arg[0], size = call.arg[1], end = start + size;
  check_range(start, size);
  const auto mapped = [&] { return !is_free(start, end); };
  switch (call.nr) {
    case SYS_munmap:
      need(mapped(), "nothing is unmapped");
      remove(start, end);
      return 0;
    case SYS_mmap: {
      const std::uint64_t flags = call.arg[3];
      need(call.arg[2] <= (PROT_READ | PROT_WRITE | PROT_EXEC), "a mapping is made with unknown rights");
      need((flags & MAP_FIXED_NOREPLACE) && !(flags & MAP_FIXED), "a mapping may be made over another");
      constexpr std::uint64_t droppable = 0x08, type = 0x0f;  // MAP_DROPPABLE, MAP_TYPE
      constexpr std::uint64_t known = MAP_FIXED_NOREPLACE | type | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_NORESERVE;
      need(!(flags & ~known), "a mapping is made in an unknown way");
      need((flags & type) == MAP_SHARED || (flags & type) == MAP_PRIVATE || (flags & type) == droppable,
           "a mapping is made of an unknown type");
      need((flags & type) != droppable || ((flags & MAP_ANONYMOUS) && !(flags & MAP_GROWSDOWN)),
           "a mapping cannot be droppable");
      if (!(flags & MAP_ANONYMOUS)) {
        need(put_.count(static_cast<int>(call.arg[4])), "a mapping is made of a file that was not given");
        need(page_aligned(call.arg[5]) && call.arg[5] <= static_cast<std::uint64_t>(INT64_MAX) - size, "a mapping begins at no offset");
      }
      if (!is_free(start, end)) return -EEXIST;
      const bool room = !in_image(start, end);
      need(!room || ((flags & MAP_SHARED) && (flags & MAP_ANONYMOUS)), "a mapping is made that the image does not have");
      add(start, end, (flags & MAP_SHARED ? CR_VMA_SHARED | CR_VMA_FILE : 0) | CR_VMA_READ);
      return static_cast<std::int64_t>(start);
    }
    case SYS_mprotect:
    case SYS_pkey_mprotect:
      need(mapped() && in_image(start, end), "rights are changed of what the image does not have");
      need(call.arg[2] <= (PROT_READ | PROT_WRITE | PROT_EXEC), "unknown rights are given");
      need(call.nr == SYS_mprotect || call.arg[3] < 16, "a protection key is none");
      return 0;
    case SYS_mremap: {
      const std::uint64_t to = call.arg[4];
      need(call.arg[2] == size && call.arg[3] == (MREMAP_MAYMOVE | MREMAP_FIXED), "a mapping is changed rather than moved");
      check_range(to, size);
      need(mapped(), "nothing is moved");
      need(is_free(to, to + size), "a mapping is moved over another");
      remove(start, end);
      add(to, to + size, CR_VMA_SPECIAL);
      return static_cast<std::int64_t>(to);
    }
    default:  // madvise, mlock, mlock2, munlock, mseal
      need(in_image(start, end), "advice is given of what the image does not have");
      return 0;
  }
}

std::int64_t FakeKernel::run_open(const cr_call& call) {
  const char* const path = argument(call.arg[1], 1);
  const std::size_t room = arena_.size() - static_cast<std::size_t>(path - arena_.data());
  need(std::memchr(path, 0, room), "a path does not end");
  const auto flags = static_cast<int>(call.arg[2]);
  need(!case_.restart(), "the process of a restart opens files itself");
  need(static_cast<int>(call.arg[0]) == AT_FDCWD && path[0] == '/', "a path depends on the working directory");
  need((flags & O_CLOEXEC) && !(flags & (O_CREAT | O_TRUNC)), "the target's open changes something");
  if (path == std::string_view("/proc/self/oom_score_adj")) {
    need(committed_, "the OOM score is set before the commit");
    return *opened_.insert(add_descriptor().fd).first;
  }
  const File* const file = file_at(path);
  if (!file) return -ENOENT;
  File shown = *file;
  if (case_.other_files()) shown.set_ino(shown.ino() + 1), shown.set_size(shown.size() + 1);
  cr_fd& fd = add_descriptor();
  fd.mode = shown.mode();
  fd.ino = shown.ino();
  inodes_.try_emplace(shown.ino(), shown);
  opened_.insert(fd.fd);
  return fd.fd;
}

std::int64_t FakeKernel::run_descriptor(const cr_call& call) {
  const int number = static_cast<int>(call.arg[0]);
  const auto at = std::find_if(fds_.begin(), fds_.end(), [&](const cr_fd& fd) { return fd.fd == number; });
  const auto of_image = [&](std::uint64_t any) {
    return std::any_of(state_.descriptors().begin(), state_.descriptors().end(),
                       [&](const Descriptor& one) { return static_cast<std::uint64_t>(one.fd()) == any; });
  };
  switch (call.nr) {
    case SYS_close:
      if (at == fds_.end()) return -EBADF;
      put_.erase(number);
      fds_.erase(at);
      return 0;
    case SYS_dup3: {
      if (at == fds_.end()) return -EBADF;
      need(of_image(call.arg[1]), "a descriptor is put where the image has none");
      need(call.arg[2] == 0 || call.arg[2] == O_CLOEXEC, "a descriptor is put with unknown flags");
      if (call.arg[1] == call.arg[0]) return -EINVAL;
      cr_fd copy = *at;
      copy.fd = static_cast<int>(call.arg[1]);
      std::erase_if(fds_, [&](const cr_fd& fd) { return fd.fd == copy.fd; });
      fds_.push_back(copy);
      std::sort(fds_.begin(), fds_.end(), [](const cr_fd& a, const cr_fd& b) { return a.fd < b.fd; });
      return copy.fd;
    }
    case SYS_lseek:
      need(of_image(call.arg[0]) && call.arg[2] == SEEK_SET, "a position is set of what the image does not have");
      return 0;
    case SYS_fcntl: {
      need(of_image(call.arg[0]), "a descriptor is changed that the image does not have");
      const std::uint64_t command = call.arg[1];
      if (command == F_SETOWN_EX) argument(call.arg[2], 8);
      need(command == F_SETOWN || command == F_SETOWN_EX || command == F_SETSIG || command == F_SETFL || command == F_SETFD || command == F_SETLK,
           "a descriptor is changed in an unknown way");
      if (command == F_SETSIG) need(call.arg[2] <= 64, "a descriptor's signal is none");
      if (command == F_SETFL)
        need(!(call.arg[2] & ~std::uint64_t{O_APPEND | O_NONBLOCK | O_ASYNC | O_DIRECT | O_NOATIME}), "unknown flags are set");
      if (command == F_SETLK) argument(call.arg[2], 32);
      return 0;
    }
    case SYS_epoll_ctl:
      need(of_image(call.arg[0]), "an epoll is changed that the image does not have");
      if (call.arg[3]) argument(call.arg[3], 12);
      return 0;
    default:  // fchdir
      need(put_.count(number), "the working directory becomes what was not given");
      return 0;
  }
}

std::int64_t FakeKernel::run_credentials(pid_t, const cr_call& call) {
  const bool user = call.nr == SYS_setresuid || call.nr == SYS_setfsuid;
  const auto named = [&](std::uint32_t id) {
    const auto in = [id](const auto& ids) { return ids.size() == 4 && std::find(ids.begin(), ids.end(), id) != ids.end(); };
    return in(user ? state_.env().uids() : state_.env().gids()) ||
           std::any_of(state_.threads().begin(), state_.threads().end(), [&](const Thread& one) {
             return in(user ? one.credentials().uids() : one.credentials().gids());
           });
  };
  const auto may = [&](int capability) { return case_.capabilities() >> capability & 1; };
  if (call.nr == SYS_setgroups) {
    need(may(6), "groups are taken without the right to");
    need(call.arg[0] <= 65536, "there are too many groups");
    if (call.arg[0]) argument(call.arg[1], call.arg[0] * 4);
    return 0;
  }
  const int count = call.nr == SYS_setresuid || call.nr == SYS_setresgid ? 3 : 1;
  if (count == 1 && static_cast<std::uint32_t>(call.arg[0]) == ~0U) return fs_id_[user];
  for (int i = 0; i < count; ++i) {
    const auto id = static_cast<std::uint32_t>(call.arg[i]);
    if (id == ~0U && count == 3) continue;
    need(id == 1000 || named(id), "an id is taken that the image does not name");
    need(id == 1000 || may(user ? 7 : 6), "an id is taken without the right to");
    if (count == 1) fs_id_[user] = id;
  }
  return 0;
}

std::int64_t FakeKernel::run_prctl(pid_t tid, const cr_call& call) {
  const std::uint64_t value = call.arg[1];
  const auto of_threads = [&](auto get) {
    return std::any_of(state_.threads().begin(), state_.threads().end(), [&](const Thread& one) { return get(one) == value; });
  };
  switch (call.arg[0]) {
    case PR_SET_NAME: argument(value, 1); return 0;
    case PR_SET_TIMERSLACK: need(of_threads([](const Thread& one) { return one.timer_slack_ns(); }), "a slack is made up"); return 0;
    case PR_SET_PDEATHSIG: need(value <= 64, "a signal is none"); return 0;
    case PR_SET_MM: {
      need(call.arg[1] == PR_SET_MM_MAP, "memory's layout is set in pieces");
      const char* map = argument(call.arg[2], call.arg[3]);
      need(call.arg[3] == 104 || call.arg[3] <= 128, "memory's layout is of another kind");
      std::uint64_t fields[11];
      std::memcpy(fields, map, sizeof fields);
      for (std::uint64_t field : fields) need(field <= kEnd, "memory's layout is outside of the address space");
      return 0;
    }
    case PR_SET_DUMPABLE: need(value <= 1, "dumpable is what only the kernel may say"); return 0;
    case 67:  // PR_SET_MEMORY_MERGE
      need(value <= 1, "a switch is none");
      return 0;
    case PR_SET_THP_DISABLE: need(value <= 1, "a switch is none"); return 0;
    case PR_SET_CHILD_SUBREAPER: need(value <= 1, "a switch is none"); return 0;
    case PR_CAPBSET_DROP: need(value < 64, "a capability is none"); return 0;
    case PR_SET_KEEPCAPS: need(value <= 1, "a switch is none"); return 0;
    case PR_SET_SECUREBITS:
      need(value == state_.env().securebits() || of_threads([](const Thread& one) { return one.credentials().securebits(); }),
           "securebits are made up");
      return may_set_pcap() ? 0 : -EPERM;
    case PR_CAP_AMBIENT:
      need(value == PR_CAP_AMBIENT_CLEAR_ALL ||
               (value == PR_CAP_AMBIENT_RAISE &&
                ((state_.env().cap_ambient() >> call.arg[2] & 1) ||
                 std::any_of(state_.threads().begin(), state_.threads().end(),
                             [&](const Thread& one) { return one.credentials().cap_ambient() >> call.arg[2] & 1; }))),
           "an ambient capability is made up");
      return 0;
    case PR_SET_NO_NEW_PRIVS: need(value == 1, "no_new_privs is taken back"); return 0;
    case PR_SET_TSC: case PR_SET_IO_FLUSHER: case PR_MCE_KILL: need(value <= 2, "a switch is none"); return 0;
    case 65: need(value == state_.env().mdwe(), "a protection is made up"); return 0;  // PR_SET_MDWE
    case 77:  // PR_TIMER_CREATE_RESTORE_IDS
      if (!timers_by_wish_ && value == 1 && state_.pid() % 2) return -EINVAL;
      timers_by_wish_ = value == 1;
      return 0;
    default: harm("prctl " + std::to_string(call.arg[0]) + " of thread " + std::to_string(tid));
  }
}

std::int64_t FakeKernel::run_clone(const cr_call& call) {
  CloneArgs args{};
  need(call.arg[1] == sizeof args, "a thread is made in an unknown way");
  std::memcpy(&args, argument(call.arg[0], sizeof args), sizeof args);
  need((args.flags & CLONE_THREAD) && !(args.flags & ~std::uint64_t{CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM}),
       "a process is made rather than a thread");
  cr_thread thread{};
  thread.flags = CR_THREAD_BORN;
  if (args.set_tid_size) {
    need(args.set_tid_size == 1, "a thread gets several ids");
    std::int32_t tid;
    std::memcpy(&tid, argument(args.set_tid, sizeof tid), sizeof tid);
    need(tid > 0, "a thread's id is none");
    need(std::any_of(state_.threads().begin(), state_.threads().end(), [&](const Thread& one) { return one.tid() == tid; }),
         "a thread is made that the image does not have");
    thread.tid = tid;
  } else {
    thread.tid = pid_ + 100'000 + static_cast<int>(calls_);
  }
  if (has_thread(thread.tid)) return -EEXIST;
  threads_.push_back(thread);
  return thread.tid;
}

std::int64_t FakeKernel::run_timer(const cr_call& call) {
  switch (call.nr) {
    case SYS_timer_create: {
      argument(call.arg[1], 64);
      std::int32_t id;
      char* at = const_cast<char*>(argument(call.arg[2], sizeof id));
      std::memcpy(&id, at, sizeof id);
      if (!timers_by_wish_ || id < 0) id = next_timer_;
      if (!timers_.insert(id).second) return -EBUSY;
      next_timer_ = std::max(next_timer_, id + (id < INT32_MAX));
      need(timers_.size() <= static_cast<std::size_t>(state_.timers().posix_size()) + 1, "timers are made up");
      std::memcpy(at, &id, sizeof id);
      return 0;
    }
    case SYS_timer_delete: return timers_.erase(static_cast<std::int32_t>(call.arg[0])) ? 0 : -EINVAL;
    case SYS_timer_settime:
      argument(call.arg[2], 32);
      return timers_.count(static_cast<std::int32_t>(call.arg[0])) ? 0 : -EINVAL;
    default:  // setitimer
      need(call.arg[0] < 3, "an interval timer is none");
      argument(call.arg[1], 32);
      return 0;
  }
}

std::int64_t FakeKernel::run_one(pid_t tid, const cr_call& call) {
  switch (call.nr) {  // allowed before the commit, as they can be undone or concern the blank child
    case SYS_clone3: return run_clone(call);
    case SYS_exit: case SYS_set_robust_list: case SYS_set_tid_address: case SYS_rseq:
      if (call.nr == SYS_rseq) need(call.arg[1] <= kPage, "an rseq area is too large");
      return 0;
    case SYS_timer_create: case SYS_timer_delete: return run_timer(call);
    case SYS_openat: return run_open(call);
    case SYS_close:
      if (opened_.erase(static_cast<int>(call.arg[0])) == 0) break;
      std::erase_if(fds_, [&](const cr_fd& fd) { return static_cast<std::uint64_t>(fd.fd) == call.arg[0]; });
      return 0;
    case SYS_close_range:
      need(case_.restart() && !committed_ && call.arg[0] == 3, "descriptors are closed of a process that is not blank");
      std::erase_if(fds_, [](const cr_fd& fd) { return fd.fd >= 3; });
      return 0;
    case SYS_membarrier:
      if (committed_) break;
      [[fallthrough]];
    case SYS_setsid: case SYS_setpgid:
      need(case_.restart() && !committed_, "a process that is not blank gets a session");
      return 0;
    default: break;
  }
  need(committed_, ("call " + std::to_string(call.nr) + " is made before the commit").c_str());
  switch (call.nr) {
    case SYS_munmap: case SYS_mmap: case SYS_mprotect: case SYS_pkey_mprotect: case SYS_mremap: case SYS_madvise:
    case SYS_mlock: case SYS_mlock2: case SYS_munlock: case kMseal:
      return run_mapping(call);
    case SYS_close: case SYS_dup3: case SYS_lseek: case SYS_fcntl: case SYS_epoll_ctl: case SYS_fchdir:
      return run_descriptor(call);
    case SYS_setresuid: case SYS_setresgid: case SYS_setfsuid: case SYS_setfsgid: case SYS_setgroups:
      return run_credentials(tid, call);
    case SYS_socketpair: {
      need(call.arg[0] == AF_UNIX && call.arg[2] == 0, "sockets are made that are no Unix sockets");
      cr_put_file ends[2] = {{-1, 0, 0, 0}, {-1, 0, 0, 0}};
      for (cr_put_file& end : ends) {
        put_file(end);
        for (cr_fd& fd : fds_)
          if (fd.fd == end.target_fd) fd.mode = S_IFSOCK;
      }
      const std::int32_t numbers[] = {ends[0].target_fd, ends[1].target_fd};
      // The requester's memory: for the target it is read-only.
      std::memcpy(const_cast<char*>(argument(call.arg[3], sizeof numbers)), numbers, sizeof numbers);
      return 0;
    }
    case SYS_sendto:
      need(call.arg[2] > 0 || call.arg[4] == 0, "a message goes to somebody");
      if (call.arg[2]) argument(call.arg[1], call.arg[2]);
      return static_cast<std::int64_t>(call.arg[2]);
    case SYS_munlockall: return 0;
    case SYS_prlimit64:
      need(call.arg[0] == 0 && call.arg[1] < RLIM_NLIMITS && call.arg[3] == 0, "a limit is none of its own");
      argument(call.arg[2], sizeof(rlimit));
      return 0;
    case SYS_sched_setattr:
      need(call.arg[0] == 0, "another thread is scheduled");
      argument(call.arg[1], 48);
      return 0;
    case SYS_sched_setaffinity:
      need(call.arg[0] == 0, "another thread is bound to CPUs");
      argument(call.arg[2], call.arg[1]);
      return 0;
    case SYS_write:
      need(opened_.count(static_cast<int>(call.arg[0])), "a file is written that was not opened for it");
      argument(call.arg[1], call.arg[2]);
      return static_cast<std::int64_t>(call.arg[2]);
    case SYS_mlockall: need((call.arg[0] & ~4ULL) == 2, "memory is locked that is there already"); return 0;
    case SYS_mbind:
      check_range(call.arg[0], call.arg[1]);
      need(in_image(call.arg[0], call.arg[0] + call.arg[1]), "a policy is given to what the image does not have");
      if (call.arg[4]) argument(call.arg[3], (call.arg[4] - 1) / 8);
      return 0;
    case SYS_membarrier:
      need(call.arg[0] && !(call.arg[0] & (call.arg[0] - 1)) && (call.arg[0] & state_.membarrier()), "a registration is made up");
      return 0;
    case SYS_prctl: return run_prctl(tid, call);
    case SYS_timer_settime: case SYS_setitimer: return run_timer(call);
    case SYS_capset: {
      std::uint32_t data[6];
      std::memcpy(data, argument(call.arg[1], sizeof data), sizeof data);
      const std::uint64_t permitted = data[1] | std::uint64_t{data[4]} << 32, effective = data[0] | std::uint64_t{data[3]} << 32;
      argument(call.arg[0], 8);
      need(!(permitted & ~case_.capabilities()), "capabilities are gained");
      permitted_[tid] = permitted;  // on the way all that it has may be in force
      return effective & ~permitted ? -EPERM : 0;
    }
    case SYS_pkey_alloc: return next_pkey_ < 16 ? next_pkey_++ : -ENOSPC;
    case SYS_pkey_free: return 0;
    case SYS_personality: need(call.arg[0] == state_.personality(), "a personality is made up"); return 0;
    case SYS_modify_ldt:
      need(call.arg[0] == 0x11 && call.arg[2] == 16, "the local descriptor table is changed in an unknown way");
      argument(call.arg[1], 16);
      return 0;
    case SYS_getpid: return pid_;
    case SYS_gettid: return tid;
    case SYS_kill:
      need(call.arg[0] == static_cast<std::uint64_t>(pid_), "another process is signalled");
      need(call.arg[1] == (state_.stopped() ? SIGSTOP : SIGCONT), "a signal is sent that the image does not ask for");
      return 0;
    case SYS_umask: need(call.arg[0] == state_.env().umask() && call.arg[0] <= 0777, "a umask is made up"); return 0;
    case SYS_sigaltstack: argument(call.arg[0], 24); return 0;
    case SYS_rt_sigaction:
      need(call.arg[0] >= 1 && call.arg[0] <= 64 && call.arg[0] != SIGKILL && call.arg[0] != SIGSTOP, "a disposition is of no signal");
      argument(call.arg[1], 32);
      return 0;
    case SYS_rt_sigtimedwait: argument(call.arg[0], 8); argument(call.arg[2], 16); return -EAGAIN;
    case SYS_rt_sigqueueinfo: case SYS_rt_tgsigqueueinfo: {
      const bool thread = call.nr == SYS_rt_tgsigqueueinfo;
      const std::uint64_t signal = call.arg[thread ? 2 : 1];
      need(call.arg[0] == static_cast<std::uint64_t>(pid_), "another process is signalled");
      need(!thread || has_thread(static_cast<pid_t>(call.arg[1])), "a thread of another process is signalled");
      need(signal >= 1 && signal <= 64 && signal != SIGKILL && signal != SIGSTOP, "a signal is sent that ends or stops it");
      argument(call.arg[thread ? 3 : 2], 128);
      return 0;
    }
    case SYS_poll: case SYS_nanosleep: case SYS_clock_nanosleep: case SYS_futex: return -516;
    default: harm("call " + std::to_string(call.nr) + " is none that a rollback makes");
  }
}

}  // namespace reprise::fuzz
