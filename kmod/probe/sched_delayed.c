// SPDX-License-Identifier: GPL-2.0-only
/* 6.12 on: a task that sleeps may stay on its queue for a while */
#include <linux/sched.h>
int probe(struct task_struct *t);
int probe(struct task_struct *t) { return t->se.sched_delayed; }
