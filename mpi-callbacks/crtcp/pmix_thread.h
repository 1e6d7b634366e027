/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief The thread in which libpmix talks to its server: it can be made to stand still. */
#ifndef CRTCP_PMIX_THREAD_H
#define CRTCP_PMIX_THREAD_H 1

#include <stdbool.h>

/** From now on until crtcp_pmix_release() libpmix sends, receives and changes nothing.
 * @return false when its thread was not there in time, being in a handler of the program's; then it is not held */
bool crtcp_pmix_hold(unsigned timeout_ms);
/** Let it go on; without effect on one that is not held. */
void crtcp_pmix_release(void);

#endif
