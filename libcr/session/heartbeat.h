// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Telling the module that the owner of a session lives, whatever it is busy with while its target is frozen. */
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace reprise {

/**
 * A thread that makes a request to the module every few seconds while the target is frozen. The module takes a session
 * that is silent for a minute for dead: it lets the target go, or kills it when it is half restored. Reading and writing
 * files can take longer than that, and makes no request. A process that is stopped, or hangs as a whole, is silent still.
 */
class Heartbeat {
 public:
  /**
   * @param device    descriptor of the session, borrowed
   * @param interval  from one request to the next
   */
  Heartbeat(int device, std::chrono::milliseconds interval);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  void begin() { set(true); }  ///< the target is frozen
  void end() { set(false); }

 private:
  void set(bool beating);
  void run();

  const int device_;
  const std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool beating_ = false, quit_ = false;
  std::thread thread_;
};

}  // namespace reprise
