// SPDX-License-Identifier: GPL-2.0-only
/*
 * What changes in a thread by being parked and by being borrowed for calls of a session,
 * and how it is put back. All of this runs in the thread's own context.
 */
#include "internal.h"
#include <linux/rseq.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>
#include <asm/unistd.h>

/* The registers with which the thread will run on; see cr_pin() for whoever is not it. */
struct pt_regs *cr_member_regs(struct cr_member *m)
{
	return m->borrowed ? &m->raw.regs : task_pt_regs(m->task);
}

struct restart_block *cr_member_restart(struct cr_member *m)
{
	return m->borrowed ? &m->raw.restart : &m->task->restart_block;
}

/*
 * Calls that turn our notification into a hard -EINTR although no signal came: the kernel
 * restarts them, or freezing would leak EINTR into the program. Of all calls, for which
 * ones do this depends on files and file systems; none has done anything when it says so.
 * But for close: the descriptor is gone by then.
 */
void cr_hide_eintr(struct pt_regs *regs)
{
	if (task_sigpending(current) || (long)regs->ax != -EINTR || (long)regs->orig_ax < 0)
		return;
	switch ((long)regs->orig_ax) {
	case __NR_close:
	case __NR_close_range:
	case __NR_dup2:
	case __NR_dup3:
		return;
	}
	regs->ax = -ERESTARTNOINTR;
}

/*
 * Newer kernels write a thread's CPU numbers to its rseq area only when they have changed,
 * and end a program that has tampered with them. After a rollback of the memory they are
 * those of the checkpoint: write what the kernel believes to be there, before it goes to
 * user mode.
 */
void cr_sync_rseq(void)
{
#ifdef CR_HAVE_RSEQ_IDS
	struct rseq __user *rseq = current->rseq.usrptr;
	struct rseq_ids ids = current->rseq.ids;

	if (!rseq)
		return;
	if (put_user(ids.cpu_id, &rseq->cpu_id_start) || put_user(ids.cpu_id, &rseq->cpu_id) ||
	    put_user(ids.node_id, &rseq->node_id) || put_user(ids.mm_cid, &rseq->mm_cid))
		pr_debug("rseq area of %d is gone\n", current->pid);
#endif
}

static u64 __user *cr_rseq_cs(void)
{
	unsigned long rseq = cr_rseq_addr(current);

	return rseq ? (u64 __user *)(rseq + offsetof(struct rseq, rseq_cs)) : NULL;
}

/* Back from the stub: the kernel has seen the thread outside its critical section. */
void cr_put_rseq_cs(struct cr_member *m)
{
	u64 __user *rseq_cs = cr_rseq_cs();

	if (m->borrowed && m->raw.rseq_cs && rseq_cs && put_user(m->raw.rseq_cs, rseq_cs))
		pr_debug("rseq area of %d is gone\n", current->pid);
}

/* Before the thread goes to the stub for the first time. */
void cr_note_rseq_cs(struct cr_member *m)
{
	u64 __user *rseq_cs = cr_rseq_cs();

	if (!rseq_cs || get_user(m->raw.rseq_cs, rseq_cs))
		m->raw.rseq_cs = 0;
}

/**
 * cr_hold_signals - block every signal but SIGKILL
 * @saved: out: what was blocked
 *
 * SIGSTOP is held back, too: it takes effect when the thread runs on, not in the middle
 * of the session's calls.
 */
void cr_hold_signals(sigset_t *saved)
{
	spin_lock_irq(&cr_own_sighand()->siglock);
	*saved = current->blocked;
	sigfillset(&current->blocked);
	sigdelset(&current->blocked, SIGKILL);
	recalc_sigpending();
	spin_unlock_irq(&cr_own_sighand()->siglock);
}

void cr_release_signals(const sigset_t *saved)
{
	spin_lock_irq(&cr_own_sighand()->siglock);
	current->blocked = *saved;
	recalc_sigpending();
	spin_unlock_irq(&cr_own_sighand()->siglock);
}

/**
 * cr_borrow - keep what calls in user mode change, and hold signals back
 * @m: the member
 *
 * Once until cr_give_back(), however many batches are made meanwhile.
 */
void cr_borrow(struct cr_member *m)
{
	struct cr_raw *raw = &m->raw;

	if (m->borrowed) {
		cr_put_off_stop(m);
		return;
	}
	raw->regs = *task_pt_regs(current);
	raw->restart = current->restart_block;
	raw->stop = 0;
	cr_note_rseq_cs(m);
	spin_lock_irq(&cr_own_sighand()->siglock);
	raw->saved_sigmask = current->saved_sigmask;
	raw->restore_sigmask = test_restore_sigmask();
	clear_restore_sigmask();
	spin_unlock_irq(&cr_own_sighand()->siglock);
	cr_hold_signals(&raw->blocked);
	cr_put_off_stop(m);
	m->borrowed = true;
}

/**
 * cr_give_back - the thread runs on: undo what borrowing it has changed
 * @m: the member
 *
 * Masks may have been changed while it was parked, by the session, too, and signals of
 * the process that were meant for it may have to be seen by another: every thread that
 * leaves looks for itself.
 */
void cr_give_back(struct cr_member *m)
{
	struct cr_raw *raw = &m->raw;

	if (m->borrowed) {
		*task_pt_regs(current) = raw->regs;
		current->restart_block = raw->restart;
	}
	cr_sync_rseq();
	spin_lock_irq(&cr_own_sighand()->siglock);
	if (m->borrowed) {
		current->blocked = raw->blocked;
		current->saved_sigmask = raw->saved_sigmask;
		if (raw->restore_sigmask)
			set_restore_sigmask();
		else
			clear_restore_sigmask();
	}
	cr_stop_again(m);
	recalc_sigpending();
	spin_unlock_irq(&cr_own_sighand()->siglock);
	m->borrowed = false;
}
