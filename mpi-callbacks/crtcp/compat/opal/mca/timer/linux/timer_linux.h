/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* In place of a header that Open MPI's installed opal/mca/timer/timer.h includes, but that is not installed.
 * Nothing here reads timers: only the types have to be known. */
#ifndef CRTCP_COMPAT_TIMER_LINUX_H
#define CRTCP_COMPAT_TIMER_LINUX_H

#include "opal_config.h"
#include "opal/sys/timer.h"

#endif
