// SPDX-License-Identifier: GPL-2.0-only
/* 6.19 on: restart_block.poll.end_time */
#include <linux/sched.h>
long probe(struct task_struct *t);
long probe(struct task_struct *t) { return t->restart_block.poll.end_time.tv_sec; }
