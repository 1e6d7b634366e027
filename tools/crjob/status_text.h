// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file What `crjob status` and `crjob list` print. */
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "job/job_file.h"

namespace reprise::job {

/** Columns are as wide as needed; the first row is the header. */
std::string table(const std::vector<std::vector<std::string>>& rows);
std::string status_text(const nlohmann::json& status, std::uint64_t now_unix_ns);
std::string list_text(const std::vector<RegisteredJob>& jobs, std::uint64_t now_unix_ns);
/** "running", "ended (0)", "crrun is gone" */
std::string state_words(const RegisteredJob& job);

}  // namespace reprise::job
