/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief The PMIx client of this process: find out whether it is idle, and replace its connection. */
#ifndef CRTCP_PMIX_STATE_H
#define CRTCP_PMIX_STATE_H 1

#include <stdbool.h>

enum crtcp_pmix_state { CRTCP_PMIX_IDLE, CRTCP_PMIX_BUSY, CRTCP_PMIX_UNKNOWN };

/** Stop libpmix's thread and record the state of the client: the byte counts of its connection, and the epoll sets that
 * watch it. If the client is idle, libpmix stays stopped and the connection is removed from the epoll sets, so that no
 * epoll set in an image watches it. The caller must then call crtcp_pmix_go_on().
 * @param why a text unless idle */
enum crtcp_pmix_state crtcp_pmix_look(const char **why);
/** Add the connection to the epoll sets again, and resume libpmix's thread. */
void crtcp_pmix_go_on(void);
/** Has the connection carried no data since crtcp_pmix_look()? After a rollback: since the image. */
bool crtcp_pmix_same(void);
/** Is the connection established? After a restart: was it replaced? */
bool crtcp_pmix_alive(void);
/** Commit all values of this rank again, for a server that does not know them. Waits for the server. */
void crtcp_pmix_commit(void);
/** Replace the connection by `fd`, which is set up for this rank, before libpmix's thread resumes. Takes `fd`.
 * @return 0 or -1 */
int crtcp_pmix_install(int fd);

#endif
