// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The interval between waves that crrun has chosen, and why, in words. */
#include <string>

#include <nlohmann/json.hpp>

namespace reprise::job {

/** @param choice "wave_interval" of the status. @return a line without its end. Throws nlohmann's exceptions. */
std::string interval_text(const nlohmann::json& choice);

}  // namespace reprise::job
