// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * System calls made by a parked thread of the target, in its own context and
 * with its own rights (CR_IOC_ARENA, CR_IOC_RUN). Batched: calls queue up until
 * run(), so that one round trip does many.
 */
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

#include "session/session.h"

namespace reprise {

class Remote {
 public:
  /**
   * The arena is mapped on first use, at @p addr in the target (0: anywhere): many requests
   * never need it. The session must be frozen then.
   */
  explicit Remote(Session& session, std::uint64_t addr = 0) : session_(session), addr_(addr) {}
  ~Remote();  // unmaps only our side; the module unmaps the target's at thaw
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;

  /** Move the target's side: the mapping at its place is about to change. */
  void move(std::uint64_t addr);
  bool mapped() const { return data_ != nullptr; }
  std::uint64_t addr() { return ready(), addr_; }   ///< where code, gate and data lie in the target
  std::uint64_t size() { return ready(), size_; }

  /**
   * Space for arguments in the arena that both sides see, 16-byte aligned. What lies
   * there stays readable after run() until the next argument() or add().
   * @return pointer on our side, zeroed; @p target receives the address in the target.
   */
  void* argument(std::size_t bytes, std::uint64_t& target);
  std::uint64_t argument(std::string_view text);             ///< NUL-terminated copy
  /** A copy of @p value (one that needs no construction). */
  template <class T>
  std::uint64_t argument_of(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::uint64_t at;
    std::memcpy(argument(sizeof value, at), &value, sizeof value);
    return at;
  }
  /** Does a batch have room for this many more calls and bytes of arguments? Otherwise run() first. */
  bool room(std::size_t calls, std::size_t bytes);
  /** Most bytes that one batch's arguments may take, all in all. */
  std::size_t argument_capacity() { return ready(), data_size_; }

  /**
   * Queue a call. @return its index in the batch. When the table of calls is full the
   * queued ones are first made by the leader; their results are kept for run().
   */
  struct Call {
    long nr;
    std::uint64_t arg[6]{};
    std::uint64_t bytes = 0;  ///< of memory that the kernel may have to go through: it is given the time for that
  };
  std::size_t add(const Call& call, bool stop_on_error = true);

  /**
   * Run the queued calls on @p tid (0: the leader). Results by index, -errno on failure;
   * -ECANCELED for calls that were not made because an earlier one failed.
   */
  std::vector<std::int64_t> run(pid_t tid = 0);
  /** One call, at once; queued calls are run before. Returns result or -errno. */
  std::int64_t call(pid_t tid, long nr, std::uint64_t a = 0, std::uint64_t b = 0, std::uint64_t c = 0,
                    std::uint64_t d = 0, std::uint64_t e = 0, std::uint64_t f = 0);
  /** As call, throwing Error naming @p what on failure. */
  std::int64_t must(const char* what, pid_t tid, long nr, std::uint64_t a = 0, std::uint64_t b = 0,
                    std::uint64_t c = 0, std::uint64_t d = 0, std::uint64_t e = 0, std::uint64_t f = 0);
  /** A call that blocks: park the thread in it. @return the raw result: -512 … -516, or what it returned. */
  std::int64_t block(pid_t tid, long nr, const std::uint64_t (&arg)[6]);
  /** Make the thread leave by exit(2), without a trace in its memory. */
  void exit_thread(const cr_thread& thread);

  /** Put @p fd of ours at number @p target_fd of the target (replacing what is there). */
  void install(int fd, int target_fd, bool cloexec);

  /** Threads that have made calls so far: the kernel has touched their rseq area. */
  const std::vector<pid_t>& used() const { return used_by_; }

 private:
  void ready() {
    if (!data_) open();
  }
  void open();
  void begin_batch();
  void flush(pid_t tid, unsigned flags, cr_run& request);
  void map();

  Session& session_;
  std::uint64_t addr_ = 0, data_addr_ = 0, size_ = 0, data_size_ = 0;
  char* data_ = nullptr;  // our mapping of the data pages: what arguments point to
  std::vector<cr_call> table_;
  std::size_t ncalls_ = 0, args_used_ = 0;
  std::uint64_t bytes_ = 0;  // that the queued calls go through
  bool ran_ = false;    // the batch was run: its arguments may go
  bool stopped_ = false;  // a part of this batch that was run ahead has failed
  std::vector<std::int64_t> results_;  // of parts that were run ahead
  std::vector<pid_t> used_by_;
};

}  // namespace reprise
