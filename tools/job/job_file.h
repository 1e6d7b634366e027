// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file job.json, and the registry in which crjob finds this user's jobs. */
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "job/keys.h"
#include "job/messages.pb.h"

namespace reprise::job {

/** The part of a job that does not change while it runs. */
struct JobFile {
  JobSpec spec;
  std::vector<Node> nodes;
  std::string directory;  ///< JOBDIR
  std::string host;       ///< where crrun runs
  std::string boot;       ///< boot_id() of that host
  int pid = 0;            ///< of crrun
  std::uint16_t port = 0;
  std::vector<std::string> addresses;
  KeyPair server, client;
  std::string run_secret;   ///< of run_directory(): stays the same when the job is restarted, as images contain the path
  nlohmann::json settings;  ///< of crrun itself

  /** Write JOBDIR/job.json (mode 0600) and the registry entry for crjob. Throws std::system_error. */
  void write() const;
  /** Throws std::runtime_error, which names the file. */
  static JobFile read(const std::string& directory);
};

/** ~/.local/state/reprise/jobs, or the same below XDG_STATE_HOME; it has one file for each job of this user. */
std::string registry_directory();

struct RegisteredJob {
  std::string id, directory, host, program;
  int pid = 0;
  std::uint64_t begun_unix_ns = 0;
  bool ended = false;
  int exit_code = 0;
};
void write_registry(const RegisteredJob& job);
/** Remove what belongs to a job from JOBDIR, and JOBDIR itself if nothing else is in it. @return bytes removed */
std::uint64_t remove_job_directory(const std::string& directory);
/** The job is removed: crjob does not list it any more. */
void forget_job(const std::string& id);
/** Newest first; unreadable entries are left out. */
std::vector<RegisteredJob> registered_jobs();
/** Find a job by its id, a unique prefix of it, or JOBDIR. Throws std::runtime_error, which lists the candidates. */
std::string find_job(const std::string& name);

}  // namespace reprise::job
