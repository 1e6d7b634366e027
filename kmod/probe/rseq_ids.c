// SPDX-License-Identifier: GPL-2.0-only
/* 6.19 on: the kernel caches the ids that it wrote last to the rseq area */
#include <linux/sched.h>
u32 probe(struct task_struct *t);
u32 probe(struct task_struct *t) { return t->rseq.ids.cpu_id + t->rseq.ids.mm_cid + t->rseq.ids.node_id; }
