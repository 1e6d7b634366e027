// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The client of a target that is a network server: it sends the input, and takes what the target answers. */
#include <poll.h>
#include <sys/socket.h>

#include <vector>

#include "base/unique_fd.h"

namespace reprise::afl {

class Client {
 public:
  /** Connect to @p address, to send what is in our standard input. Throws Error. */
  Client(const sockaddr_storage& address, socklen_t size);
  /** What to wait for. */
  void wants(pollfd& wait) const;
  /** Go on with what can be done now. @return whether the target has closed its end */
  bool serve();

 private:
  bool send();

  UniqueFd socket_;
  std::vector<char> input_;
  std::size_t sent_ = 0;
  bool closed_ = false;  ///< all is sent, and the target knows
};

}  // namespace reprise::afl
