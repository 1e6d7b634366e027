// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Credentials of a thread, and which changes of them the kernel permits (credentials(7), capabilities(7)). */
#include <linux/capability.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "image/state.pb.h"

namespace reprise {

struct Credentials {
  std::array<std::uint32_t, 4> uids{};  ///< real, effective, saved, filesystem
  std::array<std::uint32_t, 4> gids{};
  std::vector<std::uint32_t> groups;    ///< sorted
  std::uint64_t inheritable = 0, permitted = 0, effective = 0, bounding = 0, ambient = 0;
  std::uint32_t securebits = 0;         ///< not in /proc
  bool no_new_privs = false;
  bool operator==(const Credentials&) const = default;
};

/** Parse the content of /proc/PID/status, which lacks the securebits. Throws Error (permanent) when it is malformed. */
Credentials parse_credentials(const std::string& status);

/** @return the credentials of the calling thread, with its securebits. Throws Error. */
Credentials own_credentials();

/** @return the saved credentials of the leader. @param known  mask of the capabilities that this kernel has */
Credentials saved_credentials(const Environment& saved, std::uint64_t known);

/** @return the saved credentials of @p thread: its own, or the leader's if the image has none for it */
Credentials saved_credentials(const Process& image, const Thread& thread, std::uint64_t known);

/** Store credentials in the image: of the leader, of another thread. */
void save_credentials(const Credentials& has, Environment& saved);
void save_credentials(const Credentials& has, Thread::Credentials& saved);

/** @return credentials after @p caller executes a program without file capabilities or set-user-ID (capabilities(7)) */
Credentials executed_by(const Credentials& caller);

/** @return the capability sets of @p who in the format of capset(2), _LINUX_CAPABILITY_VERSION_3 */
std::array<__user_cap_data_struct, 2> capability_words(const Credentials& who);

/** @return mask of the capabilities that the running kernel has */
std::uint64_t known_capabilities();

/**
 * Check whether a thread with @p from can change its credentials to @p to. Does not check what a thread can only give
 * up: bits of its bounding set, and no_new_privs (see narrower()).
 * @return "" if it can, otherwise the first part of @p to that it cannot set
 */
std::string why_not(const Credentials& from, const Credentials& to);

/** Whether the thread must set PR_SET_KEEPCAPS while it changes its user ids, to keep its capabilities. */
bool must_keep_capabilities(const Credentials& from, const Credentials& to);

/** Whether the thread must raise ambient capabilities. A change of user ids clears them. */
bool raises_ambient(const Credentials& from, const Credentials& to);

/** @return @p to with the bounding set and no_new_privs that a thread with @p from can have */
Credentials reachable(const Credentials& from, const Credentials& to);

/** @return how bounding set and no_new_privs of reachable() differ from @p to, as text; "" if they do not */
std::string narrower(const Credentials& from, const Credentials& to);

}  // namespace reprise
