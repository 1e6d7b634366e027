// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/helper/program_as_parent.h"

#include <cerrno>
#include <cstdio>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "process/clocks.h"

namespace reprise::api {
namespace {

[[noreturn]] void fail_in_program(int error, const char* what) {
  throw Error(Failure::temporary, error, std::string("the program that wants them ") + what + ": " + error_text(error));
}

}  // namespace

pid_t ProgramAsParent::make(pid_t pid, const ClockOffsets* offsets, UniqueFd& mem) {
  ChildOrder order;
  order.wish = ChildWish::make;
  order.pid = pid;
  std::snprintf(order.clocks, sizeof order.clocks, "%s", offsets != nullptr ? offsets_text(*offsets).c_str() : "");
  const std::int32_t made = service_.ask(order);
  if (made <= 0) return made;
  mem = service_.receive();
  return mem ? made : -ESRCH;
}

int ProgramAsParent::wait() {
  ChildOrder order;
  order.wish = ChildWish::wait;
  const std::int32_t status = service_.ask(order);
  // ECHILD: it has reaped the process by itself.
  if (status < 0 && status != -ECHILD) fail_in_program(-status, "cannot wait for the process that makes the copies");
  return status < 0 ? 0 : status;
}

std::vector<UniqueFd> ProgramAsParent::take(const std::vector<pid_t>& children) {
  service_.copies_made(children);
  std::vector<UniqueFd> memory;
  for (const pid_t child : children) {
    ChildOrder order;
    order.wish = ChildWish::show;
    order.pid = child;
    if (const std::int32_t result = service_.ask(order); result < 0) fail_in_program(-result, "cannot open the memory of a copy");
    memory.push_back(service_.receive());
    if (!memory.back()) fail_in_program(errno, "does not send the memory of a copy");
  }
  service_.started();
  return memory;
}

}  // namespace reprise::api
