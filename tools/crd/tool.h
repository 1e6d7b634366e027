// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file One run of cr_checkpoint, cr_pause or cr_restart, at once or held. */
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
  /** cr_pause or cr_restart that gets ready and waits for go(). */
  static std::unique_ptr<Tool> held(asio::io_context& loop, std::vector<std::string> argv, std::vector<std::pair<int, int>> fds);
  /** Kills it if it runs. */
  ~Tool();
  /** Let a held one go on, be it ready or not; @p said and @p ended as above. */
  void go(std::function<void(const ToolResult&)> said, std::function<void(int wait_status)> ended = nullptr);
  /** It has reported, or has ended: a held one that was not let go on could not get ready. */
  bool over() const;
  Process& process();
  /** Kill it, and the processes that it has made; no function is called any more. @return these processes */
  std::vector<pid_t> kill();

 private:
  struct State;
  explicit Tool(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace reprise::crd
