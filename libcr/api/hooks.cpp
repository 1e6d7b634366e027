// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/hooks.h"

#include <cerrno>

#include "api/agent.h"
#include "api/interrupt.h"

namespace reprise::api {
namespace {

constinit std::atomic<cr_hook_fn_t> g_hooks[CR_NUM_HOOKS]{};
constinit std::atomic<int> g_hold_init{CR_HOLD_BOTH};
constinit std::atomic<int> g_hold_uninit{CR_HOLD_NONE};
constinit std::atomic<bool> g_hold_init_asked{false};  // the program has set g_hold_init itself

cr_hook_event_t event_of(int first, Place place) {
  return static_cast<cr_hook_event_t>(first + static_cast<int>(place));
}

bool any_hook(Place place) {
  return g_hooks[event_of(CR_HOOK_CONT_SIGNAL_CONTEXT, place)].load() != nullptr ||
         g_hooks[event_of(CR_HOOK_RSTRT_SIGNAL_CONTEXT, place)].load() != nullptr ||
         g_hooks[event_of(CR_HOOK_PAUSED_SIGNAL_CONTEXT, place)].load() != nullptr;
}

/** Run the hook of @p event. @return whether there is one */
bool run(cr_hook_event_t event) {
  const cr_hook_fn_t hook = g_hooks[event].load();
  if (hook != nullptr) hook(event);
  return hook != nullptr;
}

}  // namespace

void run_hook(Place place, int result) {
  if (result < 0) return;
  if (result == CR_CONTINUED) {
    run(event_of(CR_HOOK_CONT_SIGNAL_CONTEXT, place));
    return;
  }
  // Without a hook for pauses, run the one for restarts: BLCR programs have no other.
  if (result == CR_PAUSED && run(event_of(CR_HOOK_PAUSED_SIGNAL_CONTEXT, place))) return;
  run(event_of(CR_HOOK_RSTRT_SIGNAL_CONTEXT, place));
}

void run_prepare_hook() { run(CR_HOOK_PAUSE_PREPARE); }

bool hooks_want(const ThreadState* state) {
  if (state == nullptr) return any_hook(Place::no_callbacks) || g_hold_uninit.load() != CR_HOLD_NONE;
  if (any_hook(Place::signal_context)) return true;
  const int own = state->hold.load();
  if (own != CR_HOLD_DFLT) return own != CR_HOLD_NONE;
  return g_hold_init_asked.load() && g_hold_init.load() != CR_HOLD_NONE;
}

bool held(const ThreadState* state, int result) {
  int flags = g_hold_uninit.load();
  if (state != nullptr) {
    flags = state->hold.load();
    if (flags == CR_HOLD_DFLT) flags = g_hold_init.load();
  }
  if (result < 0) return true;  // no checkpoint was taken: all threads continue together
  return (flags & (result == CR_CONTINUED ? CR_HOLD_CONT : CR_HOLD_RSTRT)) != 0;
}

}  // namespace reprise::api

using namespace reprise::api;

extern "C" {

cr_hook_fn_t cr_register_hook(cr_hook_event_t event, cr_hook_fn_t func) {
  if (self() == nullptr) {
    errno = CR_ENOINIT;
    return CR_HOOK_FN_ERROR;
  }
  const int number = static_cast<int>(event);
  if (number < 0 || number >= CR_NUM_HOOKS || func == CR_HOOK_FN_ERROR) {
    errno = EINVAL;
    return CR_HOOK_FN_ERROR;
  }
  agent_ensure();
  interrupt_prepare();
  return g_hooks[number].exchange(func);
}

int cr_hold_ctrl(int scope, int flags) {
  ThreadState* state = self();
  if (state == nullptr) {
    errno = CR_ENOINIT;
    return -1;
  }
  const bool value = flags >= CR_HOLD_NONE && flags <= CR_HOLD_BOTH;
  const bool valid = value || flags == CR_HOLD_READ || (flags == CR_HOLD_DFLT && scope == CR_HOLD_SCOPE_THREAD);
  std::atomic<int>* which = scope == CR_HOLD_SCOPE_THREAD   ? &state->hold
                            : scope == CR_HOLD_SCOPE_INIT   ? &g_hold_init
                            : scope == CR_HOLD_SCOPE_UNINIT ? &g_hold_uninit
                                                            : nullptr;
  if (which == nullptr || !valid) {
    errno = EINVAL;
    return -1;
  }
  if (flags == CR_HOLD_READ) return which->load();
  if (scope == CR_HOLD_SCOPE_INIT) g_hold_init_asked.store(true);
  return which->exchange(flags);
}

}  // extern "C"
