// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/forward.h"

#include <atomic>

#include "api/channel.h"
#include "api/errors.h"
#include "api/targets.h"
#include "api/threads.h"

namespace reprise::api {
namespace {

constexpr unsigned kMost = 64;

struct Forward {
  cr_scope_t scope;
  pid_t target;
};

Forward g_list[kMost];
constinit std::atomic<unsigned> g_count{0};

int save(const Forward& forward) {
  Target target;
  if (const int err = target.find(forward.scope, forward.target); err != 0) return err;
  if (target.self()) return 0;  // is in it already
  Channel::Start start{Channel::Kind::checkpoint, {}};
  start.order.command = Command::checkpoint;
  start.order.target = target.id();
  start.order.scope = forward.scope;
  start.target_mem = target.mem();
  // Beside our own image where that is known: IMAGE.PID, else context.PID.
  start.path = channels_destination();
  Channel* channel = Channel::open(start);
  if (channel == nullptr) return errno;
  while (channel->wait(nullptr) < 0) {}
  const int err = channel->error();
  channel->close();
  return err;
}

}  // namespace

void forward_begin() { g_count.store(0); }

int forward_run() {
  const unsigned count = g_count.load();
  for (unsigned i = 0; i < count && i < kMost; ++i)
    if (const int err = save(g_list[i]); err != 0) return err;
  return 0;
}

}  // namespace reprise::api

using namespace reprise::api;

extern "C" int cr_forward_checkpoint(cr_scope_t scope, pid_t target) {
  const ThreadState* state = self();
  if (state == nullptr || state->chain == nullptr) return fail(CR_ENOTCB);
  if (!valid_scope(scope) || target < 0) return fail(EINVAL);
  if (!target_exists(scope, target)) return fail(ESRCH);
  const unsigned index = g_count.fetch_add(1);
  if (index >= kMost) {
    g_count.store(kMost);
    return fail(ENOSPC);
  }
  g_list[index] = {scope, target};
  return 0;
}
