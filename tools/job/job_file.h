// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file job.json, and where crjob finds the jobs of this user. */
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "job/keys.h"
#include "job/messages.pb.h"

namespace reprise::job {

/** All of a job that does not change while it runs. */
struct JobFile {
  JobSpec spec;
  std::vector<Node> nodes;
  std::string directory;  ///< JOBDIR
  std::string host;       ///< where crrun runs
  int pid = 0;            ///< of crrun
  std::uint16_t port = 0;
  std::vector<std::string> addresses;
  KeyPair server, client;
  nlohmann::json settings;  ///< crrun's own

  /** Write JOBDIR/job.json (mode 0600) and the entry for crjob. Throws std::system_error. */
  void write() const;
  /** Throws std::runtime_error naming the file. */
  static JobFile read(const std::string& directory);
};

/** ~/.local/state/reprise/jobs, or below XDG_STATE_HOME: a file for each job of this user. */
std::string registry_directory();

struct RegisteredJob {
  std::string id, directory, host, program;
  int pid = 0;
  std::uint64_t begun_unix_ns = 0;
  bool ended = false;
  int exit_code = 0;
};
void write_registry(const RegisteredJob& job);
/** Newest first; what cannot be read is left out. */
std::vector<RegisteredJob> registered_jobs();
/** By id, unique prefix of one, or JOBDIR. Throws std::runtime_error with what there is. */
std::string find_job(const std::string& name);

}  // namespace reprise::job
