// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/forward.h"

#include <atomic>
#include <cerrno>

#include "api/agent_device.h"
#include "api/channel.h"
#include "api/errors.h"
#include "api/serving.h"
#include "api/targets.h"
#include "api/threads.h"

namespace reprise::api {
namespace {

constexpr unsigned kMost = 64;

Forward g_list[kMost];
constinit std::atomic<unsigned> g_count{0};

}  // namespace

void forward_begin() { g_count.store(0); }

int forward_run() {
  const unsigned count = g_count.load() < kMost ? g_count.load() : kMost;
  if (count == 0) return 0;
  const cr_checkpoint_info& served = g_serving.checkpoint_info;
  // One helper for all forwarded requests, so that a process that two of them name is saved once.
  Channel::Start start{Channel::Kind::checkpoint, {}};
  start.order.command = Command::checkpoint;
  start.order.target = served.target;
  start.order.scope = served.scope;
  start.order.forwards = count;
  start.forwards = g_list;
  // IMAGE.PID next to our own image if its path is known, else context.PID.
  start.path = served.dest;
  Channel* channel = Channel::open(start);
  if (channel == nullptr) return errno;
  while (channel->wait(nullptr) < 0) {}
  const int err = channel->error();
  channel->close();
  return err;
}

}  // namespace reprise::api

using namespace reprise::api;

extern "C" int cr_forward_checkpoint(cr_scope_t scope, pid_t target) {
  const ThreadState* state = self();
  if (state == nullptr || state->chain == nullptr) return fail(CR_ENOTCB);
  if (!valid_scope(scope) || target < 0) return fail(EINVAL);
  Target found;  // checks that the caller has access to the target
  if (const int err = found.find(scope, target); err != 0) return fail(err);
  if (found.mem() >= 0)
    if (device::ask(found.mem()) == EBUSY) return fail(EBUSY, "another request of that process is in progress");
  const cr_checkpoint_info& served = state->checkpoint_info;
  if (g_serving.prohibit_self.load() && target_includes(scope, found.id(), served.requester)) return fail(EDEADLK);
  const unsigned index = g_count.fetch_add(1);
  if (index >= kMost) {
    g_count.store(kMost);
    return fail(ENOSPC);
  }
  g_list[index] = {scope, found.id()};
  return 0;
}
