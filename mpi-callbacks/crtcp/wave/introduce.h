/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief The first messages to and from crd. */
#ifndef CRTCP_INTRODUCE_H
#define CRTCP_INTRODUCE_H 1

/** If CR_RANK_SOCKET is set: connect, send HELLO, receive WELCOME. Without the lock. @param why set if checkpoints are off
 * @return 0; -1: CR_RANK_SOCKET is set, but the daemon does not answer */
int crtcp_introduce(const char **why);

#endif
