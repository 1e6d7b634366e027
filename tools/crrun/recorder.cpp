// SPDX-License-Identifier: GPL-2.0-only
#include "crrun/recorder.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "job/files.h"

namespace reprise::job {

using namespace std::chrono_literals;

namespace {

constexpr auto kTryAgain = 1s, kLastTry = 5s;
/** Limit of events waiting for JOBDIR: enough for thousands of recoveries. */
constexpr std::size_t kMaxWaiting = 64 << 20;

/** On this host, and per user: home directories are often shared between hosts, too. */
std::string copy_directory() { return "/var/tmp/reprise-" + std::to_string(::getuid()); }
std::string copy_of_state(const std::string& id) { return copy_directory() + "/" + id + ".state"; }

std::optional<nlohmann::json> state_in(const std::string& path) {
  try {
    nlohmann::json state = nlohmann::json::parse(read_file(path));
    if (state.is_object()) return state;
  } catch (const std::exception&) {
  }
  return std::nullopt;
}

/** @return 0 if the number is missing or invalid */
std::uint64_t number_of(const nlohmann::json& state) {
  const auto number = state.find("saved");
  return number != state.end() && number->is_number_unsigned() ? number->get<std::uint64_t>() : 0;
}

/** Append @p text. @return the number of bytes written: all, unless an error (in errno) occurred */
std::size_t append(const std::string& path, const std::string& text) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  std::size_t at = 0;
  while (fd && at < text.size()) {
    const ssize_t put = ::write(fd.get(), text.data() + at, text.size() - at);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) break;
    at += static_cast<std::size_t>(put);
  }
  return at;
}

}  // namespace

/** State shared by the thread and crrun. A thread that hangs in a write for ever is left behind; it then owns this state. */
struct Recorder::Shared {
  const std::string directory;
  std::mutex mutex;  ///< guards all below
  std::condition_variable changed;
  std::string events;                ///< not yet in timeline.jsonl
  std::optional<std::string> state;  ///< not yet in state.json
  std::vector<std::string> removals;  ///< directories to remove; each is tried once
  bool busy = false, stop = false, failed = false, warned = false;

  explicit Shared(std::string where) : directory(std::move(where)) {}
  bool nothing_left() const { return events.empty() && !state && removals.empty() && !busy; }
  void warn(const std::string& why) {
    if (!std::exchange(warned, true))
      std::fprintf(stderr, "crrun: %s; until it can be written, the job's state is kept in %s on this host\n", why.c_str(),
                   copy_directory().c_str());
  }
};

Recorder::Recorder(std::string directory, const std::string& id)
    : copy_(copy_of_state(id)), shared_(std::make_shared<Shared>(std::move(directory))) {
  for (const std::string& path : {copy_, shared_->directory + "/state.json"})
    if (const auto state = state_in(path)) saved_ = std::max(saved_, number_of(*state));
  thread_ = std::thread([shared = shared_] { work(shared); });
}

Recorder::~Recorder() {
  std::unique_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->changed.notify_all();
  const auto done = [this] { return shared_->nothing_left(); };
  if (shared_->changed.wait_for(lock, kLastTry, done)) {
    lock.unlock();
    thread_.join();
    std::error_code ignored;
    std::filesystem::remove(copy_, ignored);
    return;
  }
  std::fprintf(stderr, "crrun: %s could not be written completely; the job's last state is in %s on this host\n",
               shared_->directory.c_str(), copy_.c_str());
  lock.unlock();
  thread_.detach();
}

void Recorder::save(nlohmann::json state) {
  state["saved"] = ++saved_;
  std::string text = state.dump() + "\n";
  try {
    make_private_directory(copy_directory());
    write_atomically(copy_, text);
    warned_ = false;
  } catch (const std::exception& error) {
    if (!std::exchange(warned_, true)) std::fprintf(stderr, "crrun: the job's state cannot be saved on this host: %s\n", error.what());
  }
  const std::lock_guard lock(shared_->mutex);
  shared_->state = std::move(text);
  shared_->changed.notify_all();
}

void Recorder::event(const nlohmann::json& event) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->events.size() > kMaxWaiting) return;
  shared_->events += event.dump() + "\n";
  shared_->changed.notify_all();
}

void Recorder::remove(const std::string& directory) {
  const std::lock_guard lock(shared_->mutex);
  shared_->removals.push_back(directory);
  shared_->changed.notify_all();
}

void Recorder::work(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->changed.wait(lock, [&] { return shared->stop || !shared->nothing_left(); });
    if (shared->nothing_left()) break;
    std::string events = std::exchange(shared->events, {});
    std::optional<std::string> state = std::exchange(shared->state, std::nullopt);
    const std::vector<std::string> removals = std::exchange(shared->removals, {});
    shared->busy = true;
    lock.unlock();
    std::string why;
    // Write events first: the timeline then has everything that the state refers to.
    errno = 0;
    const std::size_t put = append(shared->directory + "/timeline.jsonl", events);
    if (put < events.size())
      why = "cannot write " + shared->directory + "/timeline.jsonl: " + std::generic_category().message(errno);
    if (state) {
      try {
        write_atomically(shared->directory + "/state.json", *state);
        state.reset();
      } catch (const std::exception& error) {
        why = error.what();
      }
    }
    for (const std::string& directory : removals) {
      std::error_code ignored;
      std::filesystem::remove_all(directory, ignored);
    }
    lock.lock();
    shared->busy = false;
    shared->events.insert(0, events, put);
    if (state && !shared->state) shared->state = std::move(state);
    if (why.empty()) {
      shared->warned = false;
    } else {
      shared->warn(why);
      if (!shared->stop) shared->changed.wait_for(lock, kTryAgain, [&] { return shared->stop; });
      else {
        lock.unlock();
        std::this_thread::sleep_for(100ms);
        lock.lock();
      }
    }
    shared->changed.notify_all();
  }
}

nlohmann::json newest_state(const std::string& job_directory, const std::string& id) {
  const std::string path = job_directory + "/state.json";
  const auto copy = state_in(copy_of_state(id));
  const auto shared = state_in(path);
  if (copy && (!shared || number_of(*copy) > number_of(*shared))) return *copy;
  return shared ? *shared : nlohmann::json::parse(read_file(path));
}

}  // namespace reprise::job
