// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file A separate file, since <linux/tcp.h> and <netinet/tcp.h> cannot be included together. */

namespace reprise::job {

/** Whether a byte has arrived on the TCP connection @p fd. False also when TCP_INFO cannot tell. */
bool has_received(int fd);

}  // namespace reprise::job
