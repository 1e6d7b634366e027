// SPDX-License-Identifier: LGPL-2.1-or-later
// TCP connections of boosters to their masters.
#pragma once

#include <string>

namespace croff {

/** A socket that listens at any port, on all interfaces. */
class Entrance {
 public:
  /** @param what it is for, for messages @throw Error(spawn) */
  Entrance(const std::string &what, int most_waiting);
  ~Entrance() { shut(); }
  Entrance(const Entrance &) = delete;
  Entrance &operator=(const Entrance &) = delete;
  /** "ADDRESS,ADDRESS:PORT" */
  const std::string &where() const { return where_; }
  int socket() const { return socket_; }
  void shut();

 private:
  int socket_ = -1;
  std::string where_;
};

/** Connect to the first address that answers, each within 3 s. The connection ends if the other node is lost.
 *  @return a nonblocking socket; -1 with errno: none answers; ECONNREFUSED if one refuses */
int connect_to(const std::string &where);
/** Of a connection: what is written goes at once, and it ends if the other node is lost, which resets nothing. */
void prepare(int socket);

}  // namespace croff
