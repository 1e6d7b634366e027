// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * One session of /dev/cr: a thin, checked wrapper around the module's ioctls.
 * Units and errors are those of kmod/uapi/cr.h.
 */
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>
#include <sys/user.h>

#include "base/error.h"
#include "base/unique_fd.h"
#include "cr.h"  // kmod/uapi

namespace reprise {

/** @return the message for a refusal of the module: what was refused, and what helps. */
std::string describe(const cr_why& why, int err);

class Heartbeat;

/** Other processes that map a file as shared memory. */
struct Sharers {
  std::uint64_t mappings = 0;  ///< number of their mappings
  pid_t pid = 0;               ///< one of them; 0: none that the caller may know of
};

class Session {
 public:
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  /** Open /dev/cr and bind it to process @p pid. Throws Error (refused, permission, gone, no module). */
  static Session attach(pid_t pid) { return attach(pid, device()); }
  /** As attach(), with what device() has returned. */
  static Session attach(pid_t pid, UniqueFd dev);
  /** Open /dev/cr: a process that inherits it can roll itself back, see CR_IOC_ROLLBACK. Throws Error. */
  static UniqueFd device();
  /** As attach(), with a descriptor of the target's /proc/PID/mem that was opened O_RDWR, possibly by another process. */
  static Session attach_mem(UniqueFd mem, pid_t pid_hint);

  pid_t pid() const { return pid_; }
  int fd() const { return dev_.get(); }
  int mem() const { return mem_.get(); }
  bool frozen() const { return frozen_; }
  /** Bytes of the arena in the target, see Remote. */
  std::uint64_t arena_size() const { return arena_size_; }

  /** Park all threads. Sends heartbeats until thaw(), so that the module does not thaw the target after a timeout. */
  cr_freeze freeze(unsigned timeout_ms = 0, unsigned thaw_after_ms = 0);
  /** @return how long the threads were parked, in ns */
  std::uint64_t thaw(bool kill = false);
  /** End the thread of the heartbeats until the next freeze(), for sessions that are kept for long. Target not frozen. */
  void rest();
  void commit();

  /**
   * The threads, and the state of the process as a whole. Asked of the module once: the answers are kept while the target
   * is frozen and until a request of ours can have changed them. What others can change meanwhile, pending signals and a
   * stop by one, may be older: refresh() first.
   */
  std::vector<cr_thread> threads();
  cr_process process();
  /** Ask the module again for threads() and process(). */
  void refresh() const { kept_.reset(); }
  std::vector<cr_vma> vmas();
  std::vector<cr_fd> fds();
  /** 128 bytes each; @p tid 0: shared by the process */
  std::vector<std::string> pending(pid_t tid);

  user_regs_struct regs(pid_t tid);
  std::string regset(pid_t tid, unsigned note_type);
  void set_regset(pid_t tid, unsigned note_type, std::span<const char> bytes);
  void set_sigmask(pid_t tid, std::uint64_t mask);
  /** Set registers and signal masks of many threads in one call. */
  void set_threads(std::span<const cr_thread_regs> threads);
  /** @return false when the snapshot has no restart block for this thread */
  bool set_restart(pid_t tid);

  /** Same open file description as the target's descriptor / mapping / executable. */
  UniqueFd get_fd(int target_fd);
  UniqueFd get_vma_file(std::uint64_t addr);
  UniqueFd get_exe();
  /** @return the other processes that map the regular file open as our descriptor @p fd. Target frozen. */
  Sharers sharers(int fd);
  /** Install in the target. @p fd -1: a fresh /dev/cr. @return the target's number */
  int put_fd(int fd, bool cloexec);

  cr_snapshot snapshot(unsigned flags, std::span<const std::uint8_t, CR_ID_SIZE> id);
  /**
   * Snapshot of the pages that may have changed since tracking began under @p id.
   * @param tracking  0, or CR_SNAP_TRACK and CR_SNAP_SPLIT: tracking goes on under @p next
   * @return false when the target is not tracked under this id
   */
  bool snapshot_changed(std::span<const std::uint8_t, CR_ID_SIZE> id, unsigned tracking,
                        std::span<const std::uint8_t, CR_ID_SIZE> next, cr_snapshot& taken);
  std::vector<cr_range> snapshot_runs();
  /** @return what a snapshot of snapshot_changed() does not hold since it has not changed. Usable after thaw. */
  std::vector<cr_range> snapshot_clean();
  /** Read snapshot pages at @p addr; whole pages. Usable after thaw, from several threads. */
  void read_snapshot(std::uint64_t addr, void* buf, std::size_t len) const;
  void drop_snapshot();
  /** @return false when the target is not tracked under this id: all memory may have changed */
  bool dirty(std::span<const std::uint8_t, CR_ID_SIZE> id, std::vector<cr_range>& out);
  /** Guard pages (MADV_GUARD_INSTALL), by address, each range within one mapping. */
  std::vector<cr_range> guards();
  /** @return the value that a restart has given the target (CR_IOC_LINEAGE); empty: none */
  std::string lineage();
  /** @param id  CR_ID_SIZE bytes */
  void set_lineage(const std::string& id);
  /** Digests of the state by enum cr_area, see CR_IOC_DIGEST. Target frozen. */
  cr_digest digest();
  /** Fills in the out members. Throws; ESTALE is an Error with code ESTALE and nothing changed. */
  void restore(cr_restore& request);

  /**
   * CR_IOC_ROLLBACK. Target not frozen. Fills in the out members.
   * @param threads  registers and signal masks, at most CR_MAX_THREADS
   * @return false: more has changed; the target is frozen then. Throws; with request.result CR_ROLLBACK_BROKEN the target is
   * frozen and half restored, otherwise it is as it was
   */
  bool rollback(cr_rollback& request, std::span<const cr_thread_regs> threads);

  /** Set what the agent reads at the next notification: the image, and the requester's pid (0: this process). */
  void origin(const std::string& image, pid_t requester);
  /**
   * Notify the target's agent of a request and wait until its callbacks have run; the target must not be frozen.
   * @param told  called when the agent is notified
   * @return false when the process has no agent. Throws when the callbacks refuse or take too long, and (temporary,
   *         EBUSY) when another request is in progress
   */
  bool notify(unsigned phase, unsigned flags, unsigned timeout_ms, const std::function<void()>& told = {});
  /** State of the callbacks after an outcome. */
  enum class Callbacks { returned, failed, ended, late };
  /** Wait for the callbacks that continue after outcome(). ended: their process has ended, or has no agent. */
  Callbacks finish_callbacks(unsigned timeout_ms);
  /** Report the result of the request to the agent, if there is one. */
  void outcome(unsigned phase, unsigned flags = 0);

  /** Read / write the target's memory through /proc/PID/mem (ignores protections). */
  void read_mem(std::uint64_t addr, void* buf, std::size_t len) const;
  void write_mem(std::uint64_t addr, const void* buf, std::size_t len) const;

 private:
  friend class Remote;
  Session(UniqueFd dev, UniqueFd mem, pid_t pid, const cr_info& info);
  [[noreturn]] void fail(const char* what, int err, const cr_why* why = nullptr) const;
  int call(unsigned long request, void* arg) const;  // 0 or -errno, EINTR-safe
  struct Kept {
    std::optional<cr_process> process;
    std::optional<std::vector<cr_thread>> threads;
  };
  Kept& kept();
  void prepare_heartbeat();
  UniqueFd dev_, mem_;
  pid_t pid_ = 0;
  std::uint64_t arena_size_ = 0;
  bool frozen_ = false;
  mutable std::unique_ptr<Kept> kept_;  // answers of the module, see threads()
  std::unique_ptr<Heartbeat> heartbeat_;  // the last member, destroyed first: it uses dev_
};

}  // namespace reprise
