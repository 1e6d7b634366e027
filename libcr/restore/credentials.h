// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Credentials of a thread as /proc tells them, and the way from some to others. */
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
  bool no_new_privs = false;
  bool operator==(const Credentials&) const = default;
};

/** From /proc/PID/status. Throws Error when it cannot be understood. */
Credentials parse_credentials(const std::string& status);

/** @param known  capabilities that this kernel has */
Credentials saved_credentials(const Environment& saved, std::uint64_t known);

/** What a program without rights of its own has when somebody with @p caller executes it (capabilities(7)). */
Credentials executed_by(const Credentials& caller);

/** The sets of @p who as capset(2) takes them, with _LINUX_CAPABILITY_VERSION_3. */
std::array<__user_cap_data_struct, 2> capability_words(const Credentials& who);

/** Capabilities that the running kernel has. */
std::uint64_t known_capabilities();

/**
 * Can a thread with @p from give itself @p to? Nothing that it lacks may be gained.
 * @return "" or what stands against it
 */
std::string why_not(const Credentials& from, const Credentials& to);

/** Can the bounding set and no_new_privs, which only ever narrow, be as they were? "" or what is different. */
std::string narrower(const Credentials& from, const Credentials& to);

}  // namespace reprise
