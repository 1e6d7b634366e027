// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The HTML page that shows where the time of a job went. */
#include <string>

namespace reprise::job {

/**
 * @return one HTML page without external resources, from the lines of a timeline.jsonl. Damaged lines are skipped and
 * counted.
 */
std::string report_page(const std::string& timeline, const std::string& title);

}  // namespace reprise::job
