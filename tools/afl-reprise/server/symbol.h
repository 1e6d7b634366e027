// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Where an executable has a function. */
#include <cstdint>
#include <optional>
#include <string>

namespace reprise::afl {

/** @return the address of function @p name from the load address of the ELF file @p path; nothing if it has none */
std::optional<std::uint64_t> find_function(const std::string& path, const std::string& name);

}  // namespace reprise::afl
