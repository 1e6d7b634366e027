// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The other roles of crd: the PMIx server, and the process that forks donors of connections to one. */

namespace reprise::crd {

/** `crd --pmix-server`: serve the ranks of a node, on behalf of the crd at the other end of @p fd. @return exit status */
int run_pmix_server(int fd);

/**
 * `crd --donor`: for each socket that comes over @p fd fork a donor. It receives a rank's environment over that socket, connects to the PMIx
 * server as this rank, passes the connection over the socket and ends. @return exit status, when the other end of @p fd is closed
 */
int run_donors(int fd);

}  // namespace reprise::crd
