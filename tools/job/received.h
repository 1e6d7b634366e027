// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Apart, since <linux/tcp.h> and <netinet/tcp.h> cannot be had together. */

namespace reprise::job {

/** Whether a byte has come over the TCP connection @p fd. False also when that cannot be told. */
bool has_received(int fd);

}  // namespace reprise::job
