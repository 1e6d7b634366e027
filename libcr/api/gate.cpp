// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/gate.h"

#include <cerrno>

#include "api/chain.h"
#include "api/threads.h"
#include "libcr.h"

namespace reprise::api {
namespace {

constinit Word g_closed{0};
constinit Word g_left{0};  // changes whenever a thread leaves its section while the gate is closed

bool anybody_inside() {
  for (ThreadState* state = first_thread(); state != nullptr; state = state->next)
    if (state->used.load() && state->cs.load() > 0) return true;
  return false;
}

int fail(int err) {
  errno = err;
  return -1;
}

/** Check the arguments of the functions of critical sections. @return -1 error, 0 nothing to do, 1 continue */
int admit(cr_client_id_t id, ThreadState*& state) {
  state = self();
  if (state == nullptr) return fail(CR_ENOINIT);
  if (id != state->id && !(id == CR_ID_CALLBACK && state->chain != nullptr)) return fail(EINVAL);
  return state->chain == nullptr ? 1 : 0;  // in a callback the gate is closed anyway
}

}  // namespace

bool gate_closed() { return g_closed.load() != 0; }

void gate_wait_open() {
  while (g_closed.load() != 0) futex_wait(g_closed, 1);
}

void gate_close() { g_closed.store(1); }

void gate_wait_empty() {
  for (;;) {
    const std::uint32_t seen = g_left.load();
    registry_lock();  // waits for a thread that was changing the lists when the gate closed
    const bool busy = anybody_inside();
    registry_unlock();
    if (!busy) return;
    futex_wait(g_left, seen);
  }
}

void gate_open() {
  g_closed.store(0);
  futex_wake(g_closed);
}

void gate_left() {
  if (gate_closed()) bump(g_left);
}

void gate_after_fork() { g_closed.store(0); }

}  // namespace reprise::api

using namespace reprise::api;

extern "C" {

int cr_enter_cs(cr_client_id_t id) {
  ThreadState* state;
  if (const int go = admit(id, state); go <= 0) return go;
  for (;;) {
    if (state->cs.fetch_add(1) > 0 || !gate_closed()) return 0;
    state->cs.fetch_sub(1);
    gate_left();
    gate_wait_open();
  }
}

int cr_tryenter_cs(cr_client_id_t id) {
  ThreadState* state;
  if (const int go = admit(id, state); go <= 0) return go;
  if (state->cs.fetch_add(1) > 0 || !gate_closed()) return 0;
  state->cs.fetch_sub(1);
  gate_left();
  return 1;
}

int cr_leave_cs(cr_client_id_t id) {
  ThreadState* state;
  if (const int go = admit(id, state); go <= 0) return go;
  if (state->cs.load() == 0) return fail(EINVAL);
  if (state->cs.fetch_sub(1) > 1 || !gate_closed()) return 0;
  gate_left();
  // The last thread to leave waits until the request is over. The others do not: a thread inside may need them.
  if (!anybody_inside()) gate_wait_open();
  return 0;
}

}  // extern "C"
