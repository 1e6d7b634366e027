// SPDX-License-Identifier: GPL-2.0-only
/**
 * A fake helper that only sends the answer that the test selects by cr_timeout, or by cr_signal of a restart. Orders for
 * snapshots always succeed.
 */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "api/helper/service.h"
#include "libcr.h"

int main(int argc, char** argv) {
  using namespace reprise::api;
  if (argc != 2) return 2;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  Service service(argv[1]);
  Order order;
  while (service.next(order)) {
    if (order.command == Command::take || order.command == Command::rollback || order.command == Command::drop) {
      service.answer(0, order.command == Command::take ? 0 : static_cast<std::int64_t>(order.snapshot));
      continue;
    }
    if (order.command == Command::restart && order.signal == SIGUSR2) {  // it takes long until the program has to help
      sleep(11);
      ChildOrder child;
      service.answer(0, service.ask(child));
      return 0;
    }
    if (order.timeout_s != 6) service.started();
    switch (order.timeout_s) {
      case 1:
        service.log("it went well");
        service.answer(0, 4242);
        return 0;
      case 2:
        service.answer(CR_EREFUSED, 0, "descriptor 7 is a teapot");
        return 0;
      case 3: return 0;  // exits without an answer
      case 4: pause(); return 0;
      case 6: service.answer(EACCES, 0, "descriptor 7 is somebody's"); return 0;
      case 5: {  // number of inherited descriptors
        int open = 0;
        for (int fd = 3; fd < 256; ++fd) open += access(("/proc/self/fd/" + std::to_string(fd)).c_str(), F_OK) == 0;
        service.log(service.text(0));
        service.answer(0, open);
        return 0;
      }
      case 7:  // what it is to do
        service.log(service.text(kImagePath) + "|" + service.text(kParentPath) + "|" + service.text(kCompression) + "|" + std::to_string(order.flags));
        service.answer(0, 1);
        return 0;
      default: service.answer(0, getpid()); return 0;
    }
  }
}
