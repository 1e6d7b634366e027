// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/cr: open, close and the table of ioctls. One open description is one session.
 */
#include "internal.h"
#include <linux/fdtable.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

/* Largest ioctl argument on the stack; struct cr_process is larger and is allocated. */
#define CR_STACK_ARG 160

static int cr_open(struct inode *inode, struct file *file)
{
	struct cr_session *s = cr_session_new();

	if (IS_ERR(s))
		return PTR_ERR(s);
	s->file = file;
	cr_freeze_init(s);
	file->private_data = s;
	return 0;
}

/*
 * The owner has closed its descriptor or died: thaw the target even when other
 * processes still hold copies of the descriptor. The same for the holder of a lease.
 */
static int cr_flush(struct file *file, fl_owner_t id)
{
	struct cr_session *s = file->private_data;

	cr_lease_close(s, false);
	if (s->owner != task_tgid(current))
		return 0;
	cr_owner_gone(s);
	cr_agent_forget(s);
	return 0;
}

static int cr_release(struct inode *inode, struct file *file)
{
	struct cr_session *s = file->private_data;

	cr_lease_close(s, true);
	cr_freeze_close(s);
	cr_snap_drop(s);
	cr_agent_forget(s);
	cr_agent_release(s);
	cr_session_put(s);
	return 0;
}

static long cr_ioc_info(struct cr_session *s, struct cr_info *a)
{
	memset(a, 0, sizeof(*a));
	a->api_version = CR_API_VERSION;
	a->page_size = PAGE_SIZE;
	a->features = CR_FEAT_COW | CR_FEAT_TRACK | CR_FEAT_RUN | CR_FEAT_AGENT | CR_FEAT_LEASE |
		      CR_FEAT_GUARDS | CR_FEAT_ORIGIN | CR_FEAT_THREAD_CREDS | CR_FEAT_SHARERS |
		      CR_FEAT_LINEAGE | CR_FEAT_CHANGED | CR_FEAT_DIGEST |
		      CR_FEAT_SET_THREADS | CR_FEAT_ROLLBACK | CR_FEAT_ROLLBACK_SELF;
	a->arena_size = CR_ARENA_SIZE;
	/* The owner can show that it lives while a request of its own holds ioctl_lock. */
	cr_session_alive(s);
	return 0;
}

static long cr_ioc_snap_drop(struct cr_session *s, void *unused)
{
	cr_snap_drop(s);
	return 0;
}

/* ----------------------------------------------------------- the table of ioctls */

/* Convert void * to the structure of each handler. */
#define CR_TYPED(handler, type)							\
	static long handler##_arg(struct cr_session *s, void *arg)		\
	{									\
		return handler(s, (type *)arg);					\
	}

CR_TYPED(cr_ioc_info, struct cr_info)
CR_TYPED(cr_ioc_attach, struct cr_attach)
CR_TYPED(cr_ioc_freeze, struct cr_freeze)
CR_TYPED(cr_ioc_thaw, struct cr_thaw)
CR_TYPED(cr_ioc_commit, void)
CR_TYPED(cr_ioc_threads, struct cr_array)
CR_TYPED(cr_ioc_get_regs, struct cr_regs)
CR_TYPED(cr_ioc_set_regs, struct cr_regs)
CR_TYPED(cr_ioc_set_sigmask, struct cr_sigmask)
CR_TYPED(cr_ioc_set_restart, struct cr_restart)
CR_TYPED(cr_ioc_process, struct cr_process)
CR_TYPED(cr_ioc_vmas, struct cr_array)
CR_TYPED(cr_ioc_fds, struct cr_array)
CR_TYPED(cr_ioc_sigpending, struct cr_sigpending)
CR_TYPED(cr_ioc_get_file, struct cr_get_file)
CR_TYPED(cr_ioc_put_file, struct cr_put_file)
CR_TYPED(cr_ioc_sharers, struct cr_sharers)
CR_TYPED(cr_ioc_arena, struct cr_arena)
CR_TYPED(cr_ioc_run, struct cr_run)
CR_TYPED(cr_ioc_snapshot, struct cr_snapshot)
CR_TYPED(cr_ioc_snap_runs, struct cr_array)
CR_TYPED(cr_ioc_snap_clean, struct cr_array)
CR_TYPED(cr_ioc_snap_drop, void)
CR_TYPED(cr_ioc_dirty, struct cr_dirty)
CR_TYPED(cr_ioc_guards, struct cr_array)
CR_TYPED(cr_ioc_restore, struct cr_restore)
CR_TYPED(cr_ioc_agent_wait, struct cr_agent)
CR_TYPED(cr_ioc_agent_ready, struct cr_agent)
CR_TYPED(cr_ioc_notify, struct cr_notify)
CR_TYPED(cr_ioc_outcome, struct cr_notify)
CR_TYPED(cr_ioc_origin, struct cr_origin)
CR_TYPED(cr_ioc_agent_origin, struct cr_origin)
CR_TYPED(cr_ioc_lease, struct cr_lease)
CR_TYPED(cr_ioc_lineage, struct cr_lineage)
CR_TYPED(cr_ioc_digest, struct cr_digest)
CR_TYPED(cr_ioc_set_threads, struct cr_set_threads)
CR_TYPED(cr_ioc_rollback, struct cr_rollback)

/* Conditions under which a handler is called. */
#define CR_ALONE	1	/* one at a time, under ioctl_lock */
#define CR_TARGET	2	/* the session is attached */
#define CR_STILL	4	/* the target is frozen by this session */
#define CR_MEMORY	8	/* the target's mm has users; the handler holds a reference */

#define CR_FROZEN_ONES	(CR_ALONE | CR_TARGET | CR_STILL | CR_MEMORY)

#define CR_ENTRY(name, handler, flags) \
	[_IOC_NR(CR_IOC_##name)] = { CR_IOC_##name, handler##_arg, flags, NULL }
#define CR_ENTRY_UNDO(name, handler, flags, undo) \
	[_IOC_NR(CR_IOC_##name)] = { CR_IOC_##name, handler##_arg, flags, undo##_arg }

/* Undo the effects of a handler whose result could not be copied to the caller. */
#define CR_UNDO(undo, type)							\
	static void undo##_arg(struct cr_session *s, void *arg)			\
	{									\
		undo(s, (type *)arg);						\
	}

CR_UNDO(cr_undo_get_file, struct cr_get_file)
CR_UNDO(cr_undo_put_file, struct cr_put_file)
CR_UNDO(cr_undo_agent_wait, struct cr_agent)
CR_UNDO(cr_undo_agent_ready, struct cr_agent)

static const struct cr_entry {
	unsigned int cmd;
	long (*handler)(struct cr_session *s, void *arg);
	unsigned int flags;
	void (*undo)(struct cr_session *s, void *arg);
} cr_table[] = {
	CR_ENTRY(INFO,		cr_ioc_info,		0),
	CR_ENTRY(ATTACH,	cr_ioc_attach,		CR_ALONE),
	CR_ENTRY(FREEZE,	cr_ioc_freeze,		CR_ALONE | CR_TARGET),
	CR_ENTRY(THAW,		cr_ioc_thaw,		CR_ALONE | CR_TARGET | CR_STILL),
	CR_ENTRY(COMMIT,	cr_ioc_commit,		CR_FROZEN_ONES),
	CR_ENTRY(THREADS,	cr_ioc_threads,		CR_FROZEN_ONES),
	CR_ENTRY(GET_REGS,	cr_ioc_get_regs,	CR_FROZEN_ONES),
	CR_ENTRY(SET_REGS,	cr_ioc_set_regs,	CR_FROZEN_ONES),
	CR_ENTRY(SET_SIGMASK,	cr_ioc_set_sigmask,	CR_FROZEN_ONES),
	CR_ENTRY(SET_RESTART,	cr_ioc_set_restart,	CR_FROZEN_ONES),
	CR_ENTRY(PROCESS,	cr_ioc_process,		CR_FROZEN_ONES),
	CR_ENTRY(VMAS,		cr_ioc_vmas,		CR_FROZEN_ONES),
	CR_ENTRY(FDS,		cr_ioc_fds,		CR_FROZEN_ONES),
	CR_ENTRY(SIGPENDING,	cr_ioc_sigpending,	CR_FROZEN_ONES),
	CR_ENTRY_UNDO(GET_FILE,	cr_ioc_get_file,	CR_FROZEN_ONES,	cr_undo_get_file),
	CR_ENTRY_UNDO(PUT_FILE,	cr_ioc_put_file,	CR_FROZEN_ONES,	cr_undo_put_file),
	CR_ENTRY(SHARERS,	cr_ioc_sharers,		CR_FROZEN_ONES),
	CR_ENTRY(ARENA,		cr_ioc_arena,		CR_FROZEN_ONES),
	CR_ENTRY(RUN,		cr_ioc_run,		CR_FROZEN_ONES),
	CR_ENTRY(SNAPSHOT,	cr_ioc_snapshot,	CR_FROZEN_ONES),
	CR_ENTRY(SNAP_RUNS,	cr_ioc_snap_runs,	CR_ALONE),
	CR_ENTRY(SNAP_CLEAN,	cr_ioc_snap_clean,	CR_ALONE),
	CR_ENTRY(SNAP_DROP,	cr_ioc_snap_drop,	CR_ALONE),
	CR_ENTRY(DIRTY,		cr_ioc_dirty,		CR_FROZEN_ONES),
	CR_ENTRY(GUARDS,	cr_ioc_guards,		CR_FROZEN_ONES),
	CR_ENTRY(RESTORE,	cr_ioc_restore,		CR_FROZEN_ONES),
	CR_ENTRY(LINEAGE,	cr_ioc_lineage,		CR_ALONE | CR_TARGET | CR_MEMORY),
	CR_ENTRY(DIGEST,	cr_ioc_digest,		CR_FROZEN_ONES),
	CR_ENTRY(SET_THREADS,	cr_ioc_set_threads,	CR_FROZEN_ONES),
	CR_ENTRY(ROLLBACK,	cr_ioc_rollback,	CR_ALONE | CR_TARGET),
	/* these may block for long and do not need ioctl_lock: they do not use the members */
	CR_ENTRY_UNDO(AGENT_WAIT,	cr_ioc_agent_wait,	0, cr_undo_agent_wait),
	CR_ENTRY_UNDO(AGENT_READY,	cr_ioc_agent_ready,	0, cr_undo_agent_ready),
	CR_ENTRY(NOTIFY,	cr_ioc_notify,		CR_TARGET),
	CR_ENTRY(OUTCOME,	cr_ioc_outcome,		CR_TARGET),
	CR_ENTRY(ORIGIN,	cr_ioc_origin,		CR_TARGET),
	CR_ENTRY(AGENT_ORIGIN,	cr_ioc_agent_origin,	0),
	CR_ENTRY(LEASE,		cr_ioc_lease,		CR_ALONE),
};

static const struct cr_entry *cr_entry_of(unsigned int cmd)
{
	unsigned int nr = array_index_nospec(_IOC_NR(cmd), ARRAY_SIZE(cr_table));

	return _IOC_NR(cmd) == nr && cr_table[nr].cmd == cmd ? &cr_table[nr] : NULL;
}

/* The argument of an ioctl in progress. */
struct cr_request_arg {
	const struct cr_entry *entry;
	void __user *user;
	void *arg;
};

/* Hold mm_users of the target only while the handler runs. */
static long cr_handle_memory(struct cr_session *s, const struct cr_request_arg *ra)
{
	long r;

	if (!(ra->entry->flags & CR_MEMORY))
		return ra->entry->handler(s, ra->arg);
	if (!mmget_not_zero(s->mm))
		return -ESRCH;
	r = ra->entry->handler(s, ra->arg);
	mmput(s->mm);
	return r;
}

static long cr_handle(struct cr_session *s, const struct cr_request_arg *ra)
{
	const struct cr_entry *entry = ra->entry;
	long r = cr_handle_memory(s, ra);

	/* copy on failure, too: the member `why` names the reason */
	if (!(_IOC_DIR(entry->cmd) & _IOC_READ) ||
	    !copy_to_user(ra->user, ra->arg, _IOC_SIZE(entry->cmd)))
		return r;
	if (!r && entry->undo)
		entry->undo(s, ra->arg);
	return -EFAULT;
}

static long cr_handle_alone(struct cr_session *s, const struct cr_request_arg *ra)
{
	long r;

	/* who holds it may be freezing us: do not wait; leader: see cr_dispatch() */
	if (smp_load_acquire(&s->leader) && cr_is_of_target(s)) {
		if (!mutex_trylock(&s->ioctl_lock))
			return -EBUSY;
	} else if (mutex_lock_killable(&s->ioctl_lock)) {
		return -EINTR;
	}
	cr_session_alive(s);
	if (ra->entry->flags & CR_STILL && !cr_is_frozen(s))
		r = -ENOTCONN;
	else
		r = cr_handle(s, ra);
	cr_session_alive(s);
	mutex_unlock(&s->ioctl_lock);
	return r;
}

static long cr_dispatch(struct cr_session *s, const struct cr_request_arg *ra)
{
	unsigned int flags = ra->entry->flags;

	/* acquire: s->mm is visible, too, see cr_ioc_attach() */
	if (flags & CR_TARGET && !smp_load_acquire(&s->leader))
		return -ENOTCONN;
	return flags & CR_ALONE ? cr_handle_alone(s, ra) : cr_handle(s, ra);
}

static long cr_ioctl(struct file *file, unsigned int cmd, unsigned long uarg)
{
	struct cr_request_arg ra = {
		.entry = cr_entry_of(cmd), .user = (void __user *)uarg,
	};
	u64 stack[CR_STACK_ARG / sizeof(u64)];
	size_t size = _IOC_SIZE(cmd);
	long r = -EFAULT;

	if (!ra.entry)
		return -ENOTTY;
	ra.arg = stack;
	if (size > sizeof(stack)) {
		ra.arg = kzalloc(size, GFP_KERNEL_ACCOUNT);
		if (!ra.arg)
			return -ENOMEM;
	} else {
		memset(stack, 0, sizeof(stack));
	}
	if (!(_IOC_DIR(cmd) & _IOC_WRITE) || !copy_from_user(ra.arg, ra.user, size))
		r = cr_dispatch(file->private_data, &ra);
	if (ra.arg != stack)
		kfree(ra.arg);
	return r;
}

static const struct file_operations cr_fops = {
	.owner = THIS_MODULE,
	.open = cr_open,
	.flush = cr_flush,
	.release = cr_release,
	.unlocked_ioctl = cr_ioctl,
	.read = cr_read,
	.mmap = cr_mmap,
	.llseek = noop_llseek,
};

/* Root only by default; the administrator gives the device to a group by a udev rule. */
static struct miscdevice cr_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "cr",
	.fops = &cr_fops,
	.mode = 0660,
};

static int __init cr_init(void)
{
	int r = cr_flush_init();

	BUILD_BUG_ON(sizeof(struct cr_call) != 64);
	if (r)
		return r;
	r = cr_lives_init();
	if (r)
		return r;
	r = cr_snapstore_init();
	if (r)
		goto no_snapstore;
	r = cr_leases_init();
	if (r)
		goto no_leases;
	r = misc_register(&cr_device);
	if (r)
		goto no_device;
	return 0;

no_device:
	cr_leases_exit();
no_leases:
	cr_snapstore_exit();
no_snapstore:
	cr_lives_exit();
	return r;
}

/*
 * No session is open and no thread is parked: each of them holds a module reference. Only
 * two pieces of module code may still run: the end of cr_park() or cr_lodger() behind its
 * module_put(), where no thread sleeps, and the end of a timer function. synchronize_rcu_tasks() waits
 * until every task has passed the scheduler, synchronize_rcu() until every interrupt
 * handler has returned.
 */
static void __exit cr_exit(void)
{
	misc_deregister(&cr_device);
	cr_leases_exit();
	cr_track_exit();
	cr_snapstore_exit();
	cr_lives_exit();
	synchronize_rcu_tasks();
	synchronize_rcu();
}

module_init(cr_init);
module_exit(cr_exit);
MODULE_DESCRIPTION("Reprise: roll live processes back in place");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.2.0");
