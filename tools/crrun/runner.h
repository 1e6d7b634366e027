// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The event loop around the coordinator: messages, daemons, signals, streams, files. */
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>

#include "crrun/coordinator/coordinator.h"
#include "crrun/held.h"
#include "crrun/launcher.h"
#include "crrun/metrics_file.h"
#include "crrun/output_writer.h"
#include "crrun/recorder.h"
#include "crrun/routes.h"
#include "job/job_file.h"
#include "job/relay.h"
#include "job/transport.h"

namespace reprise::job {

struct RunOptions {
  bool tag_output = false, verbose = false, quiet = false;
  std::vector<std::string> interfaces;
  std::string metrics_file;  ///< "": none
  LaunchOptions launch;
};

class Runner {
 public:
  /** @param state the job's newest state, unless it is new */
  Runner(JobFile file, Settings settings, Coordinator::Begin begin, std::optional<NumberedState> state, RunOptions options);
  /** @return exit code */
  int run();
  const std::string& directory() const { return file_.directory; }

 private:
  void message(const Peer& peer, Up up);
  void ask(const Peer& peer, const Ask& ask);
  void apply();
  void carry_out(Effect& effect, const std::vector<NodeIndex>& living);
  void release();
  void watch_disk();
  void tell_metrics();
  void write(const WriteOutput& output);
  void written(std::uint64_t mark);
  void send(const Down& down, const std::vector<NodeIndex>& living);
  void start_daemon(NodeIndex node);
  void start_daemon(NodeIndex node, const Relaying* parent);
  void start_waiting();
  void say(const Say& say);
  void timer();
  void got_signal();
  void read_input();
  void finish(int code);
  static Now now();

  JobFile file_;
  RunOptions options_;
  asio::io_context loop_;
  std::optional<Tree> tree_;  ///< nothing: all daemons connect to crrun
  Coordinator coordinator_;
  std::unique_ptr<Server> server_;
  Launcher launcher_;
  OutputWriter output_;
  Recorder recorder_;
  std::unique_ptr<MetricsFile> metrics_;  ///< nothing without --metrics
  std::chrono::steady_clock::time_point next_metrics_{};
  asio::signal_set signals_;
  asio::steady_timer timer_, input_timer_;
  std::unique_ptr<asio::posix::stream_descriptor> input_;
  Routes routes_{make_job_id()};
  Held held_;
  std::chrono::steady_clock::time_point held_since_{};
  bool told_of_disk_ = false;
  struct Piece {
    Rank rank;
    std::uint32_t stream;
    std::uint64_t offset;
  };
  std::map<std::uint64_t, Piece> pieces_;  ///< of output that is being written, by mark
  std::uint64_t next_piece_ = 0;
  std::map<NodeIndex, std::chrono::steady_clock::time_point> waiting_;  ///< nodes to be started when their parent has
                                                                        ///< connected, or at this time
  std::map<std::uint64_t, Peer> requests_;
  std::uint64_t next_request_ = 1;
  bool input_ended_ = false, reading_ = false, applying_ = false;
  std::optional<int> code_;
};

}  // namespace reprise::job
