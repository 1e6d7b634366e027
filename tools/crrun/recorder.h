// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Writes a job's state.json and timeline.jsonl to a file system that may be full, unavailable or hanging. */
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <nlohmann/json.hpp>

namespace reprise::job {

/**
 * When save() returns, the state is on this host's own disk. A thread then writes it to JOBDIR, and the events as well,
 * so that crrun never waits for a shared file system. What could not be written is kept and tried again.
 */
class Recorder {
 public:
  /** Continues after the newest state of this job. */
  Recorder(std::string directory, const std::string& id);
  /** Allows a few seconds for the remaining writes, and reports what could not be written. */
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /** Save @p state with its number. If this host's disk fails as well, only the thread saves it; that is reported once. */
  void save(nlohmann::json state);
  void event(const nlohmann::json& event);
  /** Remove a directory with its content. */
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

/** @return the newest state of a job: JOBDIR's, or the copy on this host if JOBDIR could not be written in time */
nlohmann::json newest_state(const std::string& job_directory, const std::string& id);

}  // namespace reprise::job
