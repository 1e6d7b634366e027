// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The text of crrun --metrics. */
#include <string>

#include "crrun/coordinator/metrics.h"

namespace reprise::job {

/**
 * @return the metrics in OpenMetrics' text format, each with the label job_id. There is no type but counter, gauge and summary:
 * the parser of node_exporter's textfile collector knows only Prometheus' own format, reads this text as well, and refuses a
 * file that has another type.
 */
std::string metrics_text(const Metrics& metrics);

}  // namespace reprise::job
