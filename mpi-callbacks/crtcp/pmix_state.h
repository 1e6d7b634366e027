/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief The PMIx client of this process: whether it is idle, and giving it another connection. */
#ifndef CRTCP_PMIX_STATE_H
#define CRTCP_PMIX_STATE_H 1

#include <stdbool.h>

enum crtcp_pmix_state { CRTCP_PMIX_IDLE, CRTCP_PMIX_BUSY, CRTCP_PMIX_UNKNOWN };

/** Have libpmix stand still and look at the client: the counts of its connection, where it is watched. When it is idle it
 * stays so, and nobody watches the connection, so that nobody in an image does: crtcp_pmix_go_on() has to follow.
 * @param why a text unless idle */
enum crtcp_pmix_state crtcp_pmix_look(const char **why);
/** Have the connection watched again, and let libpmix go on. */
void crtcp_pmix_go_on(void);
/** Has its connection carried nothing since crtcp_pmix_look()? After a rollback: since the image. */
bool crtcp_pmix_same(void);
/** Is the connection one that can be used? After a restart: was another put in its place? */
bool crtcp_pmix_alive(void);
/** The server is one that knows nothing of this rank: tell it what the rank has put, for processes that ask later. Waits
 * for the server. */
void crtcp_pmix_commit(void);
/** Put `fd`, a connection that is set up for this rank, in the place of the old one, before
 * libpmix goes on. Takes `fd`.
 * @return 0 or -1 */
int crtcp_pmix_install(int fd);

#endif
