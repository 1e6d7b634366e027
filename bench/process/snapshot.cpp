// SPDX-License-Identifier: GPL-2.0-only
// snapshot PID: holds a snapshot of that process in memory. Takes commands on standard input, one per line: take,
// rollback, drop. Answers each with a line of JSON.
#include <cstdio>
#include <iostream>
#include <optional>

#include "report.h"
#include "request/snapshot.h"

using namespace reprise;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: snapshot PID\n");
    return 2;
  }
  std::string command;
  try {
    Session session = Session::attach(std::stoi(argv[1]));
    std::optional<Snapshot> snapshot;
    while (std::getline(std::cin, command)) {
      Report report;
      if (command == "take") {
        snapshot.reset();
        snapshot.emplace(Snapshot::take(session));
        report = snapshot->report();
      } else if (command == "rollback" && snapshot) {
        report = snapshot->rollback();
      } else if (command == "drop") {
        snapshot.reset();
      } else {
        throw Error(Failure::usage, EINVAL, "unknown command: use take, rollback or drop");
      }
      std::cout << tool::report_json(command, report) << std::endl;
    }
  } catch (const std::exception& error) {
    std::cout << tool::failure_json(command, Failure::permanent, 0, current_stage(), error.what()) << std::endl;
    return 1;
  }
  return 0;
}
