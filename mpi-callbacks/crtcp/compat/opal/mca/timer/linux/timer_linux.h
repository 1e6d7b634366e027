/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Replaces a header that Open MPI's installed opal/mca/timer/timer.h includes but that is not installed. crtcp reads no
 * timers and needs only the types. */
#ifndef CRTCP_COMPAT_TIMER_LINUX_H
#define CRTCP_COMPAT_TIMER_LINUX_H

#include "opal_config.h"
#include "opal/sys/timer.h"

#endif
