// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file On a spare: reads the files that ranks have mapped, and the program that restarts ranks, into the page cache. A
 * node that has never run the program would otherwise read them from disk while all other ranks wait.
 */
#include <atomic>
#include <set>
#include <string>
#include <vector>

#include <asio/thread_pool.hpp>

namespace reprise::crd {

/** @return the named files that process @p pid has mapped */
std::vector<std::string> mapped_files(int pid);

class Prewarm {
 public:
  Prewarm();
  ~Prewarm();
  /** Read the files in the manifests of @p wave_directory in the background; skips files that were already read. */
  void begin(const std::string& wave_directory);

 private:
  void read(const std::string& path);

  std::atomic<bool> stop_{false}, busy_{false};
  std::set<std::string> done_;  ///< used by the thread only
  std::size_t left_;            ///< bytes; used by the thread only
  asio::thread_pool thread_{1};
};

}  // namespace reprise::crd
