// SPDX-License-Identifier: LGPL-2.1-or-later
#include "invitation.h"

#include <signal.h>
#include <sodium.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "boosters/lifeline.h"

namespace croff {
namespace {

std::optional<Invitation> own;

std::optional<Invitation> parse(const char *text) {
  std::istringstream in(text);
  Invitation out;
  std::string hex, master;
  std::size_t length = 0;
  if (!(in >> out.lifeline >> hex)) return std::nullopt;
  if (sodium_hex2bin(out.secret.data(), out.secret.size(), hex.c_str(), hex.size(), nullptr, &length, nullptr) != 0 ||
      length != out.secret.size())
    return std::nullopt;
  while (in >> master) out.masters.push_back(master);
  if (out.masters.empty()) return std::nullopt;
  return out;
}

/** A booster holds its lifeline from its first moment: its master may die while it is in MPI_Init. */
__attribute__((constructor)) void read_invitation() {
  const char *text = getenv(kInvitation);
  if (!text) return;
  own = parse(text);
  unsetenv(kInvitation);
  if (!own) {
    fprintf(stderr, "croff: %s is for processes that deep_booster_alloc starts: unset it\n", kInvitation);
    _exit(2);
  }
  if (hold_lifeline(own->lifeline, Cut::try_again)) return;
  fprintf(stderr, "croff: a booster cannot reach its master at %s: it has ended, or TCP connections are not permitted\n",
          own->lifeline.c_str());
  _exit(kMasterLost);
}

}  // namespace

std::string Invitation::text() const {
  char hex[2 * sizeof(Secret) + 1];
  std::string all = lifeline + " " + sodium_bin2hex(hex, sizeof hex, secret.data(), secret.size());
  for (const std::string &master : masters) all += " " + master;
  return all;
}

const std::optional<Invitation> &invitation() { return own; }

}  // namespace croff
