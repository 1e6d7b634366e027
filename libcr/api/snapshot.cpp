// SPDX-License-Identifier: LGPL-2.1-or-later
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "api/agent.h"
#include "api/agent_device.h"
#include "api/channel.h"
#include "api/errors.h"
#include "api/targets.h"

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

pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
Snapshot* g_snapshots = nullptr;
std::uint64_t g_last_number = 0;

class Lock {
 public:
  Lock() { pthread_mutex_lock(&g_mutex); }
  ~Lock() { pthread_mutex_unlock(&g_mutex); }
};

Snapshot** find(cr_snapshot_t handle) {
  for (Snapshot** at = &g_snapshots; *at != nullptr; at = &(*at)->next)
    if (reinterpret_cast<cr_snapshot_t>(*at) == handle) return at;
  return nullptr;
}

bool channel_in_use(const Channel* channel) {
  for (const Snapshot* at = g_snapshots; at != nullptr; at = at->next)
    if (at->channel == channel) return true;
  return false;
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
  Snapshot** at = find(reinterpret_cast<cr_snapshot_t>(snapshot));
  if (at != nullptr) *at = snapshot->next;
  // Keep the helper of snapshots of this process: the next snapshot does not need to start one.
  Channel* channel = snapshot->channel;
  if (channel != nullptr && !channel_in_use(channel) && channel->target() != getpid()) channel->close();
  std::free(snapshot);
}

int take(Target& target, unsigned flags, Snapshot* snapshot, std::int64_t& value) {
  Order order;
  order.command = Command::take;
  order.target = target.id();
  order.flags = flags;
  order.snapshot = snapshot->number;
  Channel* channel = Channel::find_target(target.id());
  const bool started = channel == nullptr;
  if (started) {
    Channel::Start start{Channel::Kind::snapshot, order};
    start.target_mem = target.mem();
    start.saves_self = target.self();
    channel = Channel::open(start);
    if (channel == nullptr) return errno;
  }
  snapshot->channel = channel;
  const int err = converse(*channel, started ? nullptr : &order);
  if (err == 0) value = channel->value();
  return err;
}

}  // namespace
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
  auto* snapshot = static_cast<Snapshot*>(std::calloc(1, sizeof(Snapshot)));
  if (snapshot == nullptr) return fail(ENOMEM);

  // Add it to the list first: the memory that a rollback restores must contain the entry.
  const Lock lock;
  snapshot->number = ++g_last_number;
  snapshot->next = g_snapshots;
  g_snapshots = snapshot;
  *handle = reinterpret_cast<cr_snapshot_t>(snapshot);
  std::int64_t value = 0;
  const int err = take(target, flags, snapshot, value);
  if (err == 0) return static_cast<int>(value);
  forget(snapshot);
  *handle = 0;
  errno = err;
  return -1;
}

int cr_snapshot_rollback(cr_snapshot_t handle) {
  clear_error();
  const Lock lock;
  Snapshot** at = find(handle);
  if (at == nullptr) return fail(EINVAL, "no such snapshot");
  Snapshot* snapshot = *at;
  Order order;
  order.command = Command::rollback;
  order.snapshot = snapshot->number;
  if (converse(*snapshot->channel, &order) != 0) return -1;
  // The target is another process, since a rollback of this one does not return. The helper has dropped the later
  // snapshots.
  for (Snapshot* next = g_snapshots; next != nullptr;) {
    Snapshot* candidate = next;
    next = next->next;
    if (candidate->channel == snapshot->channel && candidate->number > snapshot->number) forget(candidate);
  }
  return 0;
}

int cr_snapshot_drop(cr_snapshot_t handle) {
  clear_error();
  const Lock lock;
  Snapshot** at = find(handle);
  if (at == nullptr) return fail(EINVAL, "no such snapshot");
  Snapshot* snapshot = *at;
  Order order;
  order.command = Command::drop;
  order.snapshot = snapshot->number;
  converse(*snapshot->channel, &order);  // ignore errors: a helper that has died has dropped the snapshot
  forget(snapshot);
  clear_error();
  return 0;
}

}  // extern "C"
