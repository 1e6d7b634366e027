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
#include <sys/stat.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "job/epoch.h"
#include "job/files.h"
#include "job/names.h"

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

/** The copy on this host. In /var/tmp anybody may have put one there: only a file of this user counts. */
std::optional<nlohmann::json> own_state_in(const std::string& path) {
  struct stat st {};
  if (::lstat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != ::geteuid() || (st.st_mode & 022)) return std::nullopt;
  return state_in(path);
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

/** Remove a wave from JOBDIR, or all waves for wave 0, also what a copy that was given up has left of one. */
void remove_staged(const std::string& directory, std::uint32_t wave) {
  std::error_code ignored;
  if (wave) {
    std::filesystem::remove_all(wave_directory(directory, wave), ignored);
    std::filesystem::remove_all(wave_part_directory(directory, wave), ignored);
    return;
  }
  std::vector<std::filesystem::path> waves;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored))
    if (entry.path().filename().string().starts_with("wave-")) waves.push_back(entry.path());
  for (const std::filesystem::path& path : waves) std::filesystem::remove_all(path, ignored);
}

}  // namespace

/** State shared by the thread and crrun. A thread that hangs in a write for ever is left behind; it then owns this state. */
struct Recorder::Shared {
  const std::string directory;
  std::mutex mutex;  ///< guards all below
  std::condition_variable changed;
  std::string events;                ///< not yet in timeline.jsonl
  std::optional<std::string> state;  ///< not yet in state.json
  std::vector<std::uint32_t> removals;  ///< waves to remove, 0: all; each is tried once
  bool busy = false, stop = false, failed = false, warned = false;
  bool replaced = false;  ///< another crrun owns the directory: nothing may be written there
  std::function<void()> tell_replaced;
  // The following are the thread's own.
  Epoch epoch;
  bool owner = false;
  std::chrono::steady_clock::time_point next_beat{};

  Shared(std::string where, std::function<void()> tell) : directory(std::move(where)), tell_replaced(std::move(tell)), epoch(directory) {}
  bool nothing_left() const { return replaced || (events.empty() && !state && removals.empty() && !busy); }
  /** Become the owner, or show that the owner lives. @return false: another crrun has become the owner */
  bool own() {
    if (owner && std::chrono::steady_clock::now() < next_beat) return true;
    if (owner && !epoch.beat()) return false;
    if (!owner) epoch.take();
    owner = true;
    next_beat = std::chrono::steady_clock::now() + kBeatEvery;
    return true;
  }
  void warn(const std::string& why) {
    if (!std::exchange(warned, true))
      std::fprintf(stderr, "crrun: %s; until it can be written, the job's state is kept in %s on this host\n", why.c_str(),
                   copy_directory().c_str());
  }
};

/** The state on this host, written by a thread of its own. */
struct Recorder::Copy {
  const std::string path;
  std::mutex mutex;  ///< guards the following
  std::condition_variable changed;
  std::function<void(std::uint64_t)> saved;
  std::optional<std::pair<std::uint64_t, std::string>> newest;  ///< not yet written
  bool busy = false, stop = false;

  Copy(std::string where, std::function<void(std::uint64_t)> call) : path(std::move(where)), saved(std::move(call)) {}
};

void Recorder::copy(const std::shared_ptr<Copy>& copy) {
  bool warned = false;
  std::unique_lock lock(copy->mutex);
  for (;;) {
    copy->changed.wait(lock, [&] { return copy->stop || copy->newest; });
    if (!copy->newest) break;
    const auto [number, text] = *std::exchange(copy->newest, std::nullopt);
    copy->busy = true;
    lock.unlock();
    try {
      make_private_directory(copy_directory());
      write_atomically(copy->path, text);
      warned = false;
    } catch (const std::exception& error) {
      if (!std::exchange(warned, true)) std::fprintf(stderr, "crrun: the job's state cannot be saved on this host: %s\n", error.what());
    }
    lock.lock();
    if (copy->saved) copy->saved(number);
    copy->busy = false;
    copy->changed.notify_all();
  }
}

Recorder::Recorder(std::string directory, const std::string& id, RecorderEvents events)
    : copy_(std::make_shared<Copy>(copy_of_state(id), std::move(events.saved))),
      shared_(std::make_shared<Shared>(std::move(directory), std::move(events.replaced))) {
  for (const auto& state : {own_state_in(copy_->path), state_in(shared_->directory + "/state.json")})
    if (state) saved_ = std::max(saved_, number_of(*state));
  copying_ = std::thread([copy = copy_] { Recorder::copy(copy); });
  thread_ = std::thread([shared = shared_] { work(shared); });
}

Recorder::~Recorder() {
  bool copied = false;
  {
    std::unique_lock lock(copy_->mutex);
    copy_->stop = true;
    copy_->changed.notify_all();
    copied = copy_->changed.wait_for(lock, kLastTry, [this] { return !copy_->newest && !copy_->busy; });
    copy_->saved = nullptr;  // the thread may live longer than whom it tells
  }
  if (copied)
    copying_.join();
  else
    copying_.detach();
  std::unique_lock lock(shared_->mutex);
  shared_->tell_replaced = nullptr;
  shared_->stop = true;
  shared_->changed.notify_all();
  const auto done = [this] { return shared_->nothing_left(); };
  if (shared_->changed.wait_for(lock, kLastTry, done)) {
    lock.unlock();
    thread_.join();
    std::error_code ignored;
    if (copied) std::filesystem::remove(copy_->path, ignored);
    return;
  }
  std::fprintf(stderr, "crrun: %s could not be written completely; the job's last state is in %s on this host\n",
               shared_->directory.c_str(), copy_->path.c_str());
  lock.unlock();
  thread_.detach();
}

std::uint64_t Recorder::save(nlohmann::json state) {
  state["saved"] = ++saved_;
  std::string text = state.dump() + "\n";
  {
    const std::lock_guard lock(copy_->mutex);
    copy_->newest = {saved_, text};
    copy_->changed.notify_all();
  }
  const std::lock_guard lock(shared_->mutex);
  shared_->state = std::move(text);
  shared_->changed.notify_all();
  return saved_;
}

void Recorder::event(const nlohmann::json& event) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->events.size() > kMaxWaiting) return;
  shared_->events += event.dump() + "\n";
  shared_->changed.notify_all();
}

void Recorder::remove(std::uint32_t wave) {
  const std::lock_guard lock(shared_->mutex);
  shared_->removals.push_back(wave);
  shared_->changed.notify_all();
}

/** Write what there is, events first: the timeline then has everything that the state refers to. @return what failed; "" */
std::string Recorder::write(Shared& shared, std::string& events, std::optional<std::string>& state, std::vector<std::uint32_t>& removals) {
  std::string why;
  errno = 0;
  const std::size_t put = append(shared.directory + "/timeline.jsonl", events);
  if (put < events.size())
    why = "cannot write " + shared.directory + "/timeline.jsonl: " + std::generic_category().message(errno);
  events.erase(0, put);
  if (state) {
    try {
      write_atomically(shared.directory + "/state.json", *state);
      state.reset();
    } catch (const std::exception& error) {
      why = error.what();
    }
  }
  if (!state) {
    for (const std::uint32_t wave : removals) remove_staged(shared.directory, wave);
    removals.clear();
  }
  return why;
}

void Recorder::work(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->changed.wait_for(lock, kBeatEvery, [&] { return shared->stop || !shared->nothing_left(); });
    if (shared->stop && shared->nothing_left()) break;
    std::string events = std::exchange(shared->events, {});
    std::optional<std::string> state = std::exchange(shared->state, std::nullopt);
    std::vector<std::uint32_t> removals = std::exchange(shared->removals, {});
    shared->busy = true;
    lock.unlock();
    std::string why;
    bool owner = true;
    try {
      owner = shared->own();
      if (owner) why = write(*shared, events, state, removals);
    } catch (const std::exception& error) {
      why = error.what();
    }
    lock.lock();
    shared->busy = false;
    if (!owner) {
      shared->replaced = true;
      shared->changed.notify_all();
      if (shared->tell_replaced) shared->tell_replaced();
      break;
    }
    shared->events.insert(0, events);
    if (state && !shared->state) shared->state = std::move(state);
    shared->removals.insert(shared->removals.begin(), removals.begin(), removals.end());
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
  const auto copy = own_state_in(copy_of_state(id));
  const auto shared = state_in(path);
  if (copy && (!shared || number_of(*copy) > number_of(*shared))) return *copy;
  return shared ? *shared : nlohmann::json::parse(read_file(path));
}

}  // namespace reprise::job
