// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Connects to a daemon that has several addresses, of which not all lead to it from here. */
#include <functional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "crd/images/secure_stream.h"

namespace reprise::crd {

/**
 * Connect to all of @p endpoints ("tcp://ADDRESS:PORT") at once, and offer each connection that opens to @p use until that
 * returns true. Throws Broken: none was used; std::system_error (ECANCELED).
 */
void connect_to_any(const std::vector<std::string>& endpoints, const Patience& patience, const std::function<bool(UniqueFd socket)>& use);

}  // namespace reprise::crd
