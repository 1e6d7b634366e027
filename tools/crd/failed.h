// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Processes of the job that have failed, of which the program is told (JobSpec.tells_failures). */
#include "crd/node.h"

namespace reprise::crd {

/**
 * Tell the ranks of this node: libpmix's clients get the event on which Open MPI calls the peer failed, and their transport
 * gives up the connection.
 */
void tell_failed(Node& node, const job::Failed& message);

}  // namespace reprise::crd
