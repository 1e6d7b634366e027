// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Sends a request to the crrun of a job. */
#include <cstdint>

#include "job/job_file.h"

namespace reprise::job {

/**
 * Send the request and wait for the answer. @param limit_ms 0: no limit. Throws std::runtime_error: crrun has ended,
 * cannot be reached, or closed the connection.
 */
Answer ask_crrun(const JobFile& job, const Ask& ask, std::uint64_t limit_ms);

}  // namespace reprise::job
