// SPDX-License-Identifier: GPL-2.0-only
#include <linux/hrtimer.h>
void *probe(void);
void *probe(void) { return hrtimer_setup; }
