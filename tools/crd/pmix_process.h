// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The other roles of crd: the PMIx server, and the donor of a connection to one. */

namespace reprise::crd {

/** `crd --pmix-server`: serve the ranks of a node, on behalf of the crd at the other end of @p fd. @return exit status */
int run_pmix_server(int fd);

/**
 * `crd --donor`: connect to the PMIx server as the rank that the environment names, and pass the connection over @p fd
 * (SCM_RIGHTS, with one byte). Then pause until killed. @return exit status
 */
int run_donor(int fd);

}  // namespace reprise::crd
