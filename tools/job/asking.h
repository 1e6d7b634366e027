// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Sends a request to the crrun of a job, from any host; tells a dead crrun from a silent one. */
#include <cstdint>
#include <optional>
#include <string>

#include "job/job_file.h"

namespace reprise::job {

enum class Living {
  yes,      ///< it has answered
  no,       ///< its host refuses connections
  unknown,  ///< no answer came: its host is silent, or it hangs
};

struct Asked {
  std::optional<Answer> answer;
  Living lives = Living::unknown;
  std::string problem;  ///< why there is no answer
};

/** Send the request and wait for the answer. @param limit_ms 0: no limit, once the connection is made */
Asked ask_crrun(const JobFile& job, const Ask& ask, std::uint64_t limit_ms);

/** Whether the job's crrun runs; takes some seconds at most. */
Living crrun_lives(const JobFile& job);

}  // namespace reprise::job
