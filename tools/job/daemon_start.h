// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file What crrun tells a daemon when it starts it: one line of JSON on its standard input. */
#include <cstdint>
#include <string>
#include <vector>

#include "job/keys.h"

namespace reprise::job {

/** Comes by standard input rather than by arguments, which everybody on the node could read. */
struct DaemonStart {
  std::string job;                     ///< id
  std::uint32_t node = 0;              ///< index of the node in the job
  std::vector<std::string> addresses;  ///< of crrun, in the order to try them: "tcp://10.0.0.1:5555", "tcp://[fe80::1%eth0]:5555"
  std::string server_public_key;       ///< of crrun
  KeyPair client;                      ///< of the job's daemons
  std::string log_level = "warning";
  std::string run_directory;           ///< "": the usual one; for several daemons on one host
  bool relays = false;                 ///< it listens for daemons below it
  std::vector<std::string> interfaces; ///< and tells only its addresses in these; none: all
  std::vector<std::string> parent_addresses;  ///< to be tried before crrun; none: it has no parent
  std::string parent_public_key;
};

/** One line, without its end. */
std::string daemon_start_line(const DaemonStart& start);
/** Throws std::runtime_error naming what is missing or wrong. */
DaemonStart parse_daemon_start(const std::string& line);

}  // namespace reprise::job
