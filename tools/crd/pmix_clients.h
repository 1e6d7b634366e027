// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Which clients libpmix has a connection with, in the PMIx server process.
 *
 * PMIx_server_deregister_client() closes the connection of the client while libevent still watches its descriptor
 * (pmix_server.c: _pmix_execute_deregister_client). If anything else refers to the client, the next connection that gets the
 * descriptor is never read. So a process that has failed is deregistered after libpmix has seen the end of its connection.
 */
#include <pmix_common.h>

#include <chrono>
#include <vector>

namespace reprise::crd {

/** libpmix has accepted the connection of @p proc. From any thread, as all functions here. */
void pmix_client_connected(const pmix_proc_t& proc);

/** libpmix has seen the end of the connection, or of the client's use of PMIx. */
void pmix_client_gone(const pmix_proc_t& proc);

/**
 * Wait until none of @p procs is connected. The connection of a dead process may last in a process that it has forked: do not
 * wait for ever. Not from libpmix's thread
 */
void await_pmix_clients_gone(const std::vector<pmix_proc_t>& procs, std::chrono::milliseconds at_most);

}  // namespace reprise::crd
