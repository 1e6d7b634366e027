// SPDX-License-Identifier: GPL-2.0-only
/* 6.12 on: a sleeping task may stay on its run queue for a while (delayed dequeue) */
#include <linux/sched.h>
int probe(struct task_struct *t);
int probe(struct task_struct *t) { return t->se.sched_delayed; }
