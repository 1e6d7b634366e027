// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The addresses under which other nodes reach this machine. */
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace reprise::job {

/** All addresses of this machine's interfaces, as text. */
std::set<std::string> own_addresses();
/** Endpoints "tcp://ADDRESS:PORT" under which other nodes reach this machine. @p interfaces: names or CIDR; empty: all. */
std::vector<std::string> own_endpoints(std::uint16_t port, const std::vector<std::string>& interfaces, bool loopback);
/** @return address and port of "tcp://ADDRESS:PORT", without the brackets of an IPv6 address */
std::pair<std::string, std::string> split_endpoint(const std::string& endpoint);
/** Identifies this boot of this machine. @return "" when it cannot be read */
std::string boot_id();
/**
 * The endpoints of another machine that this machine can use to look for it: without the addresses that this machine has
 * itself, like that of a bridge for virtual machines, at which it would meet itself.
 * @param boot the other machine's boot_id(); if it is this machine's own, or unknown, all endpoints are kept. So are they
 * if none would be left.
 */
std::vector<std::string> elsewhere(const std::vector<std::string>& endpoints, const std::string& boot);

}  // namespace reprise::job
