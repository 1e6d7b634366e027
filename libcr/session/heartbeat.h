// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Regular requests to the module that show that the owner of a session is alive while its target is frozen. */
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace reprise {

/**
 * A thread that makes a request to the module every few seconds while the target is frozen. After 60 s without a
 * request (kSilenceMs) the module thaws the target, or kills it if it is committed. Reading and writing files makes no
 * request and can take longer than that. If the whole owner is stopped or hangs, the heartbeat stops with it.
 */
class Heartbeat {
 public:
  /**
   * @param device    descriptor of the session, borrowed
   * @param interval  time between two requests
   */
  Heartbeat(int device, std::chrono::milliseconds interval);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  void begin() { set(true); }  ///< start sending: the target is frozen
  void end() { set(false); }   ///< stop sending: the target is thawed

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
