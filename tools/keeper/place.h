// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Where the keepers of a user's snapshots listen: a folder of the user's own with a socket for each process. */
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/unique_fd.h"

namespace reprise::snapshots {

/**
 * The folder, made if need be: /run/reprise for root, else reprise in $XDG_RUNTIME_DIR, else /tmp/reprise-UID. Throws
 * Error (refused) when somebody else could write to it.
 */
std::string folder();

/** @return the processes that have, or had, a keeper */
std::vector<pid_t> processes_with_keepers();

/** Whether @p pid may have a keeper. Makes no folder. */
bool may_have_keeper(pid_t pid);

/** @return a connection to the keeper of @p pid; empty: it has none */
UniqueFd connect_to_keeper(pid_t pid);

/** Held while a keeper is looked for and started, or ends, so that a process never has two. */
class StartLock {
 public:
  StartLock();

 private:
  UniqueFd file_;
};

/** @return a socket on which the keeper of @p pid listens; replaces one that nobody listens on. Hold a StartLock. */
UniqueFd listen_as_keeper(pid_t pid);

/** Remove the socket of a keeper that ends, or is gone. Hold a StartLock. */
void remove_socket(pid_t pid);

}  // namespace reprise::snapshots
