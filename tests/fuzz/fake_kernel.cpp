// SPDX-License-Identifier: GPL-2.0-only
// The fake's state, and its answers to the module's requests. fake_calls.cpp has the calls of the target's threads.
#include "fake_kernel.h"

#include <elf.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <netinet/in.h>
#include <linux/netlink.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#include "fake_real.h"
#include "image/format.h"

namespace reprise::fuzz {
namespace {

FakeKernel* current = nullptr;

constexpr std::uint64_t kPage = image::kPage, kEnd = image::kTaskSize;
constexpr std::uint64_t kArenaSize = 34 * kPage, kArenaData = 32 * kPage;

template <class T>
int fill(cr_array& out, const std::vector<T>& items) {
  const std::uint64_t room = out.count;
  out.count = items.size();
  if (room < items.size()) return -ENOBUFS;
  if (!items.empty()) std::memcpy(reinterpret_cast<void*>(out.buf), items.data(), items.size() * sizeof(T));
  return 0;
}

int text_file(const std::string& text) {
  const int fd = real_memfd("text");
  if (__real_pwrite(fd, text.data(), text.size(), 0) < 0) return -EIO;
  return fd;
}

}  // namespace

FakeKernel* FakeKernel::now() { return current; }

FakeKernel::FakeKernel(const RollbackCase& what, const Process& state, UniqueFd image)
    : case_(what), state_(state), image_(std::move(image)), pid_(::getpid()), arena_(kArenaData) {
  rights_.effective = case_.capabilities();
  make_target();
  current = this;
}

FakeKernel::~FakeKernel() { current = nullptr; }

void FakeKernel::harm(const std::string& what) const {
  std::fprintf(stderr, "harm: %s\n", what.c_str());
  std::abort();
}

// ------------------------------------------------------------------------------------------- the target

void FakeKernel::make_target() {
  const auto what = [](const auto& list, int i) { return i < list.size() ? list.Get(i) : 0; };
  make_mappings();
  for (int i = 0; i < state_.threads_size() && !case_.restart(); ++i) {
    const Thread& from = state_.threads(i);
    const std::uint32_t how = what(case_.threads(), i);
    if (i > 0 && how % 4 == 1) continue;  // it has ended
    cr_thread thread{};
    thread.tid = i ? from.tid() : pid_;
    thread.flags = i ? CR_THREAD_CREDS : CR_THREAD_LEADER | CR_THREAD_CREDS;
    thread.sigmask = from.blocked();
    thread.pending = how & 4 ? 1 : 0;
    thread.rseq_addr = how & 8 ? 0x7000 : from.rseq_addr();
    thread.rseq_len = from.rseq_len();
    thread.rseq_sig = from.rseq_sig();
    thread.robust_list = from.robust_list();
    thread.clear_child_tid = how & 16 ? 0 : from.clear_child_tid();
    thread.restart_left_ns = ~0ULL;
    threads_.push_back(thread);
  }
  for (std::uint32_t extra : case_.extra_threads())
    if (threads_.size() < 64) {
      cr_thread thread{};
      thread.tid = pid_ + 1 + static_cast<int>(extra % 1000);
      thread.rseq_addr = extra & 1 ? 0x8000 : 0;
      if (std::none_of(threads_.begin(), threads_.end(), [&](const cr_thread& one) { return one.tid == thread.tid; }) && !case_.restart())
        threads_.push_back(thread);
    }
  if (threads_.empty()) {
    cr_thread leader{};
    leader.tid = pid_;
    leader.flags = CR_THREAD_LEADER | CR_THREAD_CREDS;
    threads_.push_back(leader);
  }
  std::map<std::uint32_t, int> first;
  for (int i = 0; i < state_.descriptors_size() && !case_.restart(); ++i) {
    const std::uint32_t how = what(case_.descriptors(), i);
    if (how % 4 == 1) continue;  // closed since the checkpoint
    const Descriptor& from = state_.descriptors(i);
    const Description& is = state_.descriptions(static_cast<int>(from.description()));
    if (from.fd() > 100'000) continue;
    cr_fd fd{};
    fd.fd = from.fd();
    fd.flags = (from.cloexec() != (how % 4 == 2)) ? CR_FD_CLOEXEC : 0;
    fd.same_as = first.try_emplace(from.description(), from.fd()).first->second;
    fd.f_flags = is.flags();
    fd.pos = how & 4 ? 7 : static_cast<std::uint64_t>(is.offset());
    fd.ino = is.file().ino();
    fd.mode = is.file().mode();
    fd.serial = how & 8 ? 1'000'000 + from.description() : is.serial();
    fd.refs = fd.refs_here = 1;
    inodes_[fd.ino] = is.file();
    fds_.push_back(fd);
  }
  for (std::uint32_t extra : case_.extra_descriptors()) {
    const int number = static_cast<int>(extra % 512);
    if (std::any_of(fds_.begin(), fds_.end(), [&](const cr_fd& fd) { return fd.fd == number; })) continue;
    cr_fd fd{};
    fd.fd = fd.same_as = number;
    fd.mode = extra & 512 ? S_IFSOCK | 0777 : S_IFREG | 0600;
    fd.serial = 2'000'000 + extra;
    fd.ino = 3'000'000 + extra;
    fds_.push_back(fd);
  }
  std::sort(fds_.begin(), fds_.end(), [](const cr_fd& a, const cr_fd& b) { return a.fd < b.fd; });
  for (const Mapping& mapping : state_.mappings())
    if (mapping.has_file()) inodes_[mapping.file().ino()] = mapping.file();
}

void FakeKernel::make_mappings() {
  for (int i = 0; i < state_.mappings_size(); ++i) {
    const Mapping& from = state_.mappings(i);
    const std::uint32_t how = i < case_.mappings_size() ? case_.mappings(i) : 0;
    const bool special = from.flags() & CR_VMA_SPECIAL;
    if (case_.restart() && !special) continue;
    if (how % 8 == 1 && !special) continue;  // unmapped since the checkpoint
    cr_vma vma{};
    vma.start = from.start();
    vma.end = from.end();
    vma.flags = from.flags();
    vma.offset = from.has_file() ? from.offset() : from.start();
    vma.ino = from.file().ino();
    vma.dev_major = gnu_dev_major(from.file().dev());
    vma.dev_minor = gnu_dev_minor(from.file().dev());
    vma.pkey = from.pkey();
    if (special && (how & 64) && vma.start > (1 << 20)) vma.start -= 1 << 20, vma.end -= 1 << 20;
    const std::uint64_t pages = (vma.end - vma.start) / kPage;
    if (how % 8 == 2) vma.flags ^= CR_VMA_WRITE;
    if (how % 8 == 3) vma.flags ^= CR_VMA_SEALED;
    if (how % 8 == 4 && pages > 1 && !special) vma.end -= kPage;
    if (how % 8 == 5 && !special) vma.ino += 1;
    if (how % 8 == 6 && pages > 2 && !special) {
      cr_vma part = vma;
      part.end = part.start + kPage;
      vmas_.push_back(part);
      vma.start += 2 * kPage;
      vma.offset += 2 * kPage;
    }
    if (how % 8 == 7) vma.flags ^= CR_VMA_LOCKED | CR_VMA_DONTDUMP;
    if (is_free(vma.start, vma.end)) vmas_.push_back(vma);
  }
  for (const Extra& extra : case_.extra()) {
    cr_vma vma{};
    vma.start = extra.start() / kPage * kPage % kEnd;
    vma.end = std::min<std::uint64_t>(kEnd, vma.start + kPage * (1 + extra.pages() % 256));
    vma.flags = (extra.flags() & ((CR_VMA_ARENA << 1) - 1)) & ~std::uint64_t{CR_VMA_ARENA | CR_VMA_SPECIAL};
    vma.offset = vma.start;
    if (vma.start < vma.end && is_free(vma.start, vma.end)) vmas_.push_back(vma);
    std::sort(vmas_.begin(), vmas_.end(), [](const cr_vma& a, const cr_vma& b) { return a.start < b.start; });
  }
  std::sort(vmas_.begin(), vmas_.end(), [](const cr_vma& a, const cr_vma& b) { return a.start < b.start; });
}

bool FakeKernel::is_free(std::uint64_t start, std::uint64_t end) const {
  if (arena_addr_ && start < arena_addr_ + kArenaSize && arena_addr_ < end) return false;
  return std::none_of(vmas_.begin(), vmas_.end(), [&](const cr_vma& vma) { return vma.start < end && start < vma.end; });
}

bool FakeKernel::in_image(std::uint64_t start, std::uint64_t end) const {
  for (const Mapping& mapping : state_.mappings()) {
    if (mapping.end() <= start) continue;
    if (mapping.start() > start) return false;
    start = mapping.end();
    if (start >= end) return true;
  }
  return start >= end;
}

void FakeKernel::remove(std::uint64_t start, std::uint64_t end) {
  std::vector<cr_vma> left;
  for (cr_vma vma : vmas_) {
    if (vma.end <= start || vma.start >= end) {
      left.push_back(vma);
      continue;
    }
    cr_vma before = vma, after = vma;
    before.end = start;
    after.start = end;
    if (before.start < before.end) left.push_back(before);
    if (after.start < after.end) left.push_back(after);
  }
  vmas_ = std::move(left);
}

void FakeKernel::add(std::uint64_t start, std::uint64_t end, std::uint64_t flags) {
  cr_vma vma{};
  vma.start = start;
  vma.end = end;
  vma.flags = flags;
  vmas_.push_back(vma);
  std::sort(vmas_.begin(), vmas_.end(), [](const cr_vma& a, const cr_vma& b) { return a.start < b.start; });
}

void FakeKernel::check_own_rights() const {
  need(rights_ == Rights{case_.capabilities()}, "rights were taken on, or given up, for good");
}

void FakeKernel::check_complete() const {
  check_own_rights();
  const auto joined = [](auto begin, auto end, auto start_of, auto end_of) {
    std::vector<Range> out;
    for (auto at = begin; at != end; ++at) {
      if (!out.empty() && out.back().end == start_of(*at))
        out.back().end = end_of(*at);
      else
        out.push_back({start_of(*at), end_of(*at)});
    }
    return out;
  };
  const auto is = joined(vmas_.begin(), vmas_.end(), [](const cr_vma& one) { return one.start; }, [](const cr_vma& one) { return one.end; });
  const auto be = joined(state_.mappings().begin(), state_.mappings().end(), [](const Mapping& one) { return one.start(); },
                         [](const Mapping& one) { return one.end(); });
  need(std::equal(is.begin(), is.end(), be.begin(), be.end(),
                  [](const Range& a, const Range& b) { return a.start == b.start && a.end == b.end; }),
       "its mappings are not those of the image");
  need(static_cast<int>(threads_.size()) == state_.threads_size(), "its threads are not those of the image");
  std::set<int> numbers;
  for (const Descriptor& one : state_.descriptors()) numbers.insert(one.fd());
  for (const cr_fd& fd : fds_) need(numbers.erase(fd.fd) == 1, "it has a descriptor that the image does not name");
  need(numbers.empty(), "a descriptor of the image is missing");
  for (const Thread& one : state_.threads())
    if (const auto found = permitted_.find(one.tid()); found != permitted_.end())
      need(!(found->second & ~(one.has_credentials() ? one.credentials().cap_permitted() : state_.env().cap_permitted())),
           "a thread keeps capabilities that the image does not name");
  need(!killed_ && thawed_, "it does not run");
}

void FakeKernel::check_refused() const {
  check_own_rights();
  if (committed_) {
    need(killed_ || devices_.empty(), "a process that is half one thing and half another runs on");
    return;
  }
  need(std::none_of(threads_.begin(), threads_.end(), [](const cr_thread& one) { return one.flags & CR_THREAD_BORN; }),
       "a refusal leaves threads behind that were made");
  need(made_.empty(), "a refusal leaves files behind that were made");
  need(opened_.empty(), "a refusal leaves descriptors behind that were opened");
  need(raised_.empty(), "a refusal leaves a limit raised");
}

// --------------------------------------------------------------------------------------- descriptors of ours

const File* FakeKernel::file_at(const std::string& path) const {
  if (state_.env().cwd().path() == path) return &state_.env().cwd();
  if (case_.no_files()) return nullptr;
  for (const auto& [ino, file] : inodes_)
    if (file.path() == path) return &file;
  for (const Description& one : state_.descriptions())
    if (one.file().path() == path) return &one.file();
  for (const Description& one : state_.descriptions())
    for (const auto& watch : one.inotify().watches())
      if (watch.path() == path) return &one.file();
  if (state_.exe().path() == path) return &state_.exe();
  return nullptr;
}

void FakeKernel::mark(int fd, const File& file) { files_[fd] = file; }

int FakeKernel::open(const char* path, int flags, mode_t mode) {
  const std::string name(path);
  const int access = flags & O_ACCMODE;
  const std::string proc = "/proc/" + std::to_string(pid_);
  if (name == kImageName) {
    need(access == O_RDONLY && !(flags & (O_CREAT | O_TRUNC)), "the image is opened for writing");
    return real_open(("/proc/self/fd/" + std::to_string(image_.get())).c_str(), O_RDONLY | O_CLOEXEC);
  }
  if (name == CR_DEVICE || name == proc + "/mem") {
    const int fd = real_memfd("session");
    (name == CR_DEVICE ? devices_ : memories_).insert(fd);
    return fd;
  }
  if (name.ends_with("/status")) {
    char text[512];
    std::snprintf(text, sizeof text,
                  "Name:\ttarget\nUid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t1000\n"
                  "CapInh:\t0\nCapPrm:\t%llx\nCapEff:\t%llx\nCapBnd:\t1ffffffffff\nCapAmb:\t0\nNoNewPrivs:\t0\n",
                  static_cast<unsigned long long>(case_.capabilities()), static_cast<unsigned long long>(case_.capabilities()));
    return text_file(text);
  }
  if (name.find_first_not_of("0123456789") == std::string::npos) return text_file("pos:\t0\nflags:\t02\nmnt_id:\t1\nino:\t1\n");
  if (name == "timers" || name.ends_with("/timers")) return text_file("");
  if (name.starts_with("/proc/self/fd/")) {
    // The same descriptor opened again, as a new description.
    const int fd = std::atoi(name.c_str() + 14);
    if (const auto found = files_.find(fd); found != files_.end()) {
      const File file = found->second;
      const bool plain = !(flags & O_PATH) && !S_ISFIFO(file.mode());
      const int again = real_open(name.c_str(), plain ? O_RDWR | (flags & O_NONBLOCK) : flags);
      if (again >= 0) mark(again, file);
      return again;
    }
    need(!(flags & (O_CREAT | O_TRUNC)), "a descriptor of ours is cut");
    return real_open(name.c_str(), flags);
  }
  std::string below = name;
  if (below.starts_with(proc + "/root/")) below.erase(0, proc.size() + 5);
  if (below.starts_with("/proc/") || below.starts_with("/sys/") || below.empty() || below[0] != '/') {
    // The kernel's own files are read; writes to them go nowhere.
    const bool known = below.starts_with(proc) || below.starts_with("/proc/self") || below.starts_with("/proc/sys/") || below[0] != '/';
    if (access == O_RDONLY && known) return real_open(name.c_str(), flags & ~(O_CREAT | O_TRUNC));
    need(name == "/proc/sys/kernel/ns_last_pid" || name == "oom_score_adj" || name == "coredump_filter" || name.ends_with("/timens_offsets") || !known ||
             name[0] != '/' || file_at(name),
         "a file of the kernel's is opened for writing");
    return real_open("/dev/null", O_RDWR | O_CLOEXEC);
  }
  if (name != "/dev/tty" && name != "/dev/null") check_rights();  // the caller's own
  need(!(flags & O_TRUNC), "a file is cut as it is opened");
  need(!(flags & O_CREAT) || ((flags & O_EXCL) && (flags & O_NOFOLLOW)), "a file that may be there is made");
  if (flags & O_CREAT) {
    need(!(mode & 07000), "a file is made with set-user-id");
    if (!case_.no_files()) return -EEXIST;
    if (!made_.insert(below).second) return -EEXIST;
    File fresh;
    fresh.set_path(below);
    fresh.set_mode(S_IFREG | (mode & 0777));
    const int fd = real_memfd("made");
    mark(fd, fresh);
    return fd;
  }
  const File* file = file_at(below);
  if (!file) return -ENOENT;
  const int fd = real_memfd("file");
  File shown = *file;
  if (case_.other_files()) shown.set_ino(shown.ino() + 1), shown.set_size(shown.size() + 1);
  mark(fd, shown);
  return fd;
}

// A restart opens files of the image. A pause also does, with the target's rights, which are those of this process here.
void FakeKernel::check_rights() const {
  if (!case_.restart()) return;
  need(!(rights_.effective & ~state_.env().cap_effective()), "a file is opened with capabilities that its process will not have");
  need(state_.env().uids_size() != 4 || rights_.uid == state_.env().uids(3), "a file is opened as another user than its process's");
}

void FakeKernel::closed(int fd) {
  devices_.erase(fd);
  memories_.erase(fd);
  files_.erase(fd);
}

int FakeKernel::fstat(int fd, struct ::stat& st) {
  if (const int result = real_fstat(fd, st)) return result;
  const auto found = files_.find(fd);
  if (found == files_.end()) return 0;
  const File& file = found->second;
  st.st_dev = file.dev();
  st.st_ino = file.ino();
  st.st_mode = file.mode();
  st.st_rdev = file.rdev();
  if (S_ISREG(file.mode())) st.st_size = static_cast<off_t>(file.size());
  st.st_mtim.tv_sec = file.mtime_ns() / 1'000'000'000;
  st.st_mtim.tv_nsec = file.mtime_ns() % 1'000'000'000;
  return 0;
}

int FakeKernel::lstat(const char* path, struct ::stat& st) {
  st = {};
  if (case_.no_files()) return -ENOENT;
  st.st_mode = case_.other_files() ? S_IFREG | 0600 : S_IFSOCK | 0700;
  return *path ? 0 : -ENOENT;
}

int FakeKernel::unlink(const char* path) {
  if (made_.erase(path)) return 0;
  struct ::stat st;
  need(lstat(path, st) == 0 && S_ISSOCK(st.st_mode), "a file that was not made is removed");
  return 0;
}

int FakeKernel::bind(const void*, std::size_t size) {
  need(size <= 128, "a socket's address is too long");
  return 0;
}
int FakeKernel::connect(const void*, std::size_t size) {
  need(size <= 128, "a socket's address is too long");
  return case_.no_files() ? -ECONNREFUSED : 0;
}

int FakeKernel::kill(pid_t pid, int signal) {
  need(pid == pid_, "another process is signalled");
  if (signal == SIGKILL) killed_ = true;
  return 0;
}

int FakeKernel::prlimit(pid_t pid, int resource, const void* wanted, void* old) {
  need(pid == pid_, "another process's limits are asked for");
  struct { std::uint64_t soft, hard; } limit{1024, 4096};
  // Those of memory, which are widened meanwhile.
  const bool memory = resource == 2 || resource == 8 || resource == 9;
  if (memory) limit = {pid_ % 2 ? UINT64_MAX : 1 << 20, UINT64_MAX};
  if (old) std::memcpy(old, &limit, sizeof limit);
  if (!wanted) return 0;
  std::uint64_t numbers[2];
  std::memcpy(numbers, wanted, sizeof numbers);
  need(numbers[0] <= numbers[1], "a limit is above the hard one");
  const bool as_before = numbers[0] == limit.soft && numbers[1] == limit.hard;
  if (!committed_) {
    need(resource == RLIMIT_NOFILE || resource == RLIMIT_AS, "a limit is changed before the commit");
    if (as_before)
      raised_.erase(resource);
    else
      raised_.insert(resource);
    return 0;
  }
  if (as_before) return 0;
  const bool named = std::any_of(state_.env().limits().begin(), state_.env().limits().end(), [&](const auto& one) {
    return static_cast<int>(one.resource()) == resource && one.soft() >= numbers[0] && one.hard() >= numbers[1];
  });
  need(named || memory || resource == 7, "a limit is changed that the image does not name");
  return !memory && numbers[1] > 4096 ? -EPERM : 0;
}

int FakeKernel::truncate(int fd, std::uint64_t size) {
  const auto found = files_.find(fd);
  if (found == files_.end()) return real_truncate(fd, size);
  need(committed_ || made_.count(found->second.path()), "a file's size is changed before the commit");
  return 0;
}

int FakeKernel::option(int level, const void* value, std::size_t size) const {
  // Packet filters and the like are set by options of other levels.
  need(level == SOL_SOCKET || level == IPPROTO_TCP || level == IPPROTO_UDP || level == IPPROTO_IP || level == IPPROTO_IPV6 ||
           level == SOL_NETLINK,
       "a socket's option is of a level that it does not have");
  need(size <= 1 << 16 && (value || !size), "a socket's option is too long");
  return 0;
}

int FakeKernel::watch(int fd) {
  need(watches_[fd] < 1'000'000, "files are watched without end");
  return ++watches_[fd];
}

long FakeKernel::syscall(long nr, const std::uint64_t (&arg)[6]) {
  switch (nr) {
    case SYS_clone3: return case_.no_files() && case_.other_files() ? -EEXIST : pid_;
    case SYS_openat2: return open(reinterpret_cast<const char*>(arg[1]), static_cast<int>(*reinterpret_cast<const std::uint64_t*>(arg[2])), 0);
    case SYS_sched_setattr:
    case SYS_sched_setaffinity:
      need(committed_ && has_thread(static_cast<pid_t>(arg[0])), "another process's scheduling is changed");
      return 0;
    case SYS_sched_getattr:
      need(has_thread(static_cast<pid_t>(arg[0])), "another process's scheduling is asked for");
      return -ESRCH;
    case SYS_sched_getaffinity: return -ESRCH;
    case SYS_pidfd_open: return real_memfd("pidfd");
    case SYS_signalfd4: return static_cast<int>(arg[0]) >= 0 ? static_cast<long>(arg[0]) : real_memfd("signalfd");
    case SYS_gettid: return pid_;
    case SYS_capset: {
      const auto* data = reinterpret_cast<const __user_cap_data_struct*>(arg[1]);
      const std::uint64_t wanted = data[0].effective | static_cast<std::uint64_t>(data[1].effective) << 32;
      if (wanted & ~case_.capabilities()) return -EPERM;
      rights_.effective = wanted;
      return 0;
    }
    case SYS_kcmp: {
      need(static_cast<pid_t>(arg[0]) == pid_ && arg[1] == arg[0], "files of another process are compared");
      const auto* slot = reinterpret_cast<const std::uint32_t*>(arg[4]);  // struct kcmp_epoll_slot
      return case_.other_files() ? -EPERM : slot[1] != arg[3];
    }
    case SYS_setgroups: {
      if (!(rights_.effective >> CAP_SETGID & 1)) return -EPERM;
      const auto* groups = reinterpret_cast<const std::uint32_t*>(arg[1]);
      rights_.groups.assign(groups, groups + arg[0]);
      return 0;
    }
    case SYS_setfsgid:
      if (arg[0] == kOwner || rights_.effective >> CAP_SETGID & 1) return std::exchange(rights_.gid, static_cast<std::uint32_t>(arg[0]));
      return rights_.gid;
    case SYS_setfsuid:
      if (arg[0] == kOwner || rights_.effective >> CAP_SETUID & 1) return std::exchange(rights_.uid, static_cast<std::uint32_t>(arg[0]));
      return rights_.uid;
    default: harm("system call " + std::to_string(nr) + " is none that a rollback makes");
  }
}

ssize_t FakeKernel::pread(int fd, void* to, std::size_t size, std::uint64_t at) {
  if (is_memory(fd)) {
    need(at < kEnd && size <= kEnd - at, "memory is read outside of the address space");
    std::memset(to, 0, size);
    return static_cast<ssize_t>(size);
  }
  need(!is_device(fd), "a snapshot is read");
  return __real_pread(fd, to, size, static_cast<off_t>(at));
}

ssize_t FakeKernel::pwrite(int fd, const void* from, std::size_t size, std::uint64_t at) {
  if (is_memory(fd)) {
    need(committed_, "memory is written before the commit");
    need(at < kEnd && size <= kEnd - at && in_image(at, at + size), "memory is written outside of the image's mappings");
    return static_cast<ssize_t>(size);
  }
  if (const auto found = files_.find(fd); found != files_.end()) {
    need(committed_, "a file is written before the commit");
    need(at + size <= 1ULL << 45, "a file is written far behind its end");
    return static_cast<ssize_t>(size);
  }
  return __real_pwrite(fd, from, size, static_cast<off_t>(at));
}

// -------------------------------------------------------------------------------------------- the module

int FakeKernel::fault(bool request) {
  const std::size_t number = request ? requests_ : calls_;
  for (const Fault& one : case_.faults())
    if (one.request() == request && one.call() == number) {
      static constexpr int errors[] = {EPERM, ENOMEM, EINVAL, EAGAIN, EBUSY, EEXIST, ENOTCONN, ESRCH};
      return errors[one.error() % std::size(errors)];
    }
  return 0;
}

void* FakeKernel::map(std::size_t size) {
  need(size == arena_.size() && arena_addr_, "more than the arena is mapped");
  return arena_.data();
}

int FakeKernel::ioctl(int, unsigned long request, void* arg) {
  need(++requests_ < 100'000, "the module is asked without end");
  const bool early = request == CR_IOC_INFO || request == CR_IOC_ATTACH || request == CR_IOC_THAW || request == CR_IOC_COMMIT;
  if (!early)
    if (const int error = fault(true)) return -error;
  switch (request) {
    case CR_IOC_INFO: {
      auto& info = *static_cast<cr_info*>(arg);
      info = {};
      info.api_version = CR_API_VERSION;
      info.page_size = kPage;
      info.arena_size = kArenaSize;
      return 0;
    }
    case CR_IOC_ATTACH: {
      auto& attach = *static_cast<cr_attach*>(arg);
      need(is_memory(attach.mem_fd), "the session is bound to something else");
      attach.pid = pid_;
      attached_ = true;
      return 0;
    }
    case CR_IOC_FREEZE: frozen_ = true; return 0;
    case CR_IOC_THAW:
      frozen_ = false;
      arena_addr_ = 0;
      (static_cast<cr_thaw*>(arg)->flags & CR_THAW_KILL ? killed_ : thawed_) = true;
      return 0;
    case CR_IOC_COMMIT:
      need(frozen_ && !committed_, "it is committed at a wrong moment");
      if (const int error = fault(true)) return -error;
      committed_ = true;
      return 0;
    case CR_IOC_NOTIFY: return -ENOENT;
    case CR_IOC_OUTCOME:
    case CR_IOC_ORIGIN: return 0;
    default: break;
  }
  need(attached_ && frozen_, "a running process is asked");
  switch (request) {
    case CR_IOC_THREADS: return fill(*static_cast<cr_array*>(arg), threads_);
    case CR_IOC_VMAS: return fill(*static_cast<cr_array*>(arg), vmas_);
    case CR_IOC_FDS: return fill(*static_cast<cr_array*>(arg), fds_);
    case CR_IOC_SIGPENDING: static_cast<cr_sigpending*>(arg)->infos.count = 0; return 0;
    case CR_IOC_PROCESS: {
      auto& data = *static_cast<cr_process*>(arg);
      data = {};
      data.dumpable = 1;
      data.start_brk = data.brk = 0x20000000;
      data.itimer_value_ns[0] = 5;
      data.action[9].handler = 0x1000;
      return 0;
    }
    case CR_IOC_SET_REGS: {
      const auto& regs = *static_cast<const cr_regs*>(arg);
      need(committed_, "registers are set before the commit");
      need(has_thread(regs.tid), "registers are set of a thread that is not there");
      need(regs.len <= CR_MAX_REGSET, "a register set is too large");
      need(regs.type == NT_PRSTATUS || regs.type == NT_PRFPREG || regs.type == NT_X86_XSTATE, "registers of no kind are set");
      return 0;
    }
    case CR_IOC_SET_SIGMASK:
      need(committed_ && has_thread(static_cast<cr_sigmask*>(arg)->tid), "a signal mask is set of a thread that is not there");
      return 0;
    case CR_IOC_SET_RESTART: return -ENOENT;
    case CR_IOC_GET_FILE: return get_file(*static_cast<cr_get_file*>(arg));
    case CR_IOC_PUT_FILE: return put_file(*static_cast<cr_put_file*>(arg));
    case CR_IOC_ARENA: return place_arena(*static_cast<cr_arena*>(arg));
    case CR_IOC_RUN: return run(*static_cast<cr_run*>(arg));
    case CR_IOC_DIRTY: {
      auto& dirty = *static_cast<cr_dirty*>(arg);
      if (!case_.tracked()) return -ESTALE;
      std::vector<cr_range> all;
      for (const cr_vma& vma : vmas_)
        if (vma.flags & CR_VMA_PAGES) all.push_back({vma.start, vma.end - vma.start});
      return fill(dirty.ranges, all);
    }
    case CR_IOC_SHARERS:
      need(!committed_, "who shares memory is asked behind the commit");
      static_cast<cr_sharers*>(arg)->mappings = requests_ % 3 == 0;
      return 0;
    case CR_IOC_LINEAGE: return -ENODATA;
    case CR_IOC_DIGEST:
      need(!committed_, "digests are asked for behind the commit");
      for (std::uint64_t i = 0; i < CR_AREAS; ++i) static_cast<cr_digest*>(arg)->area[i] = (requests_ + i) % 2;
      return 0;
    case CR_IOC_SET_THREADS: return set_threads(*static_cast<cr_set_threads*>(arg));
    case CR_IOC_GUARDS: return fill(*static_cast<cr_array*>(arg), std::vector<cr_range>{});
    case CR_IOC_RESTORE: check_restore(*static_cast<const cr_restore*>(arg)); return 0;
    default: harm("the module is asked for what a rollback does not need");
  }
}

bool FakeKernel::has_thread(pid_t tid) const {
  return std::any_of(threads_.begin(), threads_.end(), [&](const cr_thread& one) { return one.tid == tid; });
}

int FakeKernel::set_threads(cr_set_threads& request) {
  need(committed_, "registers are set before the commit");
  need(request.count <= CR_MAX_THREADS && request.room <= CR_MAX_REGSET, "too many threads, or too large register sets");
  const auto* list = reinterpret_cast<const cr_thread_regs*>(request.threads);
  for (const cr_thread_regs& one : std::span(list, request.count)) {
    need(has_thread(one.tid), "registers are set of a thread that is not there");
    need(one.general && one.extended_len <= request.room && (one.extended || !one.extended_len), "registers are missing");
    ++request.done;
  }
  return 0;
}

int FakeKernel::get_file(cr_get_file& request) {
  File file;
  if (request.kind == CR_FILE_FD) {
    const auto found = std::find_if(fds_.begin(), fds_.end(), [&](const cr_fd& fd) { return static_cast<std::uint64_t>(fd.fd) == request.which; });
    if (found == fds_.end()) return -EBADF;
    if (const auto known = inodes_.find(found->ino); known != inodes_.end()) file = known->second;
    file.set_ino(found->ino);
    file.set_mode(found->mode);
  } else {
    const auto found = std::find_if(vmas_.begin(), vmas_.end(), [&](const cr_vma& vma) { return vma.start <= request.which && request.which < vma.end; });
    if (found == vmas_.end() || !(found->flags & CR_VMA_FILE)) return -ENOENT;
    if (const auto known = inodes_.find(found->ino); known != inodes_.end()) file = known->second;
    file.set_ino(found->ino);
    file.set_mode(S_IFREG | 0600);
  }
  request.fd = real_object(file.mode());
  if (request.fd < 0) return -EMFILE;
  mark(request.fd, file);
  return 0;
}

int FakeKernel::put_file(cr_put_file& request) {
  need(request.fd == -1 || real_is_open(request.fd), "a descriptor is given that is not open");
  need(committed_ || case_.restart(), "a descriptor is given before the commit");
  cr_fd& fd = add_descriptor();
  put_.insert(fd.fd);
  request.target_fd = fd.fd;
  return 0;
}

cr_fd& FakeKernel::add_descriptor() {
  int number = 0;
  while (std::any_of(fds_.begin(), fds_.end(), [&](const cr_fd& fd) { return fd.fd == number; })) ++number;
  cr_fd fd{};
  fd.fd = fd.same_as = number;
  fd.serial = 4'000'000 + requests_;
  fds_.push_back(fd);
  std::sort(fds_.begin(), fds_.end(), [](const cr_fd& a, const cr_fd& b) { return a.fd < b.fd; });
  return *std::find_if(fds_.begin(), fds_.end(), [&](const cr_fd& one) { return one.fd == number; });
}

int FakeKernel::place_arena(cr_arena& request) {
  arena_addr_ = 0;
  need(request.addr % kPage == 0, "the arena is to lie at no page");
  std::uint64_t at = request.addr;
  // Choose an address as the kernel would: below all higher mappings.
  if (!at) {
    at = 0x7f0000000000;
    for (auto vma = vmas_.rbegin(); vma != vmas_.rend(); ++vma)
      if (vma->start < at + kArenaSize && at < vma->end) {
        if (vma->start < 2 * kArenaSize) return -ENOMEM;
        at = vma->start - kArenaSize;
      }
  }
  need(at + kArenaSize <= kEnd && is_free(at, at + kArenaSize), "the arena is to lie where something is");
  if (request.addr)
    for (const Mapping& mapping : state_.mappings())
      need(mapping.end() <= at || mapping.start() >= at + kArenaSize, "the arena is to lie where the image needs the place");
  arena_addr_ = request.addr = at;
  request.data_addr = at + 2 * kPage;
  request.data_size = arena_.size();
  return 0;
}

void FakeKernel::check_restore(const cr_restore& request) const {
  need(committed_, "pages are put back before the commit");
  const auto* scope = reinterpret_cast<const cr_range*>(request.scope);
  const auto* runs = reinterpret_cast<const cr_page_run*>(request.runs);
  need(request.nscope <= 2 * static_cast<std::uint64_t>(state_.mappings_size()) + 70'000 && request.nruns <= CR_MAX_RUNS, "too much is put back");
  std::uint64_t end = 0;
  for (std::uint64_t i = 0; i < request.nscope; ++i) {
    need(scope[i].addr % kPage == 0 && scope[i].len % kPage == 0 && scope[i].len, "a range is of no pages");
    need(scope[i].addr >= end && scope[i].len <= kEnd - scope[i].addr, "ranges overlap");
    end = scope[i].addr + scope[i].len;
    std::uint64_t at = scope[i].addr;
    for (const Mapping& mapping : state_.mappings())
      if (at < end && mapping.start() <= at && at < mapping.end()) {
        need(mapping.flags() & CR_VMA_PAGES, "pages are put into a mapping that has none");
        at = mapping.end();
      }
    need(at >= end, "pages are put where the image has no mapping");
  }
  std::uint64_t j = 0;
  end = 0;
  const off_t size = real_size(image_.get());
  for (std::uint64_t i = 0; i < request.nruns; ++i) {
    need(runs[i].addr >= end && runs[i].len && runs[i].len % kPage == 0 && runs[i].offset % kPage == 0, "runs are out of order");
    end = runs[i].addr + runs[i].len;
    need(runs[i].offset + runs[i].len <= static_cast<std::uint64_t>(size), "a run is not in the image");
    while (j < request.nscope && scope[j].addr + scope[j].len <= runs[i].addr) ++j;
    // The image contains pages of the vdso for debuggers; the module ignores pages outside of the scope.
    const bool special = std::any_of(state_.mappings().begin(), state_.mappings().end(), [&](const Mapping& one) {
      return (one.flags() & CR_VMA_SPECIAL) && one.start() <= runs[i].addr && end <= one.end();
    });
    need(special || (j < request.nscope && scope[j].addr <= runs[i].addr && end <= scope[j].addr + scope[j].len), "a run is outside of the scope");
  }
}

}  // namespace reprise::fuzz
