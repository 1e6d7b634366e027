// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Asks the crrun of a job. */
#include <cstdint>

#include "job/job_file.h"

namespace reprise::job {

/**
 * Ask, and wait for the answer. @param limit_ms 0: as long as it takes. Throws std::runtime_error: crrun does not live,
 * cannot be reached, or went away meanwhile.
 */
Answer ask_crrun(const JobFile& job, const Ask& ask, std::uint64_t limit_ms);

}  // namespace reprise::job
