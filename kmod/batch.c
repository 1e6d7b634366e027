// SPDX-License-Identifier: GPL-2.0-only
/*
 * A batch of system calls, which a borrowed thread makes one at a time. The module loads
 * the registers of each call and stores its result. So the progress of a batch is kept in
 * the kernel and never read from the target's memory.
 *
 *   cr_batch_load()      registers := call, in_call
 *     the thread: syscall, gate
 *   cr_batch_at_gate()   result := ax, done++; load the next call, or park
 *   cr_batch_parked()    the thread parks: at the gate, before the call, or in the call
 */
#include "internal.h"
#include <linux/kref.h>
#include <linux/ptrace.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <asm/processor-flags.h>
#include <asm/unistd.h>
#include <uapi/linux/sched.h>

#define CR_STUB_GATE	2	/* offset in the stub of the instruction after syscall */

struct cr_batch *cr_batch_new(struct cr_call *calls, u32 n, unsigned long stub,
			      struct cr_arena_pages *pages)
{
	struct cr_batch *b = kzalloc(sizeof(*b), GFP_KERNEL_ACCOUNT);

	if (!b)
		return NULL;
	kref_init(&b->ref);
	b->calls = calls;
	b->n = n;
	b->stub = stub;
	b->pages = pages;
	return b;
}

static void cr_batch_free(struct kref *ref)
{
	struct cr_batch *b = container_of(ref, struct cr_batch, ref);

	kvfree(b->calls);
	kfree(b);
}

void cr_batch_put(struct cr_batch *b)
{
	if (b)
		kref_put(&b->ref, cr_batch_free);
}

/* Does it create a thread? Not CLONE_VFORK: the creator must not block, it adopts the thread. */
static bool cr_flags_make_thread(u64 flags)
{
	return flags & CLONE_THREAD && !(flags & CLONE_VFORK);
}

/*
 * clone3 reads its flags from memory. Accept only arguments in the arena's data pages. If
 * the flags change after this check and clone3 creates a process, that process gets SIGBUS
 * at the gate.
 */
static bool cr_makes_thread(const struct cr_batch *b, const struct cr_call *c)
{
	u64 at = c->arg[0] - (b->stub + 2 * PAGE_SIZE);
	u64 *flags;

	if (at >= CR_ARENA_DATA * PAGE_SIZE || at % sizeof(*flags))
		return false;
	flags = page_address(b->pages->data[at >> PAGE_SHIFT]) + offset_in_page(at);
	return cr_flags_make_thread(READ_ONCE(*flags));
}

/*
 * Calls that would take a borrowed thread out of the session's control: they execute another
 * program, replace the registers, or create a process that shares its memory. This check is
 * no security boundary: the session's owner can do similar things in other ways, and they
 * affect only the target.
 */
static bool cr_call_forbidden(const struct cr_batch *b, const struct cr_call *c)
{
	if (c->nr & __X32_SYSCALL_BIT)
		return true;
	switch (c->nr) {
	case __NR_execve:
	case __NR_execveat:
	case __NR_rt_sigreturn:
	case __NR_fork:
	case __NR_vfork:
		return true;
	case __NR_clone:
		return !cr_flags_make_thread(c->arg[0]);
	case __NR_clone3:
		return !cr_makes_thread(b, c);
	}
	return false;
}

static bool cr_call_clones(const struct cr_call *c)
{
	return c->nr == __NR_clone || c->nr == __NR_clone3;
}

/* Maximum number of threads that the batch creates. */
u32 cr_batch_clones(const struct cr_batch *b)
{
	u32 i, n = 0;

	for (i = 0; i < b->n; i++)
		n += cr_call_clones(&b->calls[i]);
	return n;
}

static void cr_registers(unsigned long ip)
{
	struct pt_regs *regs = task_pt_regs(current);

	regs->ip = ip;
	regs->sp = ip + CR_ARENA_SIZE;
	regs->flags = X86_EFLAGS_IF | X86_EFLAGS_FIXED;
	regs->orig_ax = -1;
}

static void cr_result(struct cr_batch *b, s64 result)
{
	struct cr_call *c = &b->calls[b->done++];

	c->ret = result;
	b->in_call = false;
	if (IS_ERR_VALUE((unsigned long)result)) {
		b->stopped = c->flags & CR_CALL_STOP;
	} else if (result > 0 && cr_call_clones(c)) {
		b->cloned = true;
		b->born = result;
	}
}

/**
 * cr_batch_load - load the registers of the batch's next call into current
 * @b: the batch
 *
 * Return: false when no call is left.
 */
bool cr_batch_load(struct cr_batch *b)
{
	struct pt_regs *regs = task_pt_regs(current);
	const struct cr_call *c;

	while (b->done < b->n && !b->stopped && !b->error) {
		c = &b->calls[b->done];
		if (cr_call_forbidden(b, c)) {
			cr_result(b, -EPERM);
			continue;
		}
		regs->ax = c->nr;
		regs->di = c->arg[0];
		regs->si = c->arg[1];
		regs->dx = c->arg[2];
		regs->r10 = c->arg[3];
		regs->r8 = c->arg[4];
		regs->r9 = c->arg[5];
		cr_registers(b->stub);
		b->in_call = true;
		return true;
	}
	return false;
}

/* Make a thread that the session has created, and that has no registers of its own, exit. */
void cr_load_exit(unsigned long stub)
{
	struct pt_regs *regs = task_pt_regs(current);

	regs->ax = __NR_exit;
	regs->di = 0;
	cr_registers(stub);
}

/**
 * cr_batch_at_gate - current has faulted at the gate: store the result
 * @b: the batch
 * @regs: current's registers
 *
 * Return: true when the next call is loaded, false when the thread must park.
 */
bool cr_batch_at_gate(struct cr_batch *b, struct pt_regs *regs)
{
	if (!b->in_call)
		return false;	/* faulted again while the task work is being queued */
	if (regs->ip != b->stub + CR_STUB_GATE) {
		b->error = -EIO;
		return false;
	}
	cr_result(b, regs->ax);
	return cr_batch_load(b);
}

static bool cr_is_restart_code(long ax)
{
	return ax == -ERESTARTSYS || ax == -ERESTARTNOINTR || ax == -ERESTARTNOHAND ||
	       ax == -ERESTART_RESTARTBLOCK;
}

/**
 * cr_batch_parked - current parks: update the progress of its batch
 * @b: the batch
 * @regs: current's registers
 *
 * The task work may interrupt the thread before, in or after a call.
 */
void cr_batch_parked(struct cr_batch *b, struct pt_regs *regs)
{
	if (!b->in_call)
		return;
	if (regs->ip == b->stub && (long)regs->orig_ax < 0)
		return;		/* the call has not begun */
	if (regs->ip == b->stub) {
		/* interrupted, and the kernel has set up the registers for the restart already */
		b->interrupted = true;
		b->code = regs->ax == __NR_restart_syscall ? -ERESTART_RESTARTBLOCK : -ERESTARTNOINTR;
	} else if (regs->ip != b->stub + CR_STUB_GATE) {
		b->error = -EIO;
	} else if ((long)regs->orig_ax >= 0 && cr_is_restart_code(regs->ax)) {
		b->interrupted = true;
		b->code = regs->ax;
	} else {
		cr_result(b, regs->ax);
	}
}
