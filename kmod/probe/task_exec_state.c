// SPDX-License-Identifier: GPL-2.0-only
/* 7.2 on: dumpable lies in task->exec_state */
#include <linux/sched.h>
#include <linux/sched/exec_state.h>
int probe(struct task_struct *t);
int probe(struct task_struct *t) { return rcu_access_pointer(t->exec_state)->dumpable; }
