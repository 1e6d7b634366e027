// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file One run of cr_checkpoint, cr_pause or cr_restart, started at once or held. */
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <nlohmann/json.hpp>

#include "crd/process.h"

namespace reprise::crd {

/** The JSON report of a command. */
struct ToolResult {
  bool ok = false;
  bool refused = false, temporary = false, permanent = false;
  std::string message;    ///< why it failed
  nlohmann::json report;  ///< the whole report
};

/** In a tool our descriptors have numbers from this one on: they lie above whatever it opens itself. */
inline constexpr int kFirstOurs = 100;

class Tool {
 public:
  /**
   * @param argv the command is searched beside crd, then in PATH; --json is added
   * @param fds descriptors to open in it beside 0, 1 and 2
   * @param said called once: when the tool has reported, or has ended without a report
   * @param ended may be empty; for cr_restart, called at the end of the process that it has restarted
   */
  Tool(asio::io_context& loop, std::vector<std::string> argv, std::vector<std::pair<int, int>> fds,
       std::function<void(const ToolResult&)> said, std::function<void(int wait_status)> ended = nullptr);
  /** Start cr_pause or cr_restart with --hold: it gets ready and waits for go(). */
  static std::unique_ptr<Tool> held(asio::io_context& loop, std::vector<std::string> argv, std::vector<std::pair<int, int>> fds);
  /** Kills the tool if it runs. */
  ~Tool();
  /** Let a held tool continue, whether it is ready or not; @p said and @p ended as in the constructor. */
  void go(std::function<void(const ToolResult&)> said, std::function<void(int wait_status)> ended = nullptr);
  /** Whether the tool has reported or ended. For a held tool before go(): it could not get ready. */
  bool over() const;
  Process& process();
  /** Kill the tool, and the processes that it has made. No function is called any more. @return these processes */
  std::vector<pid_t> kill();

 private:
  struct State;
  explicit Tool(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace reprise::crd
