// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The file of crrun --metrics, on a file system that may be full, unavailable or hanging. */
#include <memory>
#include <string>
#include <thread>

namespace reprise::job {

/**
 * A thread writes each text to a file beside and renames it, so that nobody reads a part. crrun does not wait for it. A text
 * that cannot be written is dropped, with one warning until one can be written again: the next comes soon.
 */
class MetricsFile {
 public:
  /** See whether the file can be written: it is empty metrics then. Throws std::runtime_error, which names it and says what to do. */
  static void check(const std::string& path);

  explicit MetricsFile(std::string path);
  /** Allows a few seconds for the last text, and reports if they were not enough. */
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /** Write @p text, in place of one that the thread has not begun to write. */
  void put(std::string text);

 private:
  struct Shared;
  static void work(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace reprise::job
