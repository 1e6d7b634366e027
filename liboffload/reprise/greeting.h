// SPDX-License-Identifier: LGPL-2.1-or-later
// How a booster and a master prove to each other that they know the group's secret, before the first order.
//
//     booster                                   master
//       Greeting   rank, nonce              ──>
//                                           <── Challenge  nonce, proof over both nonces and the rank
//       Proof      over the same            ──>
//
// A proof is an HMAC-SHA-256 with the secret as the key. What follows is not sealed, as the messages of MPI are not.
#pragma once

#include <cstdint>
#include <vector>

#include "base/idle.h"
#include "blocking.h"
#include "boosters/tcp.h"
#include "invitation.h"

namespace croff {

using Nonce = std::array<unsigned char, 32>;

struct Greeting {
  char magic[8] = {'c', 'r', 'o', 'f', 'f', 0, 0, 1};
  std::uint32_t rank = 0, reserved = 0;
  Nonce nonce{};
};
struct Challenge {
  Nonce nonce{};
  Nonce proof{};
};
struct Proof {
  Nonce proof{};
};

/** A booster's end, blocking. @return a nonblocking socket; -1: nobody answers who knows the secret */
int greet(const std::string &where, const Secret &secret, int rank, const Waiting &wait);

/** The master's end of a group: boosters arrive, also again after they were rolled back. Nonblocking. */
class Arrivals {
 public:
  Arrivals(int boosters, const Secret &secret);
  ~Arrivals();
  Arrivals(const Arrivals &) = delete;
  Arrivals &operator=(const Arrivals &) = delete;

  const std::string &where() const { return entrance_.where(); }
  /** Let in who is there. Those that have gone again do not count. */
  void serve();
  bool any() const;
  bool all() const;
  /** Sockets by booster: all have arrived. */
  std::vector<int> take();

 private:
  struct Guest {
    int socket;
    Idle patience;
    bool challenged = false;
    Greeting greeting;
    Proof proof, expected;
    std::size_t got = 0;
  };
  bool hear(Guest &guest);
  bool challenge(Guest &guest);

  Entrance entrance_;
  const Secret secret_;
  std::vector<Guest> guests_;
  std::vector<int> arrived_;  // -1: not yet
};

}  // namespace croff
