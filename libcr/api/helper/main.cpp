// SPDX-License-Identifier: LGPL-2.1-or-later
/**
 * @file
 * cr-helper: carries out requests and holds snapshots for a program that uses libcr. It is
 * a process of its own, because a process cannot freeze itself, and so that libcr.so does
 * not need the engine and its libraries.
 */
#include <signal.h>
#include <unistd.h>

#include <cstdio>

#include "api/helper/requests.h"
#include "api/helper/snapshots.h"

namespace {

using namespace reprise::api;

/** Reset the signal dispositions and the signal mask that the helper inherits from the program. */
void reset_signals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  // The helper reports its result in the shared block, so a closed pipe must not kill it.
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

Outcome carry_out(Service& service, const Order& order) {
  try {
    switch (order.command) {
      case Command::checkpoint: return carry_out_checkpoint(service, order);
      case Command::restart: return carry_out_restart(service, order);
      case Command::pause: return carry_out_pause(service, order);
      default: return {EINVAL, 0, "unknown order: library and helper are of different versions"};
    }
  } catch (const std::exception& exception) {
    return failed(exception);
  }
}

void keep_snapshots(Service& service, Order order) {
  // A long-lived helper must not keep a file system busy.
  if (chdir("/") != 0) return;
  Snapshots snapshots(service);
  do snapshots.serve(order);
  while (service.next(order));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("cr-helper is started by the library libcr, not by hand\n", stderr);
    return 2;
  }
  reset_signals();
  try {
    Service service(argv[1]);
    Order order;
    if (!service.next(order)) return 0;
    if (order.command == Command::take || order.command == Command::load) {
      keep_snapshots(service, order);
    } else {
      const Outcome outcome = carry_out(service, order);
      service.answer(outcome.error, outcome.value, outcome.sentence);
    }
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "cr-helper: %s\n", exception.what());
    return 1;
  }
  return 0;
}
