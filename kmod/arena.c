// SPDX-License-Identifier: GPL-2.0-only
/*
 * System calls made by a parked thread in user mode, with its own rights.
 *
 * The arena is mapped into the target: a page of code (the stub) that makes a
 * batch of calls, a gate page that is never present, and data pages that the
 * session's owner maps, too. When the batch is through, the stub reads the gate;
 * the fault handler queues the thread's task work, and the thread parks on its
 * way out of the fault. So a borrowed thread cannot run on by itself, whatever
 * happens to its session, and neither can a thread it has cloned.
 */
#include "internal.h"
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <asm/processor-flags.h>

/* kmod/stub.S */
extern const char cr_stub[], cr_stub_end[];

static struct page *cr_stub_page;

int cr_arena_init(void)
{
	BUILD_BUG_ON(sizeof(struct cr_call) != 64);
	cr_stub_page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!cr_stub_page)
		return -ENOMEM;
	memcpy(page_address(cr_stub_page), cr_stub, cr_stub_end - cr_stub);
	return 0;
}

void cr_arena_exit(void)
{
	__free_page(cr_stub_page);
}

void cr_arena_free(struct cr_session *s)
{
	int i;

	for (i = 0; s->arena_pages && i < CR_ARENA_DATA; i++)
		if (s->arena_pages[i])
			__free_page(s->arena_pages[i]);
	kfree(s->arena_pages);
	s->arena_pages = NULL;
}

static int cr_arena_alloc(struct cr_session *s)
{
	int i;

	if (s->arena_pages)
		return 0;
	s->arena_pages = kcalloc(CR_ARENA_DATA, sizeof(*s->arena_pages), GFP_KERNEL);
	if (!s->arena_pages)
		return -ENOMEM;
	for (i = 0; i < CR_ARENA_DATA; i++) {
		s->arena_pages[i] = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!s->arena_pages[i]) {
			cr_arena_free(s);
			return -ENOMEM;
		}
	}
	return 0;
}

/* --------------------------------------------------------------- mapping */

/* A thread of the target came to the gate: park it, known or new. */
static vm_fault_t cr_gate(struct cr_session *s, struct vm_fault *vmf)
{
	struct cr_member *m;

	if (current->mm != s->mm || !(vmf->flags & FAULT_FLAG_USER))
		return VM_FAULT_SIGBUS;
	m = xa_load(&s->members, current->pid);
	if (!m || m->task != current) {
		m = cr_member_new(s, current, GFP_KERNEL);
		if (IS_ERR(m))
			return VM_FAULT_OOM;
		m->born = true;
	}
	cr_queue(m);
	return VM_FAULT_NOPAGE;
}

static vm_fault_t cr_arena_fault(struct vm_fault *vmf)
{
	struct cr_session *s = vmf->vma->vm_file->private_data;
	unsigned long pgoff = vmf->pgoff;
	struct page *page;

	if (pgoff == CR_ARENA_PGOFF + 1)
		return cr_gate(s, vmf);
	if (pgoff == CR_ARENA_PGOFF) {
		page = cr_stub_page;
	} else {
		if (pgoff >= CR_ARENA_PGOFF)
			pgoff -= CR_ARENA_PGOFF + 2;
		if (pgoff >= CR_ARENA_DATA || !s->arena_pages)
			return VM_FAULT_SIGBUS;
		page = s->arena_pages[pgoff];
	}
	get_page(page);
	vmf->page = page;
	return 0;
}

static const struct vm_operations_struct cr_arena_ops = {
	.fault = cr_arena_fault,
};

bool cr_vma_is_arena(struct vm_area_struct *vma)
{
	return vma->vm_ops == &cr_arena_ops;
}

int cr_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct cr_session *s = file->private_data;
	bool target = vma->vm_pgoff >= CR_ARENA_PGOFF;

	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	/* the target's part only by cr_op_map(); the owner's has data pages alone */
	if (target ? READ_ONCE(s->mapping) != current :
		     vma->vm_pgoff + vma_pages(vma) > CR_ARENA_DATA || current->mm == s->mm)
		return -EPERM;
	if (!target && (vma->vm_flags & VM_EXEC))
		return -EPERM;
	cr_vm_flags_set(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_ops = &cr_arena_ops;
	return 0;
}

static int cr_op_unmap(struct cr_session *s, struct cr_member *m, void *arg)
{
	return vm_munmap(s->arena, CR_ARENA_PAGES << PAGE_SHIFT);
}

int cr_arena_unmap(struct cr_session *s)
{
	int r = 0;

	if (s->arena && cr_any(s))
		r = cr_run_on(s, cr_any(s), cr_op_unmap, NULL);
	s->arena = 0;
	return r;
}

/* Reserve the whole first, so that the two parts lie side by side. */
static int cr_op_map(struct cr_session *s, struct cr_member *m, void *arg)
{
	unsigned long len = CR_ARENA_PAGES << PAGE_SHIFT, addr = *(unsigned long *)arg, at;
	int r = 0;

	at = vm_mmap(NULL, addr, len, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | (addr ? MAP_FIXED_NOREPLACE : 0), 0);
	if (IS_ERR_VALUE(at))
		return (int)at;
	if (addr && at != addr) {
		vm_munmap(at, len);
		return -EEXIST;
	}
	addr = at;
	WRITE_ONCE(s->mapping, current);
	at = vm_mmap(s->file, addr, PAGE_SIZE, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED,
		     (unsigned long)CR_ARENA_PGOFF << PAGE_SHIFT);
	if (IS_ERR_VALUE(at))
		r = (int)at;
	at = vm_mmap(s->file, addr + PAGE_SIZE, len - PAGE_SIZE, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_FIXED, (unsigned long)(CR_ARENA_PGOFF + 1) << PAGE_SHIFT);
	if (IS_ERR_VALUE(at))
		r = (int)at;
	WRITE_ONCE(s->mapping, NULL);
	if (r) {
		vm_munmap(addr, len);
		return r;
	}
	s->arena = addr;
	return 0;
}

long cr_ioc_arena(struct cr_session *s, struct cr_arena *a)
{
	unsigned long addr = a->addr;
	int r;

	if (addr & ~PAGE_MASK || a->addr > TASK_SIZE_MAX)
		return -EINVAL;
	r = cr_arena_alloc(s);
	if (!r)
		r = cr_arena_unmap(s);
	if (!r)
		r = cr_run_on(s, cr_any(s), cr_op_map, &addr);
	if (r) {
		cr_why(&a->why, CR_WHY_ADDRESS, addr);
		return r;
	}
	a->addr = s->arena;
	a->data_addr = s->arena + 2 * PAGE_SIZE;
	a->data_size = CR_ARENA_DATA << PAGE_SHIFT;
	return 0;
}

/* --------------------------------------------------------------- running */

struct cr_batch {
	unsigned long calls, n;
};

static void cr_take_raw(struct cr_member *m)
{
	struct cr_raw *raw = &m->raw;
	u64 __user *rseq_cs = (u64 __user *)(cr_rseq_addr(current) + 8);

	raw->regs = *task_pt_regs(current);
	raw->restart = current->restart_block;
	raw->rseq_cs = 0;
	if (cr_rseq_addr(current) && get_user(raw->rseq_cs, rseq_cs))
		raw->rseq_cs = 0;
	spin_lock_irq(&cr_own_sighand()->siglock);
	raw->blocked = current->blocked;
	raw->saved_sigmask = current->saved_sigmask;
	raw->restore_sigmask = test_restore_sigmask();
	spin_unlock_irq(&cr_own_sighand()->siglock);
	m->have_raw = true;
}

/* Send the thread to the stub, with all signals blocked. */
static int cr_op_enter(struct cr_session *s, struct cr_member *m, void *arg)
{
	struct pt_regs *regs = task_pt_regs(current);
	struct cr_batch *b = arg;

	if (!m->have_raw)
		cr_take_raw(m);
	cr_sync_rseq();
	spin_lock_irq(&cr_own_sighand()->siglock);
	clear_restore_sigmask();
	sigfillset(&current->blocked);
	sigdelsetmask(&current->blocked, sigmask(SIGKILL) | sigmask(SIGSTOP));
	recalc_sigpending();
	spin_unlock_irq(&cr_own_sighand()->siglock);

	regs->ip = s->arena;
	regs->sp = s->arena + (CR_ARENA_PAGES << PAGE_SHIFT);
	regs->flags = X86_EFLAGS_IF | X86_EFLAGS_FIXED;
	regs->r13 = s->arena + PAGE_SIZE;
	regs->r14 = b->n;
	regs->r15 = s->arena + 2 * PAGE_SIZE + b->calls;
	regs->ax = 0;
	regs->orig_ax = -1;
	m->left = b->n;
	m->to_user = true;
	return 0;
}

/* Is the thread asleep in its call? */
static bool cr_is_blocked(struct cr_member *m)
{
	struct task_struct *t = m->task;

	return READ_ONCE(t->__state) & TASK_INTERRUPTIBLE && !READ_ONCE(t->on_rq) &&
	       !READ_ONCE(t->on_cpu);
}

/* CR_RUN_BLOCK: wait until it sleeps in the call (or has come back), interrupt it. */
static int cr_block(struct cr_session *s, struct cr_member *m, unsigned long end)
{
	while (READ_ONCE(m->state) == CR_RUNNING && !cr_is_blocked(m)) {
		if (fatal_signal_pending(current))
			return -EINTR;
		if (time_after(jiffies, end) || m->task->flags & PF_EXITING)
			return 0;
		schedule_timeout_interruptible(1);
	}
	cr_queue(m);
	return 0;
}

/* Only for waiting: the caller may have changed the calls meanwhile. */
static bool cr_makes_threads(struct cr_session *s, struct cr_batch *b)
{
	u64 i, at;

	for (i = 0; i < b->n; i++) {
		struct cr_call *call;

		at = b->calls + i * sizeof(*call);
		call = page_address(s->arena_pages[at >> PAGE_SHIFT]) + offset_in_page(at);
		if (READ_ONCE(call->nr) == __NR_clone || READ_ONCE(call->nr) == __NR_clone3)
			return true;
	}
	return false;
}

long cr_ioc_run(struct cr_session *s, struct cr_run *a)
{
	unsigned long timeout = msecs_to_jiffies(a->timeout_ms ? a->timeout_ms : 10000);
	struct cr_batch b = { .calls = a->calls, .n = a->ncalls };
	struct cr_member *m = cr_find(s, a->tid, &a->why);
	struct pt_regs *regs;
	int r;

	if (!m)
		return -ESRCH;
	if (!s->arena)
		return -ENOTCONN;
	if (a->flags & ~CR_RUN_BLOCK || !b.n || b.calls & 7 ||
	    (a->flags & CR_RUN_BLOCK && b.n != 1) ||
	    b.n > (CR_ARENA_DATA << PAGE_SHIFT) / sizeof(struct cr_call) ||
	    b.calls > (CR_ARENA_DATA << PAGE_SHIFT) - b.n * sizeof(struct cr_call))
		return -EINVAL;
	r = cr_run_on(s, m, cr_op_enter, &b);
	if (r)
		return r;
	if (a->flags & CR_RUN_BLOCK)
		r = cr_block(s, m, jiffies + timeout);
	if (!r)
		r = cr_wait_parked(s, m, timeout);
	if (r == -ESRCH) {	/* it made the call exit, or was killed */
		a->gone = 1;
		cr_reap(s);
		return cr_any(s) && !fatal_signal_pending(s->leader) ? 0 : -EINTR;
	}
	if (r == -ETIMEDOUT) {	/* have it back before we say so */
		cr_why(&a->why, CR_WHY_STUCK, a->tid);
		cr_queue(m);
		cr_wait_parked(s, m, HZ);
	}
	if (!r && cr_makes_threads(s, &b))
		r = cr_wait_born(s, timeout);
	if (r)
		return r;
	cr_wait_off_cpu(s, m);
	regs = task_pt_regs(m->task);
	a->ret = regs->ax;
	a->done = b.n - m->left;
	if (regs->ip != s->arena && (long)regs->orig_ax >= 0) {
		/* parked inside the call: what the kernel prepared is what counts */
		m->raw.restart = m->task->restart_block;
		return 0;
	}
	if (a->done) {
		struct cr_call *last;
		u64 at = a->calls + (a->done - 1) * sizeof(*last);

		last = page_address(s->arena_pages[at >> PAGE_SHIFT]) + offset_in_page(at);
		a->ret = last->ret;
	}
	return 0;
}
