// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Writes a job's state.json and timeline.jsonl to a file system that may be full, unavailable or hanging. */
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

namespace reprise::job {

struct RecorderEvents {
  /** State @p number, and so every earlier one, is on this host's disk. */
  std::function<void(std::uint64_t number)> saved;
  /** Another crrun has become the owner of JOBDIR; from now on nothing is written there. Called once. */
  std::function<void()> replaced;
};

/**
 * One thread writes the state to this host's own disk; a second one writes it to JOBDIR, and the events as well. crrun
 * waits for neither. What could not be written to JOBDIR is kept and tried again. The events are called from the threads.
 */
class Recorder {
 public:
  /** Continues after the newest state of this job, and makes this crrun the owner of JOBDIR. */
  Recorder(std::string directory, const std::string& id, RecorderEvents events = {});
  /** Allows a few seconds for the remaining writes, and reports what could not be written. */
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /**
   * Save @p state; of several that wait, only the newest is written. If this host's disk fails, that is reported once, and
   * the state counts as saved: JOBDIR will have it.
   * @return its number
   */
  std::uint64_t save(nlohmann::json state);
  void event(const nlohmann::json& event);
  /** Remove a staged wave, or all for wave 0, once the newest state is in JOBDIR: until then that state may refer to it. */
  void remove(std::uint32_t wave);

 private:
  struct Shared;
  struct Copy;
  static void work(const std::shared_ptr<Shared>& shared);
  static void copy(const std::shared_ptr<Copy>& copy);
  static std::string write(Shared& shared, std::string& events, std::optional<std::string>& state, std::vector<std::uint32_t>& removals);

  std::uint64_t saved_ = 0;  ///< number of the newest state
  std::shared_ptr<Copy> copy_;
  std::shared_ptr<Shared> shared_;
  std::thread copying_, thread_;
};

/** @return the newest state of a job: JOBDIR's, or the copy on this host if JOBDIR could not be written in time */
nlohmann::json newest_state(const std::string& job_directory, const std::string& id);

}  // namespace reprise::job
