// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The page that shows where the time of a job went. */
#include <string>

namespace reprise::job {

/** One HTML page without outside parts, from the lines of a timeline.jsonl. Damaged lines are left out and counted. */
std::string report_page(const std::string& timeline, const std::string& title);

}  // namespace reprise::job
