// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads that a signal has stopped (job control). They sleep in the kernel and would come
 * to park only after SIGCONT. The session wakes them behind the back of the signals' code:
 * the process stays stopped in the eyes of its parent, and who leaves stops again, without
 * a word to anybody. When SIGCONT comes meanwhile, nobody stops again.
 *
 * A thread that wakes so finds no signal, and the kernel decides on its interrupted call:
 * registers, restart block and masks are kept before, as for a thread that is borrowed.
 */
#include "internal.h"
#include <linux/pid.h>
#include <linux/sched/jobctl.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/wait.h>

/*
 * Under siglock: the thread sleeps in its stop, or is about to. So it does not run its work,
 * and what belongs to it while it is queued is left to us.
 */
static bool cr_may_rouse(struct cr_member *m)
{
	struct task_struct *t = m->task;

	if (READ_ONCE(m->state) != CR_QUEUED || READ_ONCE(m->leave) || m->born)
		return false;
	if (m->borrowed && !m->roused)
		return false;
	return task_is_stopped(t) && !t->ptrace && !__fatal_signal_pending(t) &&
	       !(t->signal->flags & SIGNAL_GROUP_EXIT);
}

/* What cr_borrow() keeps, but for what only the thread itself can read. */
static void cr_keep(struct cr_member *m)
{
	struct task_struct *t = m->task;

	m->raw.regs = *task_pt_regs(t);
	m->raw.restart = t->restart_block;
	m->raw.rseq_cs = 0;
	m->raw.stop = 0;
	m->raw.blocked = t->blocked;
	m->raw.saved_sigmask = t->saved_sigmask;
	m->raw.restore_sigmask = test_tsk_restore_sigmask(t);
	clear_tsk_restore_sigmask(t);
	/* it shall come to park, and not take a signal that waits for SIGCONT */
	sigfillset(&t->blocked);
	sigdelset(&t->blocked, SIGKILL);
	m->borrowed = true;
	m->roused = true;
}

static void cr_rouse(struct cr_member *m)
{
	struct wait_queue_entry wake = { .private = m->task };
	struct task_struct *t = m->task;
	struct sighand_struct *hand;

	if (!task_is_stopped(t))
		return;
	/* as lock_task_sighand(), which is not exported; when it loses, there is a next time */
	rcu_read_lock();
	hand = rcu_dereference(t->sighand);
	if (hand) {
		spin_lock_irq(&hand->siglock);
		if (hand == rcu_access_pointer(t->sighand) && cr_may_rouse(m)) {
			/* another stop may have come before it did */
			if (!m->roused)
				cr_keep(m);
			t->jobctl &= ~JOBCTL_STOPPED;
			/* the one exported way to wake nothing but a stopped thread */
			default_wake_function(&wake, __TASK_STOPPED, 0, NULL);
		}
		spin_unlock_irq(&hand->siglock);
	}
	rcu_read_unlock();
}

/**
 * cr_rouse_stopped - have threads that a signal has stopped come to park
 * @s: the session, whose threads are all queued
 *
 * To be called again until they are there: a stop may come after the look at it.
 */
void cr_rouse_stopped(struct cr_session *s)
{
	struct cr_member *m;
	unsigned long i;

	cr_for_each_member(s, i, m)
		cr_rouse(m);
}

/**
 * cr_is_stopped - does a stop by a signal hold the process?
 *
 * Of current's process, siglock is held. A stop that not all threads have joined counts.
 *
 * Return: whether it does.
 */
bool cr_is_stopped(void)
{
	return current->signal->flags & SIGNAL_STOP_STOPPED || current->signal->group_stop_count;
}

#define CR_STOP_BITS	(JOBCTL_STOP_PENDING | JOBCTL_STOP_CONSUME | JOBCTL_STOP_DEQUEUED)

/**
 * cr_put_off_stop - current leaves for the stub: it shall not stop in there
 * @m: current, borrowed
 *
 * A stop may have begun before it was parked, in which it has not taken part yet.
 */
void cr_put_off_stop(struct cr_member *m)
{
	spin_lock_irq(&cr_own_sighand()->siglock);
	m->raw.stop |= current->jobctl & CR_STOP_BITS;
	current->jobctl &= ~CR_STOP_BITS;
	recalc_sigpending();
	spin_unlock_irq(&cr_own_sighand()->siglock);
}

/**
 * cr_stop_again - current runs on: if its process is stopped, it stops
 * @m: current
 *
 * With siglock held. A thread that has taken part in the stop is not counted again, and so its
 * parent hears nothing.
 */
void cr_stop_again(struct cr_member *m)
{
	if (!cr_is_stopped() || current->flags & PF_EXITING)
		return;
	current->jobctl |= JOBCTL_STOP_PENDING;
	if (m->borrowed)
		current->jobctl |= m->raw.stop;
	if (!(current->jobctl & JOBCTL_STOP_SIGMASK))
		current->jobctl |= SIGSTOP;
}
