// SPDX-License-Identifier: LGPL-2.1-or-later
#include "session/remote.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/raised_limit.h"
#include "base/text.h"

namespace reprise {
namespace {

constexpr std::size_t kCalls = 256;                 // most calls in one batch
constexpr std::size_t kRobustHead = 24;             // sizeof(struct robust_list_head)
constexpr std::uint64_t kRseqUnregister = 1;        // RSEQ_FLAG_UNREGISTER
constexpr std::uint64_t kBatchMs = 10'000;          // timeout of a batch, without the time for Call::bytes
constexpr std::uint64_t kBytesPerMs = 16 << 10;     // slowest rate of calls that allocate, clear or free memory
constexpr std::uint64_t kMostMs = 3'600'000;        // longest timeout of the module (CR_RUN_MOST_MS)

static_assert(sizeof(cr_call) == 64, "the table of calls is part of the module's interface");

}  // namespace

void Remote::open() {
  map();
  void* data = ::mmap(nullptr, data_size_, PROT_READ | PROT_WRITE, MAP_SHARED, session_.fd(), 0);
  if (data == MAP_FAILED)
    throw Error(Failure::permanent, errno, "cannot map the module's arena: " + error_text(errno));
  data_ = static_cast<char*>(data);
  table_.resize(kCalls);
}

Remote::~Remote() {
  if (data_) ::munmap(data_, data_size_);
}

void Remote::map() {
  cr_arena request{};
  const auto ask = [&] {
    request = cr_arena{};
    request.addr = addr_;
    return session_.call(CR_IOC_ARENA, &request);
  };
  int err = ask();
  if (err == -ENOMEM) {
    // The target may have reached its own limit of address space.
    const RaisedLimit raised(session_.pid(), RLIMIT_AS, RLIM_INFINITY);
    err = ask();
  }
  if (err) session_.fail("mapping the arena", err, &request.why);
  addr_ = request.addr;
  data_addr_ = request.data_addr;
  data_size_ = request.data_size;
  size_ = session_.arena_size();
}

void Remote::move(std::uint64_t addr) {
  addr_ = addr;
  if (data_) map();
}

void Remote::begin_batch() {
  ready();
  if (!ran_) return;
  ran_ = stopped_ = false;
  ncalls_ = args_used_ = 0;
  results_.clear();
}

bool Remote::room(std::size_t calls, std::size_t bytes) {
  ready();
  if (ran_) return calls <= table_.size() && bytes <= data_size_;
  return ncalls_ + calls <= table_.size() && args_used_ + bytes <= data_size_;
}

void* Remote::argument(std::size_t bytes, std::uint64_t& target) {
  begin_batch();
  const std::size_t room = (bytes + 15) & ~std::size_t{15};
  if (bytes > data_size_ || room > data_size_ - args_used_)
    throw Error(Failure::permanent, E2BIG, "process " + std::to_string(session_.pid()) +
                                               ": too many arguments for one round of remote system calls");
  const std::size_t offset = args_used_;
  args_used_ += room;
  target = data_addr_ + offset;
  std::memset(data_ + offset, 0, room);
  return data_ + offset;
}

std::uint64_t Remote::argument(std::string_view text) {
  std::uint64_t at;
  std::memcpy(argument(text.size() + 1, at), text.data(), text.size());
  return at;
}

std::size_t Remote::add(const Call& call, bool stop_on_error) {
  begin_batch();
  if (ncalls_ == table_.size()) {
    cr_run request{};
    flush(0, 0, request);
  }
  cr_call& entry = table_[ncalls_++];
  bytes_ += std::min(call.bytes, kMostMs * kBytesPerMs);
  entry.nr = static_cast<std::uint32_t>(call.nr);
  entry.flags = stop_on_error ? CR_CALL_STOP : 0;
  std::copy(std::begin(call.arg), std::end(call.arg), entry.arg);
  entry.ret = -ECANCELED;
  return results_.size() + ncalls_ - 1;
}

void Remote::flush(pid_t tid, unsigned flags, cr_run& request) {
  const std::size_t n = std::exchange(ncalls_, 0);
  const std::uint64_t bytes = std::exchange(bytes_, 0);
  if (n && !stopped_) {
    const pid_t who = tid ? tid : session_.pid();
    request.tid = who;
    request.ncalls = static_cast<std::uint32_t>(n);
    request.calls = reinterpret_cast<std::uintptr_t>(table_.data());
    request.flags = flags;
    request.timeout_ms = static_cast<std::uint32_t>(std::min(kBatchMs + bytes / kBytesPerMs, kMostMs));
    if (int err = session_.call(CR_IOC_RUN, &request)) session_.fail("a remote system call", err, &request.why);
    if (std::find(used_by_.begin(), used_by_.end(), who) == used_by_.end()) used_by_.push_back(who);
    stopped_ = request.done < n;
  }
  for (std::size_t i = 0; i < n; ++i) results_.push_back(table_[i].ret);
}

std::vector<std::int64_t> Remote::run(pid_t tid) {
  if (!results_.empty() && !ran_ && tid && tid != session_.pid())
    throw Error(Failure::permanent, E2BIG, "too many remote system calls at once for one thread");
  begin_batch();
  cr_run request{};
  flush(tid, 0, request);
  ran_ = true;
  return results_;
}

std::int64_t Remote::call(pid_t tid, long nr, std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d,
                          std::uint64_t e, std::uint64_t f) {
  const std::size_t index = add({nr, {a, b, c, d, e, f}});
  return run(tid)[index];
}

std::int64_t Remote::must(const char* what, pid_t tid, long nr, std::uint64_t a, std::uint64_t b, std::uint64_t c,
                          std::uint64_t d, std::uint64_t e, std::uint64_t f) {
  const std::int64_t ret = call(tid, nr, a, b, c, d, e, f);
  if (ret < 0 && ret >= -4095)
    throw Error(Failure::permanent, static_cast<int>(-ret),
                "process " + std::to_string(session_.pid()) + ": " + what + ": " + error_text(ret));
  return ret;
}

std::int64_t Remote::block(pid_t tid, long nr, const std::uint64_t (&arg)[6]) {
  ready();
  if (!ran_ && ncalls_) run();
  // Do not call begin_batch(): the arguments of this call already lie in the arena.
  ran_ = false;
  ncalls_ = 0;
  results_.clear();
  stopped_ = false;
  cr_call& entry = table_[ncalls_++];
  entry = cr_call{};
  entry.nr = static_cast<std::uint32_t>(nr);
  std::copy(std::begin(arg), std::end(arg), entry.arg);
  cr_run request{};
  flush(tid, CR_RUN_BLOCK, request);
  ran_ = true;
  return request.ret;
}

void Remote::exit_thread(const cr_thread& thread) {
  begin_batch();
  if (ncalls_) run();
  // Otherwise the thread's exit would write to memory of the restored program, or wake its futex waiters.
  add({SYS_set_robust_list, {0, kRobustHead}}, false);
  add({SYS_set_tid_address, {0}}, false);
  if (thread.rseq_addr)
    add({SYS_rseq, {thread.rseq_addr, thread.rseq_len, kRseqUnregister, thread.rseq_sig}}, false);
  add({SYS_exit, {0}}, false);
  cr_run request{};
  flush(thread.tid, 0, request);
  ran_ = true;
  if (!request.gone)
    throw Error(Failure::permanent, 0, "thread " + std::to_string(thread.tid) + " could not be ended");
}

void Remote::install(int fd, int target_fd, bool cloexec) {
  const int got = session_.put_fd(fd, cloexec);
  if (got == target_fd) return;
  const std::string what = "descriptor " + std::to_string(target_fd);
  begin_batch();
  const std::size_t dup = add({SYS_dup3, {static_cast<std::uint64_t>(got), static_cast<std::uint64_t>(target_fd),
                                          cloexec ? static_cast<std::uint64_t>(O_CLOEXEC) : 0}},
                              false);
  add({SYS_close, {static_cast<std::uint64_t>(got)}}, false);
  const std::int64_t ret = run()[dup];
  if (ret < 0)
    throw Error(Failure::permanent, static_cast<int>(-ret),
                "process " + std::to_string(session_.pid()) + ": " + what + ": " + error_text(ret));
}

}  // namespace reprise
