// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Logging of the job-level programs: to standard error, and also to a file once its directory exists. */
#include <string>

#include <spdlog/spdlog.h>

namespace reprise::job {

/**
 * Log to standard error as "NAME: text".
 * @param level "debug", "info", "warning", "error" or "off"; throws std::invalid_argument for others
 */
void set_up_log(const std::string& name, const std::string& level);

/**
 * Log to @p path as well: with timestamps, levels `debug` and above. A file of 16 MiB is renamed (crd.log: crd.1.log) and
 * replaces the one before it. Throws std::runtime_error.
 */
void log_to_file(const std::string& path);

}  // namespace reprise::job
