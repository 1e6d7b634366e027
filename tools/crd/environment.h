// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The environment of a rank. */
#include <cstdint>
#include <string>
#include <vector>

#include "job/messages.pb.h"

namespace reprise::crd {

/** Ours, as "NAME=value". */
std::vector<std::string> own_environment();
/** @return the value, nullptr when it is not set */
const char* find_variable(const std::vector<std::string>& environment, const std::string& name);
/** Set, or replace. */
void set_variable(std::vector<std::string>& environment, const std::string& name, const std::string& value);

/**
 * Ours, then the job's, then what a rank needs to be saved and restarted elsewhere (unless it is set already: no
 * memory shared between ranks, crtcp as the transport), then PMIx's.
 * @param socket of the daemon, for its ranks
 * @param crowded more ranks than processors: they leave theirs to others when they wait
 */
std::vector<std::string> rank_environment(const job::JobSpec& job, const std::vector<std::string>& pmix, const std::string& socket,
                                          bool crowded);

/** For a rank that goes on on a node with more ranks than processors: what btl_crtcp_spin would be for one that starts there. */
std::uint32_t crowded_spin(const job::JobSpec& job);

}  // namespace reprise::crd
