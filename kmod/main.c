// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/cr: opening, closing and dispatching. One open file is one session.
 */
#include "internal.h"
#include <linux/fdtable.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

/* Largest ioctl argument that lies on the stack; struct cr_process does not. */
#define CR_STACK_ARG 160

/* Of our own: the kernel's general queues have changed their names over time. */
static struct workqueue_struct *cr_wq;

long cr_put_array(struct cr_array *a, const void *elems, u64 count, size_t size)
{
	u64 room = a->count;

	a->count = count;
	if (count > room)
		return -ENOBUFS;
	if (count && copy_to_user(u64_to_user_ptr(a->buf), elems, count * size))
		return -EFAULT;
	return 0;
}

/* The owner is alive: start the time after which the target thaws by itself anew. */
void cr_session_touch(struct cr_session *s)
{
	if (s->frozen)
		mod_delayed_work(cr_wq, &s->timeout, msecs_to_jiffies(s->thaw_after_ms));
}

static void cr_timeout(struct work_struct *work)
{
	struct cr_session *s = container_of(to_delayed_work(work), struct cr_session, timeout);

	mutex_lock(&s->lock);
	/* a call that was under way has started the time anew */
	if (s->frozen && !delayed_work_pending(&s->timeout)) {
		pr_warn("session of process %d silent for %u ms: %s process %d\n", s->owner_pid,
			s->thaw_after_ms, s->committed ? "killing half-restored" : "thawing",
			task_tgid_nr(s->leader));
		cr_thaw(s, s->committed);
	}
	mutex_unlock(&s->lock);
}

static int cr_open(struct inode *inode, struct file *file)
{
	struct cr_session *s = kzalloc(sizeof(*s), GFP_KERNEL);

	if (!s)
		return -ENOMEM;
	s->file = file;
	s->owner = current->files;
	s->owner_pid = task_tgid_nr(current);
	mutex_init(&s->lock);
	INIT_LIST_HEAD(&s->frozen_node);
	INIT_DELAYED_WORK(&s->timeout, cr_timeout);
	spin_lock_init(&s->plock);
	xa_init(&s->members);
	init_waitqueue_head(&s->coord);
	spin_lock_init(&s->snap_lock);
	file->private_data = s;
	return 0;
}

/*
 * The owner closed its descriptor or died: never leave the target frozen. Copies
 * of the descriptor in other processes don't count.
 */
static int cr_flush(struct file *file, fl_owner_t id)
{
	struct cr_session *s = file->private_data;

	if (id != s->owner)
		return 0;
	mutex_lock(&s->lock);
	if (s->frozen) {
		if (s->committed)
			pr_warn("process %d left process %d half restored: killing it\n",
				s->owner_pid, task_tgid_nr(s->leader));
		cr_thaw(s, s->committed);
	}
	cr_agent_forget(s);
	mutex_unlock(&s->lock);
	return 0;
}

static int cr_release(struct inode *inode, struct file *file)
{
	struct cr_session *s = file->private_data;

	cancel_delayed_work_sync(&s->timeout);
	mutex_lock(&s->lock);
	if (s->frozen)		/* the owner passed it on, and the last holder closed it */
		cr_thaw(s, s->committed);
	cr_snap_drop(s);
	cr_agent_forget(s);
	mutex_unlock(&s->lock);
	cancel_delayed_work_sync(&s->timeout);
	cr_agent_release(s);
	cr_arena_free(s);
	xa_destroy(&s->members);
	if (s->mm)
		mmdrop(s->mm);
	if (s->leader)
		put_task_struct(s->leader);
	kfree(s);
	return 0;
}

static long cr_ioc_info(struct cr_info *a)
{
	memset(a, 0, sizeof(*a));
	a->api_version = CR_API_VERSION;
	a->page_size = PAGE_SIZE;
	a->features = CR_FEAT_COW | CR_FEAT_TRACK | CR_FEAT_RUN | CR_FEAT_AGENT |
		      CR_FEAT_GUARDS;
	a->arena_size = CR_ARENA_PAGES << PAGE_SHIFT;
	return 0;
}

static long cr_ioc_thaw(struct cr_session *s, struct cr_thaw *a)
{
	ktime_t since = s->frozen_at;
	int r;

	if (a->flags & ~CR_THAW_KILL || a->reserved)
		return -EINVAL;
	r = cr_thaw(s, a->flags & CR_THAW_KILL);
	a->frozen_ns = ktime_to_ns(ktime_sub(ktime_get(), since));
	return r;
}

/* The target's memory is there: it may have been killed while it was parked. */
static long cr_dispatch_alive(struct cr_session *s, unsigned int cmd, void *a)
{
	switch (cmd) {
	case CR_IOC_COMMIT:
		s->committed = true;
		return 0;
	case CR_IOC_THREADS:
		return cr_ioc_threads(s, a);
	case CR_IOC_GET_REGS:
		return cr_ioc_get_regs(s, a);
	case CR_IOC_SET_REGS:
		return cr_ioc_set_regs(s, a);
	case CR_IOC_SET_SIGMASK:
		return cr_ioc_set_sigmask(s, a);
	case CR_IOC_SET_RESTART:
		return cr_ioc_set_restart(s, a);
	case CR_IOC_PROCESS:
		return cr_ioc_process(s, a);
	case CR_IOC_VMAS:
		return cr_ioc_vmas(s, a);
	case CR_IOC_FDS:
		return cr_ioc_fds(s, a);
	case CR_IOC_SIGPENDING:
		return cr_ioc_sigpending(s, a);
	case CR_IOC_GET_FILE:
		return cr_ioc_get_file(s, a);
	case CR_IOC_PUT_FILE:
		return cr_ioc_put_file(s, a);
	case CR_IOC_ARENA:
		return cr_ioc_arena(s, a);
	case CR_IOC_RUN:
		return cr_ioc_run(s, a);
	case CR_IOC_SNAPSHOT:
		return cr_ioc_snapshot(s, a);
	case CR_IOC_DIRTY:
		return cr_ioc_dirty(s, a);
	case CR_IOC_GUARDS:
		return cr_ioc_guards(s, a);
	case CR_IOC_RESTORE:
		return cr_ioc_restore(s, a);
	}
	return -ENOTTY;
}

static long cr_dispatch_frozen(struct cr_session *s, unsigned int cmd, void *a)
{
	long r;

	if (!s->frozen)
		return -ENOTCONN;
	if (cmd == CR_IOC_THAW)
		return cr_ioc_thaw(s, a);
	if (!mmget_not_zero(s->mm))
		return -ESRCH;
	cr_hold(s);
	r = cr_dispatch_alive(s, cmd, a);
	cr_release_hold(s);
	mmput(s->mm);
	return r;
}

static long cr_dispatch(struct cr_session *s, unsigned int cmd, void *a)
{
	long r;

	switch (cmd) {
	case CR_IOC_INFO:
		return cr_ioc_info(a);
	/* these block for long and take no part in freezing: without the lock */
	case CR_IOC_AGENT_WAIT:
		return cr_ioc_agent_wait(s, a);
	case CR_IOC_AGENT_READY:
		return cr_ioc_agent_ready(s, a);
	case CR_IOC_NOTIFY:
		return cr_ioc_notify(s, a);
	case CR_IOC_OUTCOME:
		return cr_ioc_outcome(s, a);
	}

	if (mutex_lock_killable(&s->lock))
		return -EINTR;
	switch (cmd) {
	case CR_IOC_ATTACH:
		r = cr_ioc_attach(s, a);
		break;
	case CR_IOC_FREEZE:
		r = s->leader ? cr_ioc_freeze(s, a) : -ENOTCONN;
		break;
	case CR_IOC_SNAP_RUNS:
		r = cr_ioc_snap_runs(s, a);
		break;
	case CR_IOC_SNAP_DROP:
		cr_snap_drop(s);
		r = 0;
		break;
	default:
		r = cr_dispatch_frozen(s, cmd, a);
	}
	cr_session_touch(s);
	mutex_unlock(&s->lock);
	return r;
}

static long cr_ioctl(struct file *file, unsigned int cmd, unsigned long uarg)
{
	struct cr_session *s = file->private_data;
	void __user *user = (void __user *)uarg;
	size_t size = _IOC_SIZE(cmd);
	u64 stack[CR_STACK_ARG / sizeof(u64)];
	void *arg = stack;
	long r;

	if (_IOC_TYPE(cmd) != CR_IOC_MAGIC || size > PAGE_SIZE)
		return -ENOTTY;
	if (size > sizeof(stack)) {
		arg = kzalloc(size, GFP_KERNEL);
		if (!arg)
			return -ENOMEM;
	} else {
		memset(stack, 0, sizeof(stack));
	}
	r = -EFAULT;
	if (_IOC_DIR(cmd) & _IOC_WRITE && copy_from_user(arg, user, size))
		goto out;
	r = cr_dispatch(s, cmd, arg);
	/* out members say why, so they are copied on failure, too */
	if (_IOC_DIR(cmd) & _IOC_READ && r != -ENOTTY && copy_to_user(user, arg, size))
		r = -EFAULT;
out:
	if (arg != stack)
		kfree(arg);
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

/* Anybody may open it: what a session may do is decided when it is attached. */
static struct miscdevice cr_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "cr",
	.fops = &cr_fops,
	.mode = 0666,
};

static int __init cr_init(void)
{
	int r;

	r = cr_flush_init();
	if (r)
		return r;
	cr_wq = alloc_workqueue("cr", WQ_UNBOUND, 0);
	if (!cr_wq)
		return -ENOMEM;
	r = cr_snapstore_init();
	if (r)
		goto no_snapstore;
	r = cr_arena_init();
	if (r)
		goto no_arena;
	r = misc_register(&cr_device);
	if (r)
		goto no_device;
	return 0;

no_device:
	cr_arena_exit();
no_arena:
	cr_snapstore_exit();
no_snapstore:
	destroy_workqueue(cr_wq);
	return r;
}

static void __exit cr_exit(void)
{
	misc_deregister(&cr_device);
	cr_track_exit();
	cr_snapstore_exit();
	cr_arena_exit();
	destroy_workqueue(cr_wq);
}

module_init(cr_init);
module_exit(cr_exit);
MODULE_DESCRIPTION("Reprise: roll live processes back in place");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");
