// SPDX-License-Identifier: GPL-2.0-only
#include "crrun/metrics_file.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "job/files.h"

namespace reprise::job {

namespace {
constexpr std::chrono::seconds kLastTry{5};
/** Readers of metrics are mostly other users. */
constexpr unsigned kMode = 0644;
}  // namespace

/** A thread that hangs in a write for ever is left behind; it then owns this. */
struct MetricsFile::Shared {
  const std::string path;
  std::mutex mutex;  ///< guards all below
  std::condition_variable changed;
  std::optional<std::string> text;  ///< to be written
  bool busy = false, stop = false;

  explicit Shared(std::string where) : path(std::move(where)) {}
  bool nothing_left() const { return !text && !busy; }
};

void MetricsFile::check(const std::string& path) {
  // Renaming a file over a device would remove the device.
  std::error_code none;
  const std::filesystem::file_status there = std::filesystem::status(path, none);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))
    throw std::runtime_error("--metrics " + path + " is not a file: name one that crrun can replace");
  try {
    write_atomically(path, "# EOF\n", kMode);
  } catch (const std::exception& error) {
    throw std::runtime_error("--metrics " + path + " cannot be written (" + error.what() + "): name a file in a directory that you may write");
  }
}

MetricsFile::MetricsFile(std::string path)
    : shared_(std::make_shared<Shared>(std::move(path))), thread_([shared = shared_] { work(shared); }) {}

MetricsFile::~MetricsFile() {
  std::unique_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->changed.notify_all();
  const bool written = shared_->changed.wait_for(lock, kLastTry, [this] { return shared_->nothing_left(); });
  lock.unlock();
  if (written) {
    thread_.join();
    return;
  }
  std::fprintf(stderr, "crrun: warning: %s hangs; it does not have the last metrics of the job\n", shared_->path.c_str());
  thread_.detach();
}

void MetricsFile::put(std::string text) {
  const std::lock_guard lock(shared_->mutex);
  shared_->text = std::move(text);
  shared_->changed.notify_all();
}

void MetricsFile::work(const std::shared_ptr<Shared>& shared) {
  bool warned = false;
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->changed.wait(lock, [&] { return shared->stop || shared->text; });
    if (!shared->text) return;
    const std::string text = *std::exchange(shared->text, std::nullopt);
    shared->busy = true;
    lock.unlock();
    try {
      write_atomically(shared->path, text, kMode);
      warned = false;
    } catch (const std::exception& error) {
      if (!std::exchange(warned, true)) std::fprintf(stderr, "crrun: warning: the metrics are not written: %s\n", error.what());
    }
    lock.lock();
    shared->busy = false;
    shared->changed.notify_all();
  }
}

}  // namespace reprise::job
