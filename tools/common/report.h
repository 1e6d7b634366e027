// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file A report as text and as JSON. */
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "command.h"
#include "request/options.h"
#include "restore/report.h"

namespace reprise::tool {

/** "12,003" */
std::string grouped(std::uint64_t number);
/** "1 thread", "12,003 threads" */
std::string counted(std::uint64_t number, const std::string& what);
/** "4.1 ms", "2.3 s", "3 min" */
std::string duration(std::uint64_t ns);
/** "47.2 MB" */
std::string bytes(std::uint64_t number);
/** "taken 3 s ago" */
std::string age(const Report& report);

/** One line of JSON. Bytes that are not UTF-8 are replaced: names of files and threads may contain any. */
std::string json_line(const nlohmann::ordered_json& json);
/** One line of JSON. */
std::string report_json(const std::string& command, const Report& report);
/** The JSON line of --hold: all is ready. */
std::string held_json(const std::string& command);
std::string failure_json(const std::string& command, Failure kind, int code, Stage stage, const std::string& message);

/**
 * Print the result: warnings, then @p sentence behind "command: process PID (name): ", and times if asked for; or JSON.
 * @param out stream of the sentence; JSON always goes to standard output
 */
void print(const Common& common, const Report& report, const std::string& sentence, std::FILE* out);

}  // namespace reprise::tool
