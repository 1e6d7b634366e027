// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The 32 bits that a request hands to the callbacks of its target, by way of the
 * module (struct cr_notify, member flags): what cr_get_checkpoint_info() tells.
 */
#include <sys/types.h>

#include <cstdint>

namespace reprise::api {

/** Pids have 22 bits: the kernel's PID_MAX_LIMIT. */
constexpr int kRequestTargetShift = 10;
constexpr std::uint32_t kRequestProhibitSelf = 0x80;

/**
 * @param signal sent afterwards, 0: none
 * @param scope cr_scope_t
 * @param prohibit_self CR_CHKPT_PROHIBIT_SELF
 * @param target process, group or session that the scope is of; 0: the process that hears of it
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
