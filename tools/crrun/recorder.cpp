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

/** Changes that wait for a disk; if there are more, the whole state is written instead. */
constexpr std::size_t kMostChanges = 1000;

std::string copy_of_state(const std::string& id) { return host_directory() + "/" + id + ".state"; }
std::string log_of_copy(const std::string& id) { return copy_of_state(id) + ".log"; }

/** Append @p text. @return the number of bytes written: all, unless an error (in errno) occurred */
std::size_t append(const std::string& path, const std::string& text) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  return fd ? write_all(fd.get(), text) : 0;
}

/** Remove a wave from JOBDIR, or all waves for wave 0, also what a copy that was given up has left of one. */
void remove_staged(const std::string& directory, const RemoveStaged& what) {
  std::error_code ignored;
  if (const std::uint32_t wave = what.wave) {
    if (what.reuse && std::filesystem::exists(wave_directory(directory, wave), ignored)) {
      std::filesystem::remove_all(dropped_directory(directory), ignored);
      std::filesystem::rename(wave_directory(directory, wave), dropped_directory(directory), ignored);
    }
    std::filesystem::remove_all(wave_directory(directory, wave), ignored);
    std::filesystem::remove_all(wave_part_directory(directory, wave), ignored);
    return;
  }
  std::vector<std::filesystem::path> waves;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored))
    if (entry.path().filename().string().starts_with("wave-")) waves.push_back(entry.path());
  for (const std::filesystem::path& path : waves) std::filesystem::remove_all(path, ignored);
}

/** Changes that wait to be written. */
struct Queue {
  Changes changes;
  bool left_out = false;  ///< there were too many

  void put(const std::shared_ptr<const Change>& change) {
    if (changes.size() >= kMostChanges) {
      changes.clear();
      left_out = true;
    }
    changes.push_back(change);
  }
  /** Changes that could not be written come first again. */
  void back(Queue old) {
    left_out |= old.left_out;
    old.changes.insert(old.changes.end(), changes.begin(), changes.end());
    changes = std::move(old.changes);
  }
  void write(StateLog& log, const std::function<NumberedState()>& whole) const {
    if (left_out) log.left_out();
    log.write(changes, whole);
  }
};

}  // namespace

// Home directories are often shared between hosts.
std::string host_directory() { return "/var/tmp/reprise-" + std::to_string(::getuid()); }

/** The newest state, for snapshots. */
struct Recorder::Newest {
  std::mutex mutex;
  NumberedState state;

  NumberedState get() {
    const std::lock_guard lock(mutex);
    return state;
  }
};

/** What the thread has taken over to write to JOBDIR. */
struct Recorder::Work {
  std::string events;
  Queue queue;
  std::vector<RemoveStaged> removals;
  bool last = false;  ///< leave a snapshot without a log
};

/** State shared by the thread and crrun. A thread that hangs in a write for ever is left behind; it then owns this state. */
struct Recorder::Shared {
  const std::string directory;
  const std::shared_ptr<Newest> newest;
  std::mutex mutex;  ///< guards all below
  std::condition_variable changed;
  std::string events;                   ///< not yet in timeline.jsonl
  Queue queue;                          ///< not yet in state.json or state.log
  std::vector<RemoveStaged> removals;   ///< each is tried once
  bool busy = false, stop = false, warned = false, closed = false;
  bool replaced = false;  ///< another crrun owns the directory: nothing may be written there
  std::function<void()> tell_replaced;
  // The following are the thread's own.
  StateLog log;
  Epoch epoch;
  bool owner = false;
  std::chrono::steady_clock::time_point next_beat{};

  Shared(std::string where, std::shared_ptr<Newest> state, std::function<void()> tell)
      : directory(std::move(where)),
        newest(std::move(state)),
        tell_replaced(std::move(tell)),
        log(directory + "/state.json", directory + "/state.log"),
        epoch(directory) {}
  bool nothing_left() const {
    return replaced || (events.empty() && queue.changes.empty() && removals.empty() && !busy && (!stop || closed));
  }
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
                   host_directory().c_str());
  }
};

/** The state on this host, written by a thread of its own. */
struct Recorder::Copy {
  const std::shared_ptr<Newest> newest;
  StateLog log;      ///< the thread's own
  std::mutex mutex;  ///< guards the following
  std::condition_variable changed;
  std::function<void(std::uint64_t)> saved;
  Queue queue;
  bool busy = false, stop = false;

  Copy(const std::string& id, std::shared_ptr<Newest> state, std::function<void(std::uint64_t)> call)
      : newest(std::move(state)), log(copy_of_state(id), log_of_copy(id)), saved(std::move(call)) {}
};

void Recorder::copy(const std::shared_ptr<Copy>& copy) {
  bool warned = false;
  std::unique_lock lock(copy->mutex);
  for (;;) {
    copy->changed.wait(lock, [&] { return copy->stop || !copy->queue.changes.empty(); });
    if (copy->queue.changes.empty()) break;
    const Queue queue = std::exchange(copy->queue, {});
    copy->busy = true;
    lock.unlock();
    try {
      make_private_directory(host_directory());
      queue.write(copy->log, [&] { return copy->newest->get(); });
      warned = false;
    } catch (const std::exception& error) {
      if (!std::exchange(warned, true)) std::fprintf(stderr, "crrun: the job's state cannot be saved on this host: %s\n", error.what());
    }
    lock.lock();
    if (copy->saved) copy->saved(queue.changes.back()->number);
    copy->busy = false;
    copy->changed.notify_all();
  }
}

Recorder::Recorder(std::string directory, const std::string& id, std::uint64_t newest, RecorderEvents events)
    : newest_(std::make_shared<Newest>()),
      copy_(std::make_shared<Copy>(id, newest_, std::move(events.saved))),
      shared_(std::make_shared<Shared>(std::move(directory), newest_, std::move(events.replaced))) {
  newest_->state.number = newest;
  copying_ = std::thread([copy = copy_] { Recorder::copy(copy); });
  thread_ = std::thread([shared = shared_] { work(shared); });
}

Recorder::~Recorder() {
  bool copied = false;
  {
    std::unique_lock lock(copy_->mutex);
    copy_->stop = true;
    copy_->changed.notify_all();
    copied = copy_->changed.wait_for(lock, kLastTry, [this] { return copy_->queue.changes.empty() && !copy_->busy; });
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
    if (copied) copy_->log.remove();
    return;
  }
  std::fprintf(stderr, "crrun: %s could not be written completely; the job's last state is in %s on this host\n",
               shared_->directory.c_str(), host_directory().c_str());
  lock.unlock();
  thread_.detach();
}

std::uint64_t Recorder::save(std::vector<Record> records) {
  const auto change = std::make_shared<Change>();
  change->records = std::move(records);
  {
    const std::lock_guard lock(newest_->mutex);
    change->number = ++newest_->state.number;
    for (const Record& record : change->records) update(newest_->state.state, record);
  }
  {
    const std::lock_guard lock(copy_->mutex);
    copy_->queue.put(change);
    copy_->changed.notify_all();
  }
  const std::lock_guard lock(shared_->mutex);
  shared_->queue.put(change);
  shared_->changed.notify_all();
  return change->number;
}

void Recorder::event(const nlohmann::json& event) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->events.size() > kMaxWaiting) return;
  shared_->events += event.dump() + "\n";
  shared_->changed.notify_all();
}

void Recorder::remove(const RemoveStaged& what) {
  const std::lock_guard lock(shared_->mutex);
  shared_->removals.push_back(what);
  shared_->changed.notify_all();
}

/**
 * Write what there is, events first: the timeline then has everything that the state refers to. What was written is taken
 * out of @p work.
 * @return what failed; ""
 */
std::string Recorder::write(Shared& shared, Work& work) {
  std::string why;
  errno = 0;
  const std::size_t put = append(shared.directory + "/timeline.jsonl", work.events);
  if (put < work.events.size())
    why = "cannot write " + shared.directory + "/timeline.jsonl: " + std::generic_category().message(errno);
  work.events.erase(0, put);
  const auto whole = [&] { return shared.newest->get(); };
  try {
    if (!work.queue.changes.empty()) work.queue.write(shared.log, whole);
    work.queue = {};
    if (work.last) shared.log.close(whole);
    if (work.last && whole().state.phase == "ended") shared.epoch.end();
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (work.queue.changes.empty()) {
    for (const RemoveStaged& what : work.removals) remove_staged(shared.directory, what);
    work.removals.clear();
  }
  return why;
}

void Recorder::work(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->changed.wait_for(lock, kBeatEvery, [&] { return shared->stop || !shared->nothing_left(); });
    if (shared->stop && shared->nothing_left()) break;
    Work work{std::exchange(shared->events, {}), std::exchange(shared->queue, {}), std::exchange(shared->removals, {}), shared->stop};
    shared->busy = true;
    lock.unlock();
    std::string why;
    bool owner = true;
    try {
      owner = shared->own();
      if (owner) why = write(*shared, work);
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
    shared->events.insert(0, work.events);
    shared->queue.back(std::move(work.queue));
    shared->removals.insert(shared->removals.begin(), work.removals.begin(), work.removals.end());
    if (why.empty()) {
      shared->warned = false;
      shared->closed = work.last;
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

NumberedState newest_state(const std::string& job_directory, const std::string& id, std::size_t ranks) {
  const std::string path = job_directory + "/state.json";
  auto copy = read_state(copy_of_state(id), log_of_copy(id), ranks, Whose::own);
  auto shared = read_state(path, job_directory + "/state.log", ranks, Whose::anybody);
  if (copy && (!shared || copy->number > shared->number)) return std::move(*copy);
  if (!shared) throw std::runtime_error(path + " has no state of the job: it was not written, or is damaged");
  return std::move(*shared);
}

}  // namespace reprise::job
