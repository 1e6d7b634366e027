// SPDX-License-Identifier: GPL-2.0-only
/* 6.3 on: task->rseq_len stores the registered length */
#include <linux/sched.h>
unsigned int probe(struct task_struct *t);
unsigned int probe(struct task_struct *t) { return t->rseq_len; }
