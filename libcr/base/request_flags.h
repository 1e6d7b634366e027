// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The 32 bits that a request passes to the callbacks of its target through the module
 * (struct cr_notify, member flags). cr_get_checkpoint_info() reports them.
 */
#include <sys/types.h>

#include <cstdint>

namespace reprise::api {

/** A pid takes the upper 22 bits: the kernel's PID_MAX_LIMIT is 4194304. */
constexpr int kRequestTargetShift = 10;
constexpr std::uint32_t kRequestProhibitSelf = 0x80;

/**
 * @param signal signal that is sent after the checkpoint, 0: none
 * @param scope cr_scope_t
 * @param target process, process group or session that @p scope refers to; 0: the process that is notified
 * @param prohibit_self CR_CHKPT_PROHIBIT_SELF
 */
constexpr std::uint32_t pack_request(int signal, int scope, pid_t target, bool prohibit_self = false) {
  return (static_cast<std::uint32_t>(signal) & 0x7F) | (prohibit_self ? kRequestProhibitSelf : 0) |
         (static_cast<std::uint32_t>(scope) & 3) << 8 |
         static_cast<std::uint32_t>(target) << kRequestTargetShift;
}
constexpr int request_signal(std::uint32_t flags) { return static_cast<int>(flags & 0x7F); }
constexpr int request_scope(std::uint32_t flags) { return static_cast<int>(flags >> 8 & 3); }
constexpr pid_t request_target(std::uint32_t flags) { return static_cast<pid_t>(flags >> kRequestTargetShift); }

}  // namespace reprise::api
