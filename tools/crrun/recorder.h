// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Writes a job's state and timeline.jsonl to a file system that may be full, unavailable or hanging. */
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

#include "crrun/coordinator/effects.h"
#include "crrun/state_log.h"

namespace reprise::job {

struct RecorderEvents {
  /** Change @p number, and so every earlier one, is on this host's disk. */
  std::function<void(std::uint64_t number)> saved;
  /** Another crrun has become the owner of JOBDIR; from now on nothing is written there. Called once. */
  std::function<void()> replaced;
};

/**
 * One thread writes changes of the state to this host's own disk; a second one writes them to JOBDIR, and the events as
 * well. crrun waits for neither. What could not be written to JOBDIR is kept and tried again. The events are called from the
 * threads.
 */
class Recorder {
 public:
  /** Continues after @p newest, the number of the job's newest state, and makes this crrun the owner of JOBDIR. */
  Recorder(std::string directory, const std::string& id, std::uint64_t newest, RecorderEvents events = {});
  /** Allows a few seconds for the remaining writes, and reports what could not be written. */
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /**
   * Save these changes; the first call has the whole state. If this host's disk fails, that is reported once, and they count
   * as saved: JOBDIR will have them.
   * @return the number of the change
   */
  std::uint64_t save(std::vector<Record> records);
  void event(const nlohmann::json& event);
  /** Remove a staged wave, or all for wave 0, once all changes are in JOBDIR: until then its state may refer to it. */
  void remove(const RemoveStaged& what);

 private:
  struct Newest;
  struct Shared;
  struct Copy;
  struct Work;
  static void work(const std::shared_ptr<Shared>& shared);
  static void copy(const std::shared_ptr<Copy>& copy);
  static std::string write(Shared& shared, Work& work);

  std::shared_ptr<Newest> newest_;
  std::shared_ptr<Copy> copy_;
  std::shared_ptr<Shared> shared_;
  std::thread copying_, thread_;
};

/** Where crrun keeps what only this host needs, for this user. */
std::string host_directory();

/**
 * @return the newest state of a job: JOBDIR's, or the copy on this host if JOBDIR could not be written in time.
 * Throws std::runtime_error if there is none, or it is of a job with another number of ranks.
 */
NumberedState newest_state(const std::string& job_directory, const std::string& id, std::size_t ranks);

}  // namespace reprise::job
