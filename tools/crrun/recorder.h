// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file A job's state.json and timeline.jsonl, on a file system that may be full, gone or hanging. */
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <nlohmann/json.hpp>

namespace reprise::job {

/**
 * What crrun writes down. The state is on this host's own disk when save() returns, and follows in JOBDIR; events
 * follow too. A thread does that: crrun never waits for a shared file system. What could not be written is kept and
 * tried again.
 */
class Recorder {
 public:
  /** Goes on after what is there of this job. */
  Recorder(std::string directory, const std::string& id);
  /** Gives what is left a few seconds, and says what could not be written. */
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /** @p state and its number. Where this host's disk fails, too, the thread alone is left: said once. */
  void save(nlohmann::json state);
  void event(const nlohmann::json& event);
  /** Remove a directory with all that is in it. */
  void remove(const std::string& directory);

 private:
  struct Shared;
  static void work(const std::shared_ptr<Shared>& shared);

  std::string copy_;
  std::uint64_t saved_ = 0;  ///< number of the newest state
  bool warned_ = false;
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

/** The newest state of a job: JOBDIR's, or the copy on this host when JOBDIR could not be written in time. */
nlohmann::json newest_state(const std::string& job_directory, const std::string& id);

}  // namespace reprise::job
