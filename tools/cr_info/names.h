// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Numbers of the kernel as readable names. */
#include <cstdint>
#include <string>

namespace reprise {

std::string system_call_name(std::int64_t number);   ///< "futex", or "call 999"
std::string signal_name(int number);                 ///< "TERM", "RT+3"
std::string signal_set(std::uint64_t mask);          ///< "INT TERM", "-" for none
std::string time_text(std::int64_t unix_ns);         ///< local time with zone
std::string limit_name(unsigned resource);           ///< "NOFILE"
std::string open_flags(unsigned flags);              ///< "rw append nonblock"
std::string mapping_flags(std::uint64_t flags);      ///< flags beyond the protection: "locked huge"
std::string socket_address(const std::string& raw);  ///< "127.0.0.1:6379", "/run/x", "@abstract"
std::string socket_kind(unsigned family, unsigned type);

/**
 * Replace characters that the locale cannot print by \xNN, so that an image cannot send escape sequences to the terminal.
 */
std::string printable(const std::string& bytes);
std::string hex_bytes(const std::string& bytes);

}  // namespace reprise
