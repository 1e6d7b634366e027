// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The one request that is being served, as the agent and the interrupted threads share it. */
#include "api/futex.h"
#include "libcr.h"

namespace reprise::api {

struct Serving {
  Word state{CR_STATE_IDLE};
  Word heard{0};      ///< counts the requests that the agent was told of
  Word number{0};     ///< of the request; the words below are compared with it
  Word decided{0};    ///< number of the last request whose outcome is known
  Word released{0};   ///< number of the last request whose callbacks are all through
  Word progress{0};   ///< changes whenever an interrupted thread has come further
  std::atomic<int> refusal{0};   ///< why a callback refused, 0: none did
  std::atomic<bool> kill{false}; ///< CR_CHECKPOINT_PERM_FAILURE
  std::atomic<bool> prohibit_self{false}; ///< CR_CHKPT_PROHIBIT_SELF
  std::atomic<int> result{0};    ///< what cr_checkpoint() returns
  cr_checkpoint_info checkpoint_info{};
  cr_restart_info restart_info{};
};

extern Serving g_serving;

/** Note that a callback refused, with the flags it gave. The first one counts. */
void refuse(int flags);

}  // namespace reprise::api
