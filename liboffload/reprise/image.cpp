// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image.h"

#include <libcr.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace croff::image {
namespace {

constexpr std::chrono::seconds kPatience{20};

std::mutex mutex;  // held while a checkpoint is taken: forbid() waits for its end
std::condition_variable changed;
bool permitted = true, saved = false;
std::atomic<std::uint64_t> count{0};
std::atomic<bool> restarted{false};

/** In libcr's thread. */
int around_checkpoint(void *) {
  std::unique_lock lock(mutex);
  if (!permitted) {
    cr_checkpoint(CR_CHECKPOINT_TEMP_FAILURE);
    return 0;
  }
  const int result = cr_checkpoint(CR_CHECKPOINT_READY);
  if (result < 0) return 0;  // another callback refused
  saved = true;
  if (result != CR_CONTINUED) {
    restarted = result == CR_RESTARTED;
    ++count;
  }
  changed.notify_all();
  return 0;
}

}  // namespace

bool watch() {
  static const bool works = cr_init() >= 0 && cr_register_callback(around_checkpoint, nullptr, CR_THREAD_CONTEXT) >= 0;
  return works;
}

void await() {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, kPatience, [] { return saved; });
}

void forbid() {
  std::unique_lock lock(mutex);
  permitted = false;
}

std::uint64_t rollbacks() { return count; }
bool was_restarted() { return restarted; }

}  // namespace croff::image
