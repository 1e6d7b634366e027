// SPDX-License-Identifier: LGPL-2.1-or-later
#include "session/session.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <elf.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/silence.h"
#include "base/stage.h"
#include "base/text.h"
#include "libcr.h"
#include "session/device.h"
#include "session/heartbeat.h"

namespace reprise {
namespace {

std::uint64_t pointer(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

cr_info module_info(int dev) {
  cr_info info{};
  if (::ioctl(dev, CR_IOC_INFO, &info) != 0)
    throw Error(Failure::permanent, errno, CR_DEVICE " does not answer as this version expects: load its cr.ko");
  if (info.api_version != CR_API_VERSION)
    throw Error(Failure::permanent, EPROTO,
                "the loaded module speaks version " + std::to_string(info.api_version) + " of its interface, this is " +
                    std::to_string(CR_API_VERSION) + ": load the cr.ko that came with these programs");
  return info;
}

/** Throw the Error for a process that exists but has no memory to save. Returns if @p pid does not exist. */
void refuse_without_memory(pid_t pid) {
  if (::access(("/proc/" + std::to_string(pid)).c_str(), F_OK) != 0) return;
  throw Error(Failure::refused, ESRCH,
              "process " + std::to_string(pid) +
                  " has no memory: it is a kernel thread, or it (or its first thread) has ended");
}

UniqueFd open_mem(pid_t pid) {
  const std::string dir = "/proc/" + std::to_string(pid);
  UniqueFd fd(::open((dir + "/mem").c_str(), O_RDWR | O_CLOEXEC));
  if (fd) return fd;
  const int err = errno;
  if (err == ESRCH) refuse_without_memory(pid);
  if (err == ENOENT || err == ESRCH) throw Error(Failure::permanent, ESRCH, "no process " + std::to_string(pid));
  if (err == EACCES || err == EPERM) {
    struct stat st{};
    std::string owner;
    if (::stat(dir.c_str(), &st) == 0) owner = " (owner uid " + std::to_string(st.st_uid) + ")";
    throw Error(Failure::refused, err,
                "no permission to trace process " + std::to_string(pid) + owner + ": run as its owner or as root");
  }
  throw Error(Failure::permanent, err, "cannot open " + dir + "/mem: " + error_text(err));
}

/** @return the class of an errno of the module */
Failure failure_of(int err, const cr_why* why) {
  if (why && why->reason == CR_WHY_GONE) return Failure::permanent;
  switch (err) {
    case EBUSY:
    case ETIMEDOUT:
    case EAGAIN:
    case ENOMEM:
      return Failure::temporary;
    case EOPNOTSUPP:
    case EPERM:
    case EDEADLK:
    case EDQUOT:
      return Failure::refused;
    default:
      return Failure::permanent;
  }
}

}  // namespace

Session::Session(UniqueFd dev, UniqueFd mem, pid_t pid, const cr_info& info)
    : dev_(std::move(dev)), mem_(std::move(mem)), pid_(pid), arena_size_(info.arena_size) {}

Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&& other) noexcept {
  heartbeat_.reset();  // it uses the descriptor
  dev_ = std::move(other.dev_);
  mem_ = std::move(other.mem_);
  pid_ = other.pid_;
  arena_size_ = other.arena_size_;
  frozen_ = other.frozen_;
  kept_ = std::move(other.kept_);
  heartbeat_ = std::move(other.heartbeat_);
  return *this;
}
Session::~Session() = default;

UniqueFd Session::device() { return open_device(); }

// The device is opened first: a missing module is the more useful error.
Session Session::attach(pid_t pid, UniqueFd dev) {
  if (pid <= 0) throw Error(Failure::usage, EINVAL, std::to_string(pid) + " is not a process id");
  UniqueFd mem = open_mem(pid);
  const cr_info info = module_info(dev.get());
  Session session(std::move(dev), std::move(mem), pid, info);
  cr_attach request{};
  request.mem_fd = session.mem_.get();
  if (int err = session.call(CR_IOC_ATTACH, &request)) {
    // Older kernels also open /proc/PID/mem of a process without memory.
    if (err == -ESRCH && request.why.reason == CR_WHY_GONE && request.why.arg == 0) refuse_without_memory(pid);
    session.fail("attach", err, &request.why);
  }
  if (request.pid != pid)
    throw Error(Failure::usage, EINVAL,
                std::to_string(pid) + " is a thread of process " + std::to_string(request.pid) +
                    ": give the id of the process");
  return session;
}

Session Session::attach_mem(UniqueFd mem, pid_t pid_hint) {
  UniqueFd dev = open_device();
  const cr_info info = module_info(dev.get());
  Session session(std::move(dev), std::move(mem), pid_hint, info);
  cr_attach request{};
  request.mem_fd = session.mem_.get();
  if (int err = session.call(CR_IOC_ATTACH, &request)) session.fail("attach", err, &request.why);
  session.pid_ = request.pid;
  return session;
}

namespace {

/** Does a request leave what CR_IOC_THREADS and CR_IOC_PROCESS report as it is? */
bool only_reads(unsigned long request) {
  switch (request) {
    case CR_IOC_COMMIT:
    case CR_IOC_THREADS:
    case CR_IOC_PROCESS:
    case CR_IOC_VMAS:
    case CR_IOC_FDS:
    case CR_IOC_SIGPENDING:
    case CR_IOC_GET_REGS:
    case CR_IOC_GET_FILE:
    case CR_IOC_SHARERS:
    case CR_IOC_SNAP_RUNS:
    case CR_IOC_SNAP_CLEAN:
    case CR_IOC_DIRTY:
    case CR_IOC_GUARDS:
    case CR_IOC_DIGEST:
      return true;
    default:
      return false;
  }
}

}  // namespace

Session::Kept& Session::kept() {
  if (!kept_) kept_ = std::make_unique<Kept>();
  return *kept_;
}

int Session::call(unsigned long request, void* arg) const {
  if (fault_here()) return -EIO;
  if (!only_reads(request)) refresh();
  for (;;) {
    if (::ioctl(dev_.get(), request, arg) == 0) return 0;
    // These return EINTR when the target was killed. Repeat all others.
    if (errno != EINTR || request == CR_IOC_RUN || request == CR_IOC_ROLLBACK) return -errno;
  }
}

void Session::fail(const char* what, int err, const cr_why* why) const {
  static const cr_why none{};
  const int code = err < 0 ? -err : err;
  std::string text = describe(why ? *why : none, code);
  if (!why || why->reason == CR_WHY_NONE) text = std::string(what) + ": " + text;
  const bool traced = why && why->reason == CR_WHY_TRACED;
  throw Error(failure_of(code, why), traced ? CR_EPTRACED : code, "process " + std::to_string(pid_) + ": " + text);
}

void Session::prepare_heartbeat() {
  // Start the thread before the freeze: the target shall not wait for it.
  if (!heartbeat_) heartbeat_ = std::make_unique<Heartbeat>(dev_.get(), std::chrono::milliseconds(silence_ms() / 6));
}

cr_freeze Session::freeze(unsigned timeout_ms, unsigned thaw_after_ms) {
  prepare_heartbeat();
  cr_freeze request{};
  request.timeout_ms = timeout_ms;
  request.thaw_after_ms = thaw_after_ms ? thaw_after_ms : silence_ms();
  if (int err = call(CR_IOC_FREEZE, &request)) fail("stopping its threads", err, &request.why);
  frozen_ = true;
  heartbeat_->begin();
  return request;
}

std::uint64_t Session::thaw(bool kill) {
  cr_thaw request{};
  if (kill) request.flags = CR_THAW_KILL;
  frozen_ = false;
  if (heartbeat_) heartbeat_->end();
  if (int err = call(CR_IOC_THAW, &request)) fail("letting it go on", err);
  return request.frozen_ns;
}

void Session::rest() { heartbeat_.reset(); }

void Session::commit() {
  if (int err = call(CR_IOC_COMMIT, nullptr)) fail("commit", err);
}

namespace {

/** Fill @p items by a request that fails with ENOBUFS and returns the count; @p ask returns 0 or -errno. */
template <class T, class Ask>
int fetch_array(std::vector<T>& items, std::size_t guess, Ask&& ask) {
  for (std::size_t capacity = guess;;) {
    items.resize(capacity);
    cr_array array{pointer(items.data()), capacity};
    const int err = ask(array);
    if (err == 0) {
      items.resize(array.count);
      return 0;
    }
    if (err != -ENOBUFS) return err;
    capacity = array.count > capacity ? array.count : capacity * 2;
  }
}

}  // namespace

std::vector<cr_thread> Session::threads() {
  auto& threads = kept().threads;
  if (threads) return *threads;
  std::vector<cr_thread> items;
  if (int err = fetch_array(items, 32, [&](cr_array& a) { return call(CR_IOC_THREADS, &a); })) fail("its threads", err);
  return threads.emplace(std::move(items));
}

cr_process Session::process() {
  auto& process = kept().process;
  if (process) return *process;
  cr_process data{};
  if (int err = call(CR_IOC_PROCESS, &data)) fail("its state", err);
  return process.emplace(data);
}

std::vector<cr_vma> Session::vmas() {
  std::vector<cr_vma> items;
  if (int err = fetch_array(items, 256, [&](cr_array& a) { return call(CR_IOC_VMAS, &a); })) fail("its mappings", err);
  return items;
}

std::vector<cr_fd> Session::fds() {
  std::vector<cr_fd> items;
  if (int err = fetch_array(items, 64, [&](cr_array& a) { return call(CR_IOC_FDS, &a); })) fail("its descriptors", err);
  return items;
}

std::vector<std::string> Session::pending(pid_t tid) {
  struct Info {
    char bytes[128];
  };
  std::vector<Info> items;
  const int err = fetch_array(items, 4, [&](cr_array& a) {
    cr_sigpending request{};
    request.tid = tid;
    request.infos = a;
    const int result = call(CR_IOC_SIGPENDING, &request);
    a = request.infos;
    return result;
  });
  if (err) fail("its pending signals", err);
  std::vector<std::string> infos;
  infos.reserve(items.size());
  for (const Info& item : items) infos.emplace_back(item.bytes, sizeof item.bytes);
  return infos;
}

user_regs_struct Session::regs(pid_t tid) {
  user_regs_struct regs{};
  cr_regs request{};
  request.tid = tid;
  request.type = NT_PRSTATUS;
  request.buf = pointer(&regs);
  request.len = sizeof regs;
  if (int err = call(CR_IOC_GET_REGS, &request)) fail("reading registers", err, &request.why);
  return regs;
}

std::string Session::regset(pid_t tid, unsigned note_type) {
  std::string bytes(4096, '\0');
  for (;;) {
    cr_regs request{};
    request.tid = tid;
    request.type = note_type;
    request.buf = pointer(bytes.data());
    request.len = bytes.size();
    const int err = call(CR_IOC_GET_REGS, &request);
    if (err == -ENOBUFS && bytes.size() < CR_MAX_REGSET) {
      bytes.resize(request.len > bytes.size() ? request.len : bytes.size() * 2);
      continue;
    }
    if (err) fail("reading registers", err, &request.why);
    bytes.resize(request.len);
    return bytes;
  }
}

void Session::set_regset(pid_t tid, unsigned note_type, std::span<const char> bytes) {
  cr_regs request{};
  request.tid = tid;
  request.type = note_type;
  request.buf = pointer(bytes.data());
  request.len = bytes.size();
  if (int err = call(CR_IOC_SET_REGS, &request))
    fail(("thread " + std::to_string(tid) + ", registers").c_str(), err, &request.why);
}

void Session::set_sigmask(pid_t tid, std::uint64_t mask) {
  cr_sigmask request{};
  request.tid = tid;
  request.mask = mask;
  if (int err = call(CR_IOC_SET_SIGMASK, &request)) fail("setting a signal mask", err, &request.why);
}

void Session::set_threads(std::span<const cr_thread_regs> threads) {
  while (!threads.empty()) {
    const auto part = threads.first(std::min<std::size_t>(threads.size(), CR_MAX_THREADS));
    cr_set_threads request{};
    request.threads = pointer(part.data());
    request.count = static_cast<std::uint32_t>(part.size());
    for (const cr_thread_regs& one : part)
      request.room = std::max(request.room, static_cast<std::uint32_t>(one.extended_len));
    if (int err = call(CR_IOC_SET_THREADS, &request))
      fail(("thread " + std::to_string(part[std::min<std::size_t>(request.done, part.size() - 1)].tid) + ", registers").c_str(), err, &request.why);
    threads = threads.subspan(part.size());
  }
}

bool Session::rollback(cr_rollback& request, std::span<const cr_thread_regs> threads) {
  prepare_heartbeat();
  request.freeze.thaw_after_ms = silence_ms();
  request.threads.threads = pointer(threads.data());
  request.threads.count = static_cast<std::uint32_t>(threads.size());
  for (const cr_thread_regs& one : threads)
    request.threads.room = std::max(request.threads.room, static_cast<std::uint32_t>(one.extended_len));
  heartbeat_->begin();
  const int err = call(CR_IOC_ROLLBACK, &request);
  frozen_ = request.result == CR_ROLLBACK_DIFFERS || request.result == CR_ROLLBACK_BROKEN;
  if (!frozen_) heartbeat_->end();
  const bool broken = request.result == CR_ROLLBACK_BROKEN;
  if (broken) enter(Stage::commit);
  if (err) fail("rolling back", err, broken ? &request.threads.why : &request.freeze.why);
  return request.result == CR_ROLLBACK_DONE;
}

bool Session::set_restart(pid_t tid) {
  cr_restart request{};  // struct cr_restart of the module's interface
  request.tid = tid;
  const int err = call(CR_IOC_SET_RESTART, &request);
  if (err == -ENOENT) return false;
  if (err) fail("continuing a system call", err, &request.why);
  return true;
}

namespace {

cr_get_file wanted(cr_file_kind kind, std::uint64_t which) {
  cr_get_file request{};
  request.kind = kind;
  request.fd = -1;
  request.which = which;
  return request;
}

}  // namespace

UniqueFd Session::get_fd(int target_fd) {
  cr_get_file request = wanted(CR_FILE_FD, static_cast<std::uint64_t>(target_fd));
  if (int err = call(CR_IOC_GET_FILE, &request)) fail(("descriptor " + std::to_string(target_fd)).c_str(), err);
  return UniqueFd(request.fd);
}

UniqueFd Session::get_vma_file(std::uint64_t addr) {
  cr_get_file request = wanted(CR_FILE_VMA, addr);
  if (int err = call(CR_IOC_GET_FILE, &request)) fail(("mapping " + hex(addr)).c_str(), err);
  return UniqueFd(request.fd);
}

UniqueFd Session::get_exe() {
  cr_get_file request = wanted(CR_FILE_EXE, 0);
  if (int err = call(CR_IOC_GET_FILE, &request)) fail("its executable", err);
  return UniqueFd(request.fd);
}

Sharers Session::sharers(int fd) {
  cr_sharers request{};
  request.fd = fd;
  if (int err = call(CR_IOC_SHARERS, &request)) fail("who shares its memory", err);
  return {request.mappings, request.pid};
}

std::string Session::lineage() {
  cr_lineage request{};
  const int err = call(CR_IOC_LINEAGE, &request);
  if (err == -ENODATA) return {};
  if (err) fail("where it comes from", err);
  return {reinterpret_cast<const char*>(request.id), sizeof request.id};
}

void Session::set_lineage(const std::string& id) {
  cr_lineage request{};
  request.flags = CR_LINEAGE_SET;
  std::memcpy(request.id, id.data(), std::min(id.size(), sizeof request.id));
  if (int err = call(CR_IOC_LINEAGE, &request)) fail("marking it as restarted", err);
}

int Session::put_fd(int fd, bool cloexec) {
  cr_put_file request{};
  request.fd = fd;
  request.flags = cloexec ? CR_FD_CLOEXEC : 0;
  if (int err = call(CR_IOC_PUT_FILE, &request)) fail("giving it a descriptor", err);
  return request.target_fd;
}

cr_snapshot Session::snapshot(unsigned flags, std::span<const std::uint8_t, CR_ID_SIZE> id) {
  cr_snapshot request{};
  request.flags = flags;
  std::memcpy(request.id, id.data(), CR_ID_SIZE);
  if (int err = call(CR_IOC_SNAPSHOT, &request)) fail("snapshot of its pages", err, &request.why);
  return request;
}

bool Session::snapshot_changed(std::span<const std::uint8_t, CR_ID_SIZE> id, unsigned tracking,
                               std::span<const std::uint8_t, CR_ID_SIZE> next, cr_snapshot& taken) {
  taken = {};
  taken.flags = CR_SNAP_PAGES | CR_SNAP_CHANGED | tracking;
  std::memcpy(taken.id, id.data(), CR_ID_SIZE);
  if (tracking) std::memcpy(taken.next, next.data(), CR_ID_SIZE);
  const int err = call(CR_IOC_SNAPSHOT, &taken);
  if (err && err != -ESTALE) fail("snapshot of its changed pages", err, &taken.why);
  return err == 0;
}

std::vector<cr_range> Session::snapshot_runs() {
  std::vector<cr_range> items;
  if (int err = fetch_array(items, 1024, [&](cr_array& a) { return call(CR_IOC_SNAP_RUNS, &a); }))
    fail("the snapshot's pages", err);
  return items;
}

std::vector<cr_range> Session::snapshot_clean() {
  std::vector<cr_range> items;
  if (int err = fetch_array(items, 4096, [&](cr_array& a) { return call(CR_IOC_SNAP_CLEAN, &a); }))
    fail("the pages that have not changed", err);
  return items;
}

void Session::read_snapshot(std::uint64_t addr, void* buf, std::size_t len) const {
  auto* out = static_cast<char*>(buf);
  while (len > 0) {
    const ssize_t got = ::pread(dev_.get(), out, len, static_cast<off_t>(addr));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail(("reading the snapshot at " + hex(addr)).c_str(), got < 0 ? errno : EIO);
    out += got;
    addr += static_cast<std::uint64_t>(got);
    len -= static_cast<std::size_t>(got);
  }
}

void Session::drop_snapshot() {
  if (int err = call(CR_IOC_SNAP_DROP, nullptr)) fail("dropping the snapshot", err);
}

bool Session::dirty(std::span<const std::uint8_t, CR_ID_SIZE> id, std::vector<cr_range>& out) {
  const int err = fetch_array(out, 4096, [&](cr_array& a) {
    cr_dirty request{};
    std::memcpy(request.id, id.data(), CR_ID_SIZE);
    request.ranges = a;
    const int result = call(CR_IOC_DIRTY, &request);
    a = request.ranges;
    return result;
  });
  if (err == -ESTALE) {
    out.clear();
    return false;
  }
  if (err) fail("its changed pages", err);
  return true;
}

std::vector<cr_range> Session::guards() {
  std::vector<cr_range> items;
  if (int err = fetch_array(items, 256, [&](cr_array& a) { return call(CR_IOC_GUARDS, &a); })) fail("its guard pages", err);
  return items;
}

cr_digest Session::digest() {
  cr_digest digest{};
  if (int err = call(CR_IOC_DIGEST, &digest)) fail("the digests of its state", err);
  return digest;
}

void Session::restore(cr_restore& request) {
  if (int err = call(CR_IOC_RESTORE, &request)) fail("putting pages back", err, &request.why);
}

void Session::read_mem(std::uint64_t addr, void* buf, std::size_t len) const {
  auto* out = static_cast<char*>(buf);
  while (len > 0) {
    const ssize_t got = ::pread(mem_.get(), out, len, static_cast<off_t>(addr));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail(("reading its memory at " + hex(addr)).c_str(), got < 0 ? errno : EIO);
    out += got;
    addr += static_cast<std::uint64_t>(got);
    len -= static_cast<std::size_t>(got);
  }
}

void Session::write_mem(std::uint64_t addr, const void* buf, std::size_t len) const {
  const auto* in = static_cast<const char*>(buf);
  while (len > 0) {
    const ssize_t put = ::pwrite(mem_.get(), in, len, static_cast<off_t>(addr));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail(("writing its memory at " + hex(addr)).c_str(), put < 0 ? errno : EIO);
    in += put;
    addr += static_cast<std::uint64_t>(put);
    len -= static_cast<std::size_t>(put);
  }
}

}  // namespace reprise
