// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file One run of cr_checkpoint, cr_pause or cr_restart. */
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <nlohmann/json.hpp>

#include "crd/process.h"

namespace reprise::crd {

/** What a command said with --json. */
struct ToolResult {
  bool ok = false;
  bool refused = false, temporary = false, permanent = false;
  std::string message;    ///< why not
  nlohmann::json report;  ///< all of it
};

class Tool {
 public:
  /**
   * @param argv the command is looked for beside crd, then in PATH; --json is added
   * @param fds to open in it beside 0, 1 and 2
   * @param said once: when it has reported, or has ended without
   * @param ended may be empty; for cr_restart, the end of what it has restarted
   */
  Tool(asio::io_context& loop, std::vector<std::string> argv, std::vector<std::pair<int, int>> fds,
       std::function<void(const ToolResult&)> said, std::function<void(int wait_status)> ended = nullptr);
  /** Kills it if it runs. */
  ~Tool();
  Process& process();
  /** Kill it, and the processes that it has made; no function is called any more. @return these processes */
  std::vector<pid_t> kill();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace reprise::crd
