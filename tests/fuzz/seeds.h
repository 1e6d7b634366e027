// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The seeds of the job level, apart: that part is built only where its libraries are. */
#include <string>

/** In @p dir/coordinator, @p dir/daemon and @p dir/files. */
void save_jobs(const std::string& dir);
