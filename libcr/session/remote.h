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
#include <vector>

#include "session/session.h"

namespace reprise {

class Remote {
 public:
  /** Maps the arena at @p addr in the target (0: anywhere). The session must be frozen. */
  explicit Remote(Session& session, std::uint64_t addr = 0);
  ~Remote();  // unmaps only our side; the module unmaps the target's at thaw
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;

  /** Move the target's side: the mapping at its place is about to change. */
  void move(std::uint64_t addr);
  std::uint64_t addr() const { return addr_; }   ///< where code, gate and data lie in the target
  std::uint64_t size() const { return size_; }

  /**
   * Space for arguments in the arena that both sides see; valid until the next run().
   * @return pointer on our side; @p target receives the address in the target.
   */
  void* argument(std::size_t bytes, std::uint64_t& target);
  std::uint64_t argument(std::string_view text);             ///< NUL-terminated copy
  template <class T> std::uint64_t argument_of(const T& value) {
    std::uint64_t at; std::memcpy(argument(sizeof value, at), &value, sizeof value); return at;
  }

  /** Queue a call. @return its index in the batch. Runs the batch first when it is full. */
  struct Call { long nr; std::uint64_t arg[6]{}; };
  std::size_t add(const Call& call, bool stop_on_error = true);

  /** Run the queued calls on @p tid (0: the leader). Results by index, -errno on failure. */
  std::vector<std::int64_t> run(pid_t tid = 0);
  /** One call, at once; queued calls are run before. Returns result or -errno. */
  std::int64_t call(pid_t tid, long nr, std::uint64_t a = 0, std::uint64_t b = 0, std::uint64_t c = 0,
                    std::uint64_t d = 0, std::uint64_t e = 0, std::uint64_t f = 0);
  /** As call, throwing Error naming @p what on failure. */
  std::int64_t must(const char* what, pid_t tid, long nr, std::uint64_t a = 0, std::uint64_t b = 0,
                    std::uint64_t c = 0, std::uint64_t d = 0, std::uint64_t e = 0, std::uint64_t f = 0);
  /** A call that blocks: park the thread in it. @return the raw result: -512 … -516, or what it returned. */
  std::int64_t block(pid_t tid, long nr, const std::uint64_t (&arg)[6]);
  /** Make the thread leave by exit(2). */
  void exit_thread(pid_t tid);

  /** Put @p fd of ours at number @p target_fd of the target (replacing what is there). */
  void install(int fd, int target_fd, bool cloexec);

 private:
  Session& session_;
  std::uint64_t addr_ = 0, data_addr_ = 0, size_ = 0, data_size_ = 0;
  char* data_ = nullptr;      // our mapping of the data pages
  std::size_t ncalls_ = 0, used_ = 0;
};

}  // namespace reprise
