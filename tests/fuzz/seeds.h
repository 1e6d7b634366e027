// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The seeds of the job level. They are separate, since the job level is built only if its libraries are installed. */
#include <string>

/** Write them to @p dir/coordinator, @p dir/daemon and @p dir/files. */
void save_jobs(const std::string& dir);
