// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The environment of a rank. */
#include <cstdint>
#include <string>
#include <vector>

#include "job/messages.pb.h"

namespace reprise::crd {

/** HWLOC_PLUGINS_PATH for a process that is to load none: hwloc's plugins load the libraries of X11 and OpenCL. */
inline constexpr const char* kNoPlugins = "/nonexistent";

/** The daemon's own environment, as "NAME=value". */
std::vector<std::string> own_environment();
/** @return the value; nullptr when the variable is not set */
const char* find_variable(const std::vector<std::string>& environment, const std::string& name);
/** Set or replace a variable. */
void set_variable(std::vector<std::string>& environment, const std::string& name, const std::string& value);

/**
 * The daemon's environment, then the job's, then that of the rank's program, then what a rank needs so that it can be saved and
 * restarted elsewhere (no memory shared between ranks, crtcp as the transport; unless already set), then PMIx's.
 * @param socket of the daemon, for its ranks
 * @param crowded more ranks than processors: waiting ranks yield the processor
 */
std::vector<std::string> rank_environment(const job::JobSpec& job, const std::vector<std::string>& pmix, const std::string& socket,
                                          bool crowded, const job::SpawnApp& program = {});

/**
 * The spin limit for a rank that continues on a node with more ranks than processors. A rank that starts there gets it as
 * btl_crtcp_spin.
 */
std::uint32_t crowded_spin(const job::JobSpec& job);

}  // namespace reprise::crd
