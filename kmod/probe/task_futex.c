// SPDX-License-Identifier: GPL-2.0-only
/* 7.x: the robust list lies in task->futex */
#include <linux/sched.h>
void *probe(struct task_struct *t);
void *probe(struct task_struct *t) { return t->futex.robust_list; }
