// SPDX-License-Identifier: GPL-2.0-only
/*
 * The state that changes in a thread while it is parked and while it makes calls for a
 * session, and how it is restored. All functions run in the thread's own context, but for
 * cr_member_regs() and cr_member_restart().
 */
#include "internal.h"
#include <linux/rseq.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>
#include <asm/unistd.h>

/* The registers of the thread after the thaw. Other threads must hold cr_pin(). */
struct pt_regs *cr_member_regs(struct cr_member *m)
{
	return m->borrowed ? &m->raw.regs : task_pt_regs(m->task);
}

struct restart_block *cr_member_restart(struct cr_member *m)
{
	return m->borrowed ? &m->raw.restart : &m->task->restart_block;
}

/*
 * Some calls return a hard -EINTR for the task work's notification although no signal is
 * pending. Have the kernel restart them: a freeze must not show the program an EINTR. This
 * applies to all calls, because it depends on files and file systems which ones do this. A
 * call that returns -EINTR has had no effect. The exceptions are the calls that close a
 * descriptor: it is closed already.
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
 * and kill a program that has modified them. After a rollback the area holds the numbers
 * of the checkpoint. So write the numbers that the kernel has cached before the thread
 * returns to user mode.
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

/*
 * Restore rseq_cs after the thread has run in the stub: the kernel clears it when a thread
 * runs outside its critical section.
 */
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
 * @saved: out: the old blocked set
 *
 * This blocks SIGSTOP, too: it takes effect after the thaw, not in the middle of the
 * session's calls.
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
 * cr_borrow - save the state that calls in user mode change, and block signals
 * @m: the member
 *
 * Only the first call before a cr_give_back() has an effect; later batches of the same
 * freeze keep the saved state.
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
 * cr_give_back - restore the saved state before the thread leaves
 * @m: the member
 *
 * Signal masks may have changed while the threads were parked, also by the session. A
 * signal of the process may now belong to another thread, so every thread that leaves
 * calls recalc_sigpending().
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
