// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The programs of a job: one, or several that each have a part of the ranks ("crrun -n 2 a : -n 3 b"). */
#include <cstdint>
#include <string>
#include <vector>

#include "job/messages.pb.h"

namespace reprise::job {

/** @return the number of the program that @p rank runs (MPI_APPNUM), from 0 */
std::uint32_t program_number(const JobSpec& job, std::uint32_t rank);
/** @return arguments, working directory and environment of @p rank's program; the environment adds to the job's */
SpawnApp program_of(const JobSpec& job, std::uint32_t rank);
/** @return the command line as the user wrote it, for messages: the programs separated by ":" */
std::vector<std::string> command_line(const JobSpec& job);

}  // namespace reprise::job
