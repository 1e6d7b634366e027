// SPDX-License-Identifier: LGPL-2.1-or-later
// What a booster is told when its job is started: whose booster it is, and how it proves that.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace croff {

using Secret = std::array<unsigned char, 32>;

struct Invitation {
  std::string lifeline;              // of the first master
  Secret secret{};                   // of the group
  std::vector<std::string> masters;  // where each waits for the boosters

  /** The value of the variable kInvitation. Not an argument: those can be read by other users. */
  std::string text() const;
};

constexpr const char *kInvitation = "CROFF_BOOSTER";

/** The one of this process; nothing: it is no booster. Programs that it starts are none. */
const std::optional<Invitation> &invitation();

}  // namespace croff
