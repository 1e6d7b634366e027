// SPDX-License-Identifier: LGPL-2.1-or-later
#include "session/heartbeat.h"

#include <csignal>

#include <sys/ioctl.h>

#include "cr.h"

namespace reprise {

Heartbeat::Heartbeat(int device, std::chrono::milliseconds interval) : device_(device), interval_(interval) {
  // Block all signals in the new thread: they must reach the caller's own threads.
  sigset_t all, old;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &old);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Heartbeat::set(bool beating) {
  const std::lock_guard lock(mutex_);
  // No wakeup is needed: the thread reads beating_ within one interval.
  beating_ = beating;
}

void Heartbeat::run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, interval_, [this] { return quit_; })) {
    if (!beating_) continue;
    lock.unlock();
    // CR_IOC_INFO does not take the session's ioctl_lock, so it does not wait for a request in progress.
    cr_info info{};
    ::ioctl(device_, CR_IOC_INFO, &info);
    lock.lock();
  }
}

}  // namespace reprise
