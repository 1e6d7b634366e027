// SPDX-License-Identifier: GPL-2.0-only
/* 6.18 on: task->rseq is a structure */
#include <linux/sched.h>
void *probe(struct task_struct *t);
void *probe(struct task_struct *t) { return t->rseq.usrptr; }
