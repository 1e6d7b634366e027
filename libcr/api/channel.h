// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The program's connection to a helper process. Channels are never freed, only
 * reused: a handle stays a valid address, and the agent may walk their list at
 * any time.
 */
#include <sys/time.h>
#include <sys/types.h>

#include <atomic>

#include "api/forward.h"
#include "api/parked_fd.h"
#include "api/protocol.h"
#include "libcr.h"

namespace reprise::api {

class Channel {
 public:
  /** Kind of request that a handle belongs to. A handle of another kind is invalid. */
  enum class Kind { checkpoint, restart, pause, snapshot };

  /** Parameters for the start of a helper. Descriptors and strings are borrowed. */
  struct Start {
    Kind kind;
    Order order;
    int target_mem = -1;  ///< /proc/PID/mem of the target, -1: the target is this process, or several processes
    int image = -1;
    const char* path = nullptr;                     ///< checkpoint: path of the image, instead of a descriptor
    const char* parent = nullptr;                   ///< checkpoint: as cr_parent in libcr.h
    const char* compress = nullptr;                 ///< checkpoint: as cr_compress in libcr.h
    const cr_rstrt_relocate* relocate = nullptr;
    const cr_rstrt_fds* fds = nullptr;              ///< restart: as cr_fds in libcr.h
    const cr_rstrt_kept* kept = nullptr;            ///< restart: as cr_kept in libcr.h
    const Forward* forwards = nullptr;              ///< array of order.forwards elements
    bool saves_self = false;                        ///< this process is one of the targets
  };
  /**
   * Start a helper and send it its first order. Does not allocate from the heap.
   * @return the channel, or nullptr with errno and the text of cr_last_error() set
   */
  static Channel* open(const Start& start);
  /** @return the channel of a handle, or nullptr with errno EINVAL */
  static Channel* find(Kind kind, unsigned long handle);
  /** @return a snapshot channel for @p target whose helper lives, or nullptr */
  static Channel* find_target(pid_t target);

  unsigned long handle() const { return reinterpret_cast<unsigned long>(this); }
  pid_t target() const { return target_; }

  /** Send an order. Wait for its answer with wait() before the next one. */
  void send(const Order& order);
  /**
   * Wait until the target is notified of the request, or there is an answer, but at most 10 s. If the order is a
   * restart, create the process that the helper asks for, and wait until the processes exist.
   */
  void wait_started();
  /** Wait until the agent of this process has changed @p heard from @p before, with the same time limit. */
  void wait_heard(Word& heard, std::uint32_t before);
  /** Whether the request has failed before the target was notified. */
  bool refused() const { return answered() && block_.load()->progress.load() == kPreparing && block_.load()->error != 0; }
  /**
   * Wait for the answer.
   * @param timeout  longest time to wait, nullptr: no limit; receives the remaining time
   * @return 1 when there is an answer or will never be one, 0 after the timeout, -1 with errno EINTR
   */
  int wait(timeval* timeout);
  bool answered() const;
  /** @return errno or CR_E* code of the answer, 0 for success. On failure sets errno and the text of cr_last_error() */
  int error();
  std::int64_t value() const { return block_.load()->value; }
  /** Copy the pids of the processes that a restart has made, at most @p len. @return their number */
  unsigned copy_pids(pid_t* pids, unsigned len) const;
  /**
   * Copy the request's messages.
   * @param to   receives at most @p len bytes with the terminating NUL
   * @return bytes needed for all messages with the NUL, 0 if there are none
   */
  int copy_log(char* to, unsigned len) const;
  /** Release the channel. The helper exits by itself. */
  void close();

 private:
  friend void channels_overtaken();
  friend void channels_after_fork();
  friend const char* channels_destination();

  static Channel* unused();
  static int prepare(const Start& start, Block*& block, int socket);
  static int start_helper(const Start& start, Block* block, int block_fd, int socket);
  void serve_child();
  int make_child(const ChildOrder& order);
  int wait_child();
  int show_child(pid_t child);
  bool helper_gone() const;
  bool overtaken() const;
  void wait_for_callbacks() const;

  Channel* next_ = nullptr;
  std::atomic<bool> used_{false};
  std::atomic<Block*> block_{nullptr};
  Kind kind_ = Kind::checkpoint;
  pid_t target_ = 0;
  bool saves_self_ = false;
  bool lasting_ = false;       // the answer is valid also after this process was rolled back
  unsigned generation_ = 0;    // agent_generation() when the channel was opened
  bool gone_ = false;          // the helper has died without an answer
  int socket_ = -1;            // restart: passes the new process's /proc/PID/mem to the helper
  pid_t child_ = 0;            // restart: the new process, or that which makes the copies
  bool copies_ = false;        // restart: of several processes
  std::uint32_t number_ = 0;   // number of the last order
  ParkedFd parked_;
  char destination_[512] = "";

  static std::atomic<Channel*> first_;
};

/**
 * Lock and unlock the list of channels and that of snapshots. The holder blocks CR_SIGNUM: the agent may need the lock
 * while other threads are interrupted.
 */
void channels_lock();
void channels_unlock();
class ChannelsLock {
 public:
  ChannelsLock() { channels_lock(); }
  ~ChannelsLock() { channels_unlock(); }
  ChannelsLock(const ChannelsLock&) = delete;
  ChannelsLock& operator=(const ChannelsLock&) = delete;
};
/** Release all channels in the child of a fork(). */
void channels_after_fork();

/** For the agent after a restart or rollback: wake all waiters, because earlier requests get no answer. Lock-free. */
void channels_overtaken();
/** For the agent: path of the image of this process's request to save itself, or "". Lock-free. */
const char* channels_destination();

}  // namespace reprise::api
