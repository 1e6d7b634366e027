// SPDX-License-Identifier: LGPL-2.1-or-later
// The job of a group's boosters: a crrun of its own beside the masters' job, and so a recovery domain of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

namespace croff {

struct Hosts {
  int hosts, per_host;
  bool named;  // those of CROFF_HOSTS, if there are any
};

class Job {
 public:
  /** @param invitation for the boosters @throw Error(spawn) */
  Job(const Hosts &hosts, const std::string &invitation);
  ~Job() { end(); }
  Job(const Job &) = delete;
  Job &operator=(const Job &) = delete;

  /** Whether crrun has ended, and with it the boosters. */
  bool ended();
  /** All boosters go back, though none was lost. */
  void roll_back();
  /** crrun and the boosters end now. */
  void end();
  /** They end by themselves: wait for that, some time. */
  void wait();
  /** This process was restarted elsewhere: the job is not its child any more. */
  void forget() { crrun_ = -1; }

 private:
  pid_t crrun_ = -1;
};

/** Jobs whose boosters have left: each crrun needs a second more. */
class LeavingJobs {
 public:
  ~LeavingJobs() {
    for (const auto &job : jobs_) job->wait();
  }
  void add(std::unique_ptr<Job> job) {
    std::erase_if(jobs_, [](const auto &earlier) { return earlier->ended(); });
    jobs_.push_back(std::move(job));
  }

 private:
  std::vector<std::unique_ptr<Job>> jobs_;
};

}  // namespace croff
