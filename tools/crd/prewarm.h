// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file On a spare: reads the files that ranks have mapped, and the program that restarts them, before they are needed.
 * A node that has never run the program would otherwise read them from disk while all other ranks wait.
 */
#include <atomic>
#include <set>
#include <string>
#include <vector>

#include <asio/thread_pool.hpp>

namespace reprise::crd {

/** What process @p pid has mapped of files that have a name. */
std::vector<std::string> mapped_files(int pid);

class Prewarm {
 public:
  Prewarm();
  ~Prewarm();
  /** In the background, with what the manifests in @p wave_directory name; what was read before is left alone. */
  void begin(const std::string& wave_directory);

 private:
  void read(const std::string& path);

  std::atomic<bool> stop_{false}, busy_{false};
  std::set<std::string> done_;  ///< of the thread alone
  std::size_t left_;            ///< bytes; of the thread alone
  asio::thread_pool thread_{1};
};

}  // namespace reprise::crd
