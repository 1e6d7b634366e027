// SPDX-License-Identifier: LGPL-2.1-or-later
#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace reprise {
namespace {

constexpr unsigned kMostThreads = 16;

}  // namespace

void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  std::size_t failed = count;  // the lowest
  const auto take_turns = [&] {
    for (std::size_t one; (one = next++) < count;) {
      try {
        work(one);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (one < failed) failure = std::current_exception(), failed = one;
        next = count;
      }
    }
  };
  const std::size_t threads = std::min<std::size_t>(count, std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads));
  std::vector<std::thread> others;
  try {
    for (std::size_t i = 1; i < threads; ++i) others.emplace_back(take_turns);
  } catch (const std::system_error&) {  // no more threads: those that there are do it
  }
  take_turns();
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace reprise
