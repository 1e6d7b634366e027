// SPDX-License-Identifier: GPL-2.0-only
/* 6.3 on: the registered length is kept */
#include <linux/sched.h>
unsigned int probe(struct task_struct *t);
unsigned int probe(struct task_struct *t) { return t->rseq_len; }
