// SPDX-License-Identifier: LGPL-2.1-or-later
#include "lifeline.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

namespace croff {
namespace {

std::atomic<bool> held{false};
int connection = -1;

/** A busy node may answer late; one that refuses has no master any more. */
int take_hold(const std::string &where) {
  constexpr int kTries = 10;
  int fd = -1;
  for (int i = 0; i < kTries; ++i) {
    fd = connect_to(where);
    if (fd >= 0 || errno == ECONNREFUSED) break;
    usleep(200000);
  }
  return fd;
}

void watch(const std::string &where, Cut then) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  for (;;) {
    pollfd wait{connection, POLLIN, 0};
    while (poll(&wait, 1, -1) < 0 && errno == EINTR) {
    }
    if (!held) return;
    if (then == Cut::die) kill(getpid(), SIGKILL);
    close(connection);
    connection = take_hold(where);
    if (connection < 0 && held) _exit(kMasterLost);
  }
}

}  // namespace

bool hold_lifeline(const std::string &where, Cut then) {
  connection = take_hold(where);
  if (connection < 0) return false;
  held = true;
  std::thread(watch, where, then).detach();
  return true;
}

void let_go_of_lifeline() { held = false; }

}  // namespace croff
