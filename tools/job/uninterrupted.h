// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Calls of ZeroMQ, which fail with EINTR when a signal arrives: the end of a child process must not end a daemon. */
#include <cerrno>

#include <zmq.hpp>

namespace reprise::job {

/** Repeat @p call until no signal interrupts it. ZeroMQ has done nothing then. @return what it returns */
template <class Call>
auto uninterrupted(Call call) {
  for (;;) {
    try {
      return call();
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;
    }
  }
}

}  // namespace reprise::job
