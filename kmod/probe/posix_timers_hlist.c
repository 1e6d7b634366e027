// SPDX-License-Identifier: GPL-2.0-only
/* 6.12 on: a process's POSIX timers are in a hash list */
#include <linux/sched/signal.h>
int probe(struct signal_struct *signal);
int probe(struct signal_struct *signal) { return hlist_empty(&signal->posix_timers); }
