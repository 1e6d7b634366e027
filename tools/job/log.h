// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file How the programs of the job level log: to standard error, and to a file once there is a place for it. */
#include <string>

#include <spdlog/spdlog.h>

namespace reprise::job {

/**
 * Log to standard error as "NAME: text".
 * @param level "debug", "info", "warning", "error" or "off"; throws std::invalid_argument for others
 */
void set_up_log(const std::string& name, const std::string& level);

/** Also log to @p path, with times, from `debug` on. Throws std::runtime_error. */
void log_to_file(const std::string& path);

}  // namespace reprise::job
