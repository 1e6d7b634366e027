// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/fork.h"

#include <pthread.h>

#include "api/agent.h"
#include "api/channel.h"
#include "api/gate.h"
#include "api/snapshot.h"
#include "api/threads.h"

namespace reprise::api {
namespace {

void before() {
  agent_lock();
  channels_lock();
  registry_lock();
}

void in_parent() {
  registry_unlock();
  channels_unlock();
  agent_unlock();
}

/**
 * The child has only the calling thread, without agent and helper. The callbacks of this
 * thread and those in thread context stay registered. The next call of agent_ensure(),
 * in cr_init() for example, starts the agent again.
 */
void in_child() {
  threads_after_fork();
  gate_after_fork();
  agent_after_fork();
  snapshots_after_fork();
  channels_after_fork();
  in_parent();
}

pthread_once_t g_once = PTHREAD_ONCE_INIT;

}  // namespace

void install_fork_handlers() {
  pthread_once(&g_once, [] { pthread_atfork(before, in_parent, in_child); });
}

}  // namespace reprise::api
