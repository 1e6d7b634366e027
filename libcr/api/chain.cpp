// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/chain.h"

#include <cerrno>

#include "api/agent.h"
#include "api/interrupt.h"
#include "api/serving.h"

namespace reprise::api {

constinit CallbackList g_thread_callbacks;
constinit Serving g_serving;

void refuse(int flags) {
  const int own = static_cast<int>((static_cast<unsigned>(flags) >> 16) & 0xFFFF);
  int code = own;
  if ((flags & CR_CHECKPOINT_PERM_FAILURE) != 0) {
    if (code == 0) code = CR_EPERMFAIL;
    g_serving.kill.store(true);
  } else if ((flags & CR_CHECKPOINT_TEMP_FAILURE) != 0) {
    if (code == 0) code = CR_ETEMPFAIL;
  } else {
    code = CR_EOMITTED;
  }
  int none = 0;
  g_serving.refusal.compare_exchange_strong(none, code);
}

Chain::Chain(ThreadState& self, CallbackList& list, Innermost innermost)
    : self_(self),
      list_(list),
      innermost_(innermost),
      context_(&list == &g_thread_callbacks ? CR_THREAD_CONTEXT : CR_SIGNAL_CONTEXT),
      next_(list.count) {
  self_.checkpoint_info = g_serving.checkpoint_info;
  self_.chain = this;
}

Chain::~Chain() { self_.chain = nullptr; }

int Chain::proceed(int flags) {
  if (decided_) return result_;
  const unsigned caller = current_;
  bool refused = (flags & CR_CHECKPOINT_ABORT_MASK) != 0;
  if (refused) refuse(flags);
  // A callback that returns 0 without a call of cr_checkpoint() counts as ready.
  while (!decided_ && !refused && next_ > 0) {
    current_ = --next_;
    const Callback callback = list_.items[current_];
    if (callback.func == nullptr || callback.func(callback.arg) == 0) continue;
    // The callback has failed, before or after the outcome.
    if (!decided_) {
      refuse(CR_CHECKPOINT_PERM_FAILURE);
      refused = true;
    } else if (result_ >= 0) {
      agent_give_up();
    }
  }
  if (!decided_) {
    result_ = innermost_(self_, refused);
    decided_ = true;
    self_.restart_info = g_serving.restart_info;
  }
  current_ = caller;
  return result_;
}

int Chain::replace_current(const Callback& callback, int flags) {
  if (flags != context_ || current_ >= list_.count) return EINVAL;
  list_.items[current_] = callback;
  return 0;
}

}  // namespace reprise::api

using namespace reprise::api;

namespace {

int fail(int err) {
  errno = err;
  return -1;
}

bool one_context(int flags) { return flags == CR_THREAD_CONTEXT || flags == CR_SIGNAL_CONTEXT; }

}  // namespace

extern "C" {

cr_callback_id_t cr_register_callback(cr_callback_t func, void* arg, int flags) {
  ThreadState* state = self();
  if (state == nullptr) return fail(CR_ENOINIT);
  if (state->chain != nullptr) return fail(EBUSY);
  if (!one_context(flags)) return fail(EINVAL);
  if (const int err = agent_ensure(); err != 0) return fail(err);
  if (flags == CR_SIGNAL_CONTEXT)
    if (const int err = interrupt_prepare(); err != 0) return fail(err);
  Registry lock(state);
  CallbackList& list = flags == CR_THREAD_CONTEXT ? g_thread_callbacks : state->callbacks;
  const int index = list.append({func, arg});
  return index < 0 ? fail(-index) : index | flags;
}

int cr_replace_callback(cr_callback_id_t id, cr_callback_t func, void* arg, int flags) {
  ThreadState* state = self();
  if (state == nullptr) return fail(CR_ENOINIT);
  if (state->chain != nullptr) return fail(EBUSY);
  if (!one_context(flags) || id < 0 || (id & (CR_THREAD_CONTEXT | CR_SIGNAL_CONTEXT)) != flags) return fail(EINVAL);
  const unsigned index = static_cast<unsigned>(id & CR_MAX_CALLBACKS);
  agent_ensure();
  Registry lock(state);
  CallbackList& list = flags == CR_THREAD_CONTEXT ? g_thread_callbacks : state->callbacks;
  if (index >= list.count) return fail(EINVAL);
  list.items[index] = {func, arg};
  return 0;
}

int cr_replace_self(cr_callback_t func, void* arg, int flags) {
  ThreadState* state = self();
  if (state == nullptr || state->chain == nullptr) return fail(CR_ENOTCB);
  const int err = state->chain->replace_current({func, arg}, flags);
  return err != 0 ? fail(err) : 0;
}

int cr_checkpoint(int flags) {
  ThreadState* state = self();
  if (state == nullptr || state->chain == nullptr) {
    errno = CR_ENOTCB;
    return -CR_ENOTCB;
  }
  return state->chain->proceed(flags);
}

const struct cr_checkpoint_info* cr_get_checkpoint_info(void) {
  ThreadState* state = self();
  if (state != nullptr && state->chain != nullptr) return &state->checkpoint_info;
  errno = CR_ENOTCB;
  return nullptr;
}

const struct cr_restart_info* cr_get_restart_info(void) {
  ThreadState* state = self();
  if (state != nullptr && state->chain != nullptr) return &state->restart_info;
  errno = CR_ENOTCB;
  return nullptr;
}

int cr_status(void) {
  if (self() == nullptr) return fail(CR_ENOINIT);
  return static_cast<int>(g_serving.state.load());
}

}  // extern "C"
