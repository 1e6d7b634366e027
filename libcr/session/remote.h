// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * System calls made by a parked thread of the target, in its own context and
 * with its own credentials (CR_IOC_ARENA, CR_IOC_RUN). Calls are queued until
 * run(), so that one ioctl makes many of them.
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
   * The arena is mapped on first use, because many requests never need it. The target must be
   * frozen at that time.
   * @param addr address of the arena in the target, 0: anywhere
   */
  explicit Remote(Session& session, std::uint64_t addr = 0) : session_(session), addr_(addr) {}
  ~Remote();  // unmaps only our side; the module unmaps the target's side at thaw
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;

  /** Move the arena to @p addr in the target, before the mappings at its current place change. */
  void move(std::uint64_t addr);
  bool mapped() const { return data_ != nullptr; }
  std::uint64_t addr() { return ready(), addr_; }   ///< address of the arena (code, gate and data) in the target
  std::uint64_t size() { return ready(), size_; }   ///< bytes of the arena

  /**
   * Allocate space for arguments in the arena, which both sides map, 16-byte aligned. Its
   * content stays readable after run() until the next argument() or add().
   * @param target receives the address in the target
   * @return pointer on our side, zeroed. Throws Error (permanent, E2BIG) when the batch is full.
   */
  void* argument(std::size_t bytes, std::uint64_t& target);
  std::uint64_t argument(std::string_view text);             ///< NUL-terminated copy
  /** A copy of @p value. @return its address in the target */
  template <class T>
  std::uint64_t argument_of(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::uint64_t at;
    std::memcpy(argument(sizeof value, at), &value, sizeof value);
    return at;
  }
  /** Whether the batch has room for @p calls more calls and @p bytes more bytes of arguments. If not, run() first. */
  bool room(std::size_t calls, std::size_t bytes);
  /** Most bytes that all arguments of one batch may take together. */
  std::size_t argument_capacity() { return ready(), data_size_; }

  /**
   * Queue a call. When the table of calls is full, the leader makes the queued calls first; their
   * results are kept for run().
   * @param stop_on_error do not make the later calls of the batch if this one fails
   * @return index of the call in the batch
   */
  struct Call {
    long nr;
    std::uint64_t arg[6]{};
    std::uint64_t bytes = 0;  ///< bytes of memory that the call processes: extends the timeout of the batch
  };
  std::size_t add(const Call& call, bool stop_on_error = true);

  /**
   * Run the queued calls on thread @p tid (0: the leader).
   * @return results by index, -errno on failure; -ECANCELED for calls that were not made because
   *         an earlier one failed
   */
  std::vector<std::int64_t> run(pid_t tid = 0);
  /** Run the queued calls, then this one. @return its result or -errno */
  std::int64_t call(pid_t tid, long nr, std::uint64_t a = 0, std::uint64_t b = 0, std::uint64_t c = 0,
                    std::uint64_t d = 0, std::uint64_t e = 0, std::uint64_t f = 0);
  /** As call(), but throws Error (permanent) that names @p what on failure. */
  std::int64_t must(const char* what, pid_t tid, long nr, std::uint64_t a = 0, std::uint64_t b = 0,
                    std::uint64_t c = 0, std::uint64_t d = 0, std::uint64_t e = 0, std::uint64_t f = 0);
  /**
   * Make a call that blocks, and leave the thread parked in it (CR_RUN_BLOCK).
   * @return the raw result: -ERESTART… (-512 … -516), or the result of a call that returned
   */
  std::int64_t block(pid_t tid, long nr, const std::uint64_t (&arg)[6]);
  /** Make the thread exit(2) without a write to the program's memory: no robust list, no clear_child_tid, no rseq. */
  void exit_thread(const cr_thread& thread);

  /** Install our descriptor @p fd as descriptor @p target_fd of the target; an open one is replaced. Throws Error. */
  void install(int fd, int target_fd, bool cloexec);

  /** Threads that have made calls so far. The kernel has written to their rseq areas. */
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
  char* data_ = nullptr;  // our mapping of the data pages, which hold the arguments
  std::vector<cr_call> table_;
  std::size_t ncalls_ = 0, args_used_ = 0;
  std::uint64_t bytes_ = 0;  // sum of Call::bytes of the queued calls
  bool ran_ = false;    // the batch was run: the next one may overwrite its arguments
  bool stopped_ = false;  // a call of a part that was run ahead failed: make no more calls of this batch
  std::vector<std::int64_t> results_;  // results of the parts that were run so far
  std::vector<pid_t> used_by_;
};

}  // namespace reprise
