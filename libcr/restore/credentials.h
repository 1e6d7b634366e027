// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Credentials of a thread, and what stands between some and others (credentials(7), capabilities(7)). */
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
  std::uint32_t securebits = 0;         ///< which /proc does not tell
  bool no_new_privs = false;
  bool operator==(const Credentials&) const = default;
};

/** From /proc/PID/status; without securebits. Throws Error when it cannot be understood. */
Credentials parse_credentials(const std::string& status);

/** Of this thread, with its securebits. */
Credentials own_credentials();

/** The leader's. @param known  capabilities that this kernel has */
Credentials saved_credentials(const Environment& saved, std::uint64_t known);

/** Of the thread in its place in the image. */
Credentials saved_credentials(const Process& image, const Thread& thread, std::uint64_t known);

/** Into the image. */
void save_credentials(const Credentials& has, Environment& saved);
void save_credentials(const Credentials& has, Thread::Credentials& saved);

/** What a program without rights of its own has when somebody with @p caller executes it (capabilities(7)). */
Credentials executed_by(const Credentials& caller);

/** The sets of @p who as capset(2) takes them, with _LINUX_CAPABILITY_VERSION_3. */
std::array<__user_cap_data_struct, 2> capability_words(const Credentials& who);

/** Capabilities that the running kernel has. */
std::uint64_t known_capabilities();

/**
 * Can a thread with @p from give itself @p to? Nothing that it lacks may be gained. What only ever narrows is left out.
 * @return "" or what stands against it
 */
std::string why_not(const Credentials& from, const Credentials& to);

/** While such a thread changes its user ids, PR_SET_KEEPCAPS must keep its capabilities. */
bool must_keep_capabilities(const Credentials& from, const Credentials& to);

/** Are ambient capabilities raised on the way? A change of user ids clears them. */
bool raises_ambient(const Credentials& from, const Credentials& to);

/** @p to, but with the bounding set and no_new_privs that a thread with @p from can have. */
Credentials reachable(const Credentials& from, const Credentials& to);

/** Can the bounding set and no_new_privs, which only ever narrow, be as they were? "" or what is different. */
std::string narrower(const Credentials& from, const Credentials& to);

}  // namespace reprise
