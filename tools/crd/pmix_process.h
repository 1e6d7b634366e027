// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file What crd is when it is not the daemon: its PMIx server, or a donor of a connection to one. */

namespace reprise::crd {

/** `crd --pmix-server`: serve the ranks of a node, on behalf of the crd at the other end of @p fd. @return exit status */
int run_pmix_server(int fd);

/**
 * `crd --donor`: connect to the PMIx server as the rank that the environment names, and hand the connection over
 * @p fd (SCM_RIGHTS, with one byte). Then stand still until killed. @return exit status
 */
int run_donor(int fd);

}  // namespace reprise::crd
