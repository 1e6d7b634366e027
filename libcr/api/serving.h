// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The state of the request being served, shared by the agent and the interrupted threads. */
#include "api/futex.h"
#include "libcr.h"

namespace reprise::api {

struct Serving {
  Word state{CR_STATE_IDLE};
  Word heard{0};      ///< number of requests of which the agent was notified
  Word number{0};     ///< number of the request being served; the next two words are compared with it
  Word decided{0};    ///< number of the last request whose outcome is known
  Word released{0};   ///< number of the last request whose callbacks have all returned
  Word progress{0};   ///< changes whenever an interrupted thread reaches another stage
  std::atomic<int> refusal{0};   ///< errno or CR_E* code with which a callback refused, 0: none did
  std::atomic<bool> kill{false}; ///< CR_CHECKPOINT_PERM_FAILURE
  std::atomic<bool> prohibit_self{false}; ///< CR_CHKPT_PROHIBIT_SELF
  std::atomic<int> result{0};    ///< what cr_checkpoint() returns
  cr_checkpoint_info checkpoint_info{};
  cr_restart_info restart_info{};
};

extern Serving g_serving;

/** Record that a callback refused. Only the first refusal counts. @param flags  argument of cr_checkpoint() */
void refuse(int flags);

}  // namespace reprise::api
