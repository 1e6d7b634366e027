// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/snapshot.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "api/agent.h"
#include "api/agent_device.h"
#include "api/channel.h"
#include "api/errors.h"
#include "api/fork.h"
#include "api/futex.h"
#include "api/targets.h"
#include "api/threads.h"

namespace reprise::api {
namespace {

constexpr unsigned kFlags =
    CR_SNAPSHOT_CALLBACKS | CR_SNAPSHOT_REWIND_FILES | CR_SNAPSHOT_KEEP_SHARED | CR_SNAPSHOT_RESTORE_SHARED;
constexpr unsigned kOneOf = CR_SNAPSHOT_KEEP_SHARED | CR_SNAPSHOT_RESTORE_SHARED;

/** A snapshot handle. The helper identifies the snapshot by its number. Freed by forget(). */
struct Snapshot {
  Snapshot* next;
  Channel* channel;
  std::uint64_t number;
};

Snapshot* g_snapshots = nullptr;  // under channels_lock(), so that the child of a fork() can free it
std::uint64_t g_last_number = 0;  // under Turn
Word g_turn{0};                   // 1 while a thread has its turn

/**
 * The turn of a thread to look up a snapshot, send an order to its helper, and wait for the answer. The answer may come
 * only after callbacks of this process. So a callback does not wait for its turn, and neither does fork().
 */
class Turn {
 public:
  Turn() {
    const ThreadState* state = self();
    const bool in_callback = state != nullptr && state->chain != nullptr;
    while (!(mine_ = g_turn.exchange(1) == 0) && !in_callback) futex_wait(g_turn, 1);
  }
  ~Turn() {
    if (!mine_) return;
    g_turn.store(0);
    futex_wake(g_turn);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  /** @return false in a callback when another thread, or the one that was interrupted for it, has its turn */
  bool mine() const { return mine_; }

 private:
  bool mine_ = false;
};

int refuse_in_callback() {
  return fail(EBUSY, "a snapshot is being taken, rolled back to or dropped, and waits for this callback");
}

/** @return the snapshot; nullptr if there is none, with errno and the text of cr_last_error() set */
Snapshot* find(cr_snapshot_t handle) {
  {
    const ChannelsLock lock;
    for (Snapshot* at = g_snapshots; at != nullptr; at = at->next)
      if (reinterpret_cast<cr_snapshot_t>(at) == handle) return at;
  }
  fail(EINVAL, "no such snapshot in this process");
  return nullptr;
}

void add(Snapshot* snapshot) {
  const ChannelsLock lock;
  snapshot->next = g_snapshots;
  g_snapshots = snapshot;
}

/** Remove @p snapshot from the list. @return whether others use the same channel */
bool remove(const Snapshot* snapshot) {
  const ChannelsLock lock;
  bool shared = false;
  for (Snapshot** at = &g_snapshots; *at != nullptr;) {
    if (*at == snapshot) {
      *at = snapshot->next;
      continue;
    }
    shared = shared || (*at)->channel == snapshot->channel;
    at = &(*at)->next;
  }
  return shared;
}

/**
 * Send an order and wait for its answer.
 * @param order  nullptr: it was sent at the start of the helper
 * @return 0, or an errno or CR_E* code
 */
int converse(Channel& channel, const Order* order) {
  if (order != nullptr) channel.send(*order);
  while (channel.wait(nullptr) < 0) {}  // EINTR: the order cannot be cancelled
  return channel.error();
}

void forget(Snapshot* snapshot) {
  const bool shared = remove(snapshot);
  // Keep the helper of snapshots of this process: the next snapshot does not need to start one.
  Channel* channel = snapshot->channel;
  if (channel != nullptr && !shared && channel->target() != getpid()) channel->close();
  std::free(snapshot);
}

/** @param image  descriptor of the image that the process is rolled back to; -1: take a snapshot of it as it is */
int obtain(Target& target, int image, unsigned flags, Snapshot* snapshot, std::int64_t& value) {
  Order order;
  order.command = image < 0 ? Command::take : Command::load;
  order.target = target.id();
  order.flags = flags;
  order.snapshot = snapshot->number;
  Channel* channel = image < 0 ? Channel::find_target(target.id()) : nullptr;
  const bool started = channel == nullptr;
  if (started) {
    Channel::Start start{Channel::Kind::snapshot, order};
    start.target_mem = target.mem();
    start.image = image;
    start.saves_self = target.self();
    channel = Channel::open(start);
    if (channel == nullptr) return errno;
  }
  snapshot->channel = channel;
  const int err = converse(*channel, started ? nullptr : &order);
  if (err == 0) value = channel->value();
  return err;
}

/** @return as cr_snapshot_take() */
int make(Target& target, int image, unsigned flags, cr_snapshot_t* handle) {
  const Turn turn;
  if (!turn.mine()) return refuse_in_callback();
  auto* snapshot = static_cast<Snapshot*>(std::calloc(1, sizeof(Snapshot)));
  if (snapshot == nullptr) return fail(ENOMEM);

  install_fork_handlers();
  // Add it to the list first: the memory that a rollback restores must contain the entry.
  snapshot->number = ++g_last_number;
  add(snapshot);
  *handle = reinterpret_cast<cr_snapshot_t>(snapshot);
  std::int64_t value = 0;
  const int err = obtain(target, image, flags, snapshot, value);
  if (err == 0) return static_cast<int>(value);
  forget(snapshot);
  *handle = 0;
  errno = err;
  return -1;
}

}  // namespace

void snapshots_after_fork() {
  while (g_snapshots != nullptr) {
    Snapshot* next = g_snapshots->next;
    std::free(g_snapshots);
    g_snapshots = next;
  }
  g_turn.store(0);
}

}  // namespace reprise::api

using namespace reprise::api;

extern "C" {

int cr_snapshot_take(pid_t pid, unsigned int flags, cr_snapshot_t* handle) {
  clear_error();
  if (pid < 0 || (flags & ~kFlags) != 0 || (flags & kOneOf) == kOneOf || handle == nullptr) return fail(EINVAL);
  if (!device::present()) return fail(ENOSYS, "the kernel module is not loaded (no /dev/cr)");
  Target target;
  if (const int err = target.find(CR_SCOPE_PROC, pid); err != 0) return fail(err);
  if (target.self() && (flags & CR_SNAPSHOT_CALLBACKS) != 0)
    if (const int err = agent_ensure(); err != 0) return fail(err);
  return make(target, -1, flags, handle);
}

int cr_snapshot_load(pid_t pid, int fd, unsigned int flags, cr_snapshot_t* handle) {
  clear_error();
  if (pid < 0 || (flags & ~kFlags) != 0 || (flags & kOneOf) == kOneOf || handle == nullptr) return fail(EINVAL);
  if (fcntl(fd, F_GETFD) < 0) return fail(EBADF, "fd is not open");
  if (!device::present()) return fail(ENOSYS, "the kernel module is not loaded (no /dev/cr)");
  Target target;
  if (const int err = target.find(CR_SCOPE_PROC, pid); err != 0) return fail(err);
  if (target.self())
    return fail(EINVAL, "a process cannot keep an image of itself, since the rollback would undo the call: use cr_request_pause()");
  return make(target, fd, flags, handle);
}

int cr_snapshot_rollback(cr_snapshot_t handle) {
  clear_error();
  const Turn turn;
  if (!turn.mine()) return refuse_in_callback();
  Snapshot* snapshot = find(handle);
  if (snapshot == nullptr) return -1;
  Order order;
  order.command = Command::rollback;
  order.snapshot = snapshot->number;
  // When it returns, the target is another process.
  return converse(*snapshot->channel, &order) == 0 ? 0 : -1;
}

int cr_snapshot_drop(cr_snapshot_t handle) {
  clear_error();
  const Turn turn;
  if (!turn.mine()) return refuse_in_callback();
  Snapshot* snapshot = find(handle);
  if (snapshot == nullptr) return -1;
  Order order;
  order.command = Command::drop;
  order.snapshot = snapshot->number;
  converse(*snapshot->channel, &order);  // ignore errors: a helper that has died has dropped the snapshot
  forget(snapshot);
  clear_error();
  return 0;
}

}  // extern "C"
