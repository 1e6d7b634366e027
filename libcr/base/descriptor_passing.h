// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Pass a descriptor over a Unix socket (SCM_RIGHTS). */
#include <cstddef>

#include "base/unique_fd.h"

namespace reprise::crd {

/** Send @p descriptor with @p size bytes of @p data (one byte by default). @return false with errno */
bool send_descriptor(int socket, int descriptor, const void* data = "", std::size_t size = 1);

/** Receive without waiting. @return an empty descriptor when there is none; errno EAGAIN: none has arrived yet */
UniqueFd receive_descriptor(int socket);

}  // namespace reprise::crd
