// SPDX-License-Identifier: GPL-2.0-only
/*
 * Restart blocks: system calls with a timeout in which a thread was parked.
 */
#include "internal.h"
#include <linux/ktime.h>
#include <linux/sched/task_stack.h>
#include <asm/syscall.h>

/*
 * The number of the call that a restart block belongs to. A call that was interrupted
 * before continues as restart_syscall, but its arguments are still in the registers.
 */
static int cr_restart_nr(struct pt_regs *regs, struct restart_block *rb)
{
	switch ((long)regs->orig_ax) {
	case __NR_nanosleep:
	case __NR_clock_nanosleep:
	case __NR_poll:
	case __NR_futex:
		return regs->orig_ax;
	case __NR_restart_syscall:
		break;
	default:
		return 0;
	}
	if ((unsigned long)rb->futex.uaddr == regs->di && rb->futex.val == (u32)regs->dx)
		return __NR_futex;
	if ((unsigned long)rb->poll.ufds == regs->di && rb->poll.nfds == (int)regs->si)
		return __NR_poll;
	if (rb->nanosleep.clockid == (int)regs->di &&
	    (unsigned long)rb->nanosleep.rmtp == regs->r10)
		return __NR_clock_nanosleep;
	return __NR_nanosleep;
}

/* Absolute end of the parked call, and its clock; false: it has no timeout. */
static bool cr_restart_end(struct pt_regs *regs, struct restart_block *rb, ktime_t *end,
			   bool *realtime)
{
	*realtime = false;
	switch (cr_restart_nr(regs, rb)) {
	case __NR_nanosleep:
		*end = rb->nanosleep.expires;
		return true;
	case __NR_clock_nanosleep:
		*end = rb->nanosleep.expires;
		*realtime = rb->nanosleep.clockid == CLOCK_REALTIME;
		return true;
	case __NR_poll:
		*end = cr_poll_end(rb);
		return rb->poll.has_timeout;
	case __NR_futex:
		*end = rb->futex.time;
		*realtime = regs->si & 0x100;	/* FUTEX_CLOCK_REALTIME */
		return true;
	}
	return false;
}

static bool cr_has_restart(struct cr_member *m)
{
	struct pt_regs *regs = cr_member_regs(m);

	return (long)regs->ax == -ERESTART_RESTARTBLOCK && (long)regs->orig_ax >= 0;
}

/**
 * cr_restart_left() - the time that is left of the call that a thread is parked in
 * @m: the thread, pinned
 *
 * Return: ns; ~0: it is in no such call, or the call has no timeout.
 */
u64 cr_restart_left(struct cr_member *m)
{
	bool realtime;
	ktime_t end;
	s64 left;

	if (!cr_has_restart(m) ||
	    !cr_restart_end(cr_member_regs(m), cr_member_restart(m), &end, &realtime))
		return ~0ULL;
	left = ktime_to_ns(ktime_sub(end, realtime ? ktime_get_real() : ktime_get()));
	return max(left, 0LL);
}

/**
 * cr_restart_call() - the call that a thread with a restart block is parked in
 * @m: the thread, pinned
 *
 * Return: its number; 0: none.
 */
s32 cr_restart_call(struct cr_member *m)
{
	return cr_has_restart(m) ? cr_restart_nr(cr_member_regs(m), cr_member_restart(m)) : 0;
}

/* -------------------------------------------------------------------- setting */

/*
 * A relative timeout continues with the time that was left when the snapshot was taken; an
 * absolute timeout stays as it is. The thread is pinned.
 */
static void cr_shift_restart(struct cr_member *m, struct restart_block *rb, ktime_t taken)
{
	struct pt_regs *regs = cr_member_regs(m);
	bool realtime;
	ktime_t end;

	if (!cr_restart_end(regs, rb, &end, &realtime) || realtime)
		return;
	end = ktime_add(end, ktime_sub(ktime_get(), taken));
	switch (cr_restart_nr(regs, rb)) {
	case __NR_poll:
		cr_poll_set_end(rb, end);
		break;
	case __NR_futex:
		if ((regs->si & 0x7f) == 0)	/* FUTEX_WAIT; _BITSET is absolute */
			rb->futex.time = end;
		break;
	default:
		rb->nanosleep.expires = end;
	}
}

/**
 * cr_set_restart() - set a parked thread's restart block to the one in the session's snapshot
 * @s: the session
 * @m: the thread
 *
 * Return: 0, -ENOENT (there is none), or as cr_pin().
 */
int cr_set_restart(struct cr_session *s, struct cr_member *m)
{
	struct restart_block restart;
	ktime_t taken;
	int r;

	if (!cr_snap_restart(s, m->task, &restart, &taken))
		return -ENOENT;
	r = cr_pin(m);
	if (r)
		return r;
	cr_shift_restart(m, &restart, taken);
	*cr_member_restart(m) = restart;
	cr_unpin(m);
	return 0;
}

/**
 * cr_ioc_set_restart - set a parked thread's restart block to the one in the snapshot
 * @s: the session
 * @a: argument of the ioctl, in and out
 *
 * Return: 0, -ENOENT (there is none), -ESRCH, -EINVAL, -EINTR.
 */
long cr_ioc_set_restart(struct cr_session *s, struct cr_restart *a)
{
	struct cr_member *m;
	int r;

	if (a->reserved)
		return -EINVAL;
	m = cr_find(s, a->tid, &a->why);
	if (!m)
		return -ESRCH;
	r = cr_set_restart(s, m);
	cr_member_put(m);
	return r;
}
