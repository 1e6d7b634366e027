// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file crrun's own settings in job.json, for --restart and --attach. */
#include <nlohmann/json.hpp>

#include "crrun/coordinator/types.h"

namespace reprise::job {

/** The settings that are neither in JobSpec nor in the nodes. */
nlohmann::json settings_json(const Settings& settings);
void settings_from_json(Settings& settings, const nlohmann::json& json);

}  // namespace reprise::job
