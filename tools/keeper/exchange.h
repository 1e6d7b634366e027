// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file
 * What the command and a keeper say to each other: the command its words, and where to write to; the keeper the exit
 * status, when it has done what they ask for and has written all that is to be written.
 */
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/unique_fd.h"

namespace reprise::snapshots {

struct Request {
  std::vector<std::string> words;  ///< argv; the first is the command's name whatever it was called by
  UniqueFd out, err, folder;       ///< standard output, standard error and the working directory of the command
  pid_t sender = 0;
};

/** @return the process at the other end of the connection, 0 in another pid namespace; nothing: it is not of our user */
std::optional<pid_t> peer_of(int socket);

/** Throws Error. @return false: the keeper has ended meanwhile, and has done nothing */
bool send_request(int keeper, const std::vector<std::string>& words);
/** @return the exit status, or kNotKept; -1: the keeper has ended */
int receive_status(int keeper);

/** Status: the keeper has nothing of this image, and has done nothing. */
inline constexpr int kNotKept = -2;

/** Waits a few seconds at most. @return false: it is not of our user, or incomplete */
bool receive_request(int command, Request& request);
void send_status(int command, int status);

}  // namespace reprise::snapshots
