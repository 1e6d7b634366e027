// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The addresses under which other nodes reach this machine. */
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace reprise::job {

/** All addresses of this machine's interfaces, as text. */
std::set<std::string> own_addresses();
/** Endpoints "tcp://ADDRESS:PORT" under which other nodes reach this machine. @p interfaces: names or CIDR; empty: all. */
std::vector<std::string> own_endpoints(std::uint16_t port, const std::vector<std::string>& interfaces, bool loopback);

}  // namespace reprise::job
