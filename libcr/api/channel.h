// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The program's end of a helper process. Channels are never freed, only used
 * again: a handle stays a valid address, and the agent may walk them at any time.
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
  /** What a handle belongs to; a handle of the wrong kind is as bad as none. */
  enum class Kind { checkpoint, restart, pause, snapshot };

  /** What a helper is started with; descriptors and strings stay the caller's. */
  struct Start {
    Kind kind;
    Order order;
    int target_mem = -1;  ///< /proc/PID/mem of the target, -1: it is this process, or there are several
    int image = -1;
    const char* path = nullptr;                     ///< of the image instead of a descriptor
    const cr_rstrt_relocate* relocate = nullptr;
    const Forward* forwards = nullptr;              ///< order.forwards of them
    bool saves_self = false;                        ///< this process is to be saved
  };
  /**
   * Start a helper and send it its first order. Does not allocate from the heap.
   * @return nullptr with errno and the sentence set
   */
  static Channel* open(const Start& start);
  /** @return the channel of a handle, nullptr with errno EINVAL */
  static Channel* find(Kind kind, unsigned long handle);
  /** An idle snapshot channel for @p target, if there is one. */
  static Channel* find_target(pid_t target);

  unsigned long handle() const { return reinterpret_cast<unsigned long>(this); }
  pid_t target() const { return target_; }

  /** A further order; the answer is awaited by wait(). One at a time. */
  void send(const Order& order);
  /**
   * Wait until the target knows of the request, or there is an answer, but no longer than that takes in earnest. Makes
   * the process that a restart asks for meanwhile.
   */
  void wait_started();
  /** Wait until the agent of this very process has changed @p heard from @p before, with the same limits. */
  void wait_heard(Word& heard, std::uint32_t before);
  /** Has it come to an end before the target knew of it? */
  bool refused() const { return answered() && block_.load()->progress.load() == kPreparing && block_.load()->error != 0; }
  /** @return 1 answered (or never will be), 0 time is up, -1 with errno EINTR */
  int wait(timeval* timeout);
  bool answered() const;
  /** @return errno or CR_E* code of the answer, 0 for success; sets the sentence */
  int error();
  std::int64_t value() const { return block_.load()->value; }
  int copy_log(char* to, unsigned len) const;
  /** Forget it; the helper ends by itself. */
  void close();

  /** One user at a time, for snapshots. */
  void lock();
  void unlock();

 private:
  friend void channels_overtaken();
  friend void channels_after_fork();
  friend const char* channels_destination();

  static Channel* unused();
  static int prepare(const Start& start, Block*& block, int socket);
  static int start_helper(const Start& start, Block* block, int block_fd, int socket);
  void make_child();
  bool helper_gone() const;
  bool overtaken() const;
  void wait_for_callbacks() const;

  Channel* next_ = nullptr;
  std::atomic<bool> used_{false};
  std::atomic<Block*> block_{nullptr};
  Kind kind_ = Kind::checkpoint;
  pid_t target_ = 0;
  bool saves_self_ = false;
  bool lasting_ = false;       // answers also after this process was rolled back
  unsigned generation_ = 0;
  bool gone_ = false;
  int socket_ = -1;            // restart: to hand the process over that is being made
  pid_t child_ = 0;            // that process
  std::uint32_t number_ = 0;   // of the last order
  Word busy_{0};
  ParkedFd parked_;
  char destination_[512] = "";

  static std::atomic<Channel*> first_;
};

/** The holder is not interrupted for callbacks: the agent may need the lock while others are. */
void channels_lock();
void channels_unlock();
void channels_after_fork();

/** For the agent: requests made before this moment will not be answered any more. Lock-free. */
void channels_overtaken();
/** For the agent: path of the image of the request this process has made of itself, or "". Lock-free. */
const char* channels_destination();

}  // namespace reprise::api
