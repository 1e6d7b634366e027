// SPDX-License-Identifier: GPL-2.0-only
/*
 * The target's descriptors: report them, pass one to the caller, install one.
 */
#include "internal.h"
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/once.h>
#include <linux/slab.h>
#include <linux/siphash.h>
#include <linux/random.h>
#include <linux/uaccess.h>

/* A keyed hash identifies a description, so that user space sees no kernel address. */
static siphash_key_t cr_serial_key __read_mostly;

static u64 cr_serial(struct file *file)
{
	struct inode *inode = file_inode(file);
	/*
	 * The kernel reuses the memory of a closed struct file. The other hashed
	 * values distinguish a new description at the old address. A new one with
	 * all values equal gets the old serial. That is harmless: libcr restores
	 * what can still differ (offset, flags, locks, state).
	 */
	u64 id[6] = {
		(unsigned long)file, (unsigned long)inode, inode->i_ino,
		(unsigned long)file->f_op, (unsigned long)file->private_data,
		(__force u32)(file->f_mode & (FMODE_READ | FMODE_WRITE | FMODE_PATH)),
	};

	get_random_once(&cr_serial_key, sizeof(cr_serial_key));
	return siphash(id, sizeof(id), &cr_serial_key) | 1;
}

static void cr_fill_owner(struct file *file, struct cr_fd *c)
{
	struct fown_struct *owner = cr_file_owner(file);

	if (!owner)
		return;
	read_lock_irq(&owner->lock);
	c->owner_pid = pid_vnr(owner->pid);
	if (owner->pid_type == PIDTYPE_PGID)
		c->owner_pid = -c->owner_pid;
	c->owner_signal = owner->signum;
	read_unlock_irq(&owner->lock);
}

/**
 * cr_fill_file() - report an open file description
 * @file: the description
 * @c: out: zeroed before; what belongs to a descriptor and the numbers of references stay 0
 */
void cr_fill_file(struct file *file, struct cr_fd *c)
{
	c->f_flags = file->f_flags;
	c->pos = file->f_pos;
	c->ino = file_inode(file)->i_ino;
	c->mode = file_inode(file)->i_mode;
	c->serial = cr_serial(file);
	cr_fill_owner(file, c);
}

struct cr_fds_request {
	struct cr_request req;
	const struct file_operations *fops;	/* of /dev/cr */
	struct cr_fd *fds;
	struct file **files;	/* compared only, no references */
	u64 n, room;
};

static void cr_fds_release(struct cr_request *req)
{
	struct cr_fds_request *l = container_of(req, struct cr_fds_request, req);

	kvfree(l->fds);
	kvfree(l->files);
	kfree(l);
}

static void cr_fill_fd(struct cr_fds_request *l, struct fdtable *fdt, unsigned int fd,
		       struct file *f)
{
	struct cr_fd *c;

	if (l->n++ >= l->room)
		return;
	c = &l->fds[l->n - 1];
	l->files[l->n - 1] = f;
	c->fd = fd;
	c->same_as = fd;
	c->flags = test_bit(fd, fdt->close_on_exec) ? CR_FD_CLOEXEC : 0;
	if (f->f_op == l->fops)
		c->flags |= CR_FD_CR;
	c->refs = file_count(f);
	cr_fill_file(f, c);
}

static int cr_op_fds(struct cr_member *m, struct cr_request *req)
{
	struct cr_fds_request *l = container_of(req, struct cr_fds_request, req);
	struct files_struct *files = current->files;
	unsigned int fd = 0, upto, end;
	struct fdtable *fdt;
	struct file *f;

	do {
		spin_lock(&files->file_lock);
		fdt = files_fdtable(files);
		end = fdt->max_fds;
		upto = min(end, fd + CR_FDS_AT_ONCE);
		for (fd = find_next_bit(fdt->open_fds, upto, fd); fd < upto;
		     fd = find_next_bit(fdt->open_fds, upto, fd + 1)) {
			f = files_lookup_fd_locked(files, fd);
			if (f)
				cr_fill_fd(l, fdt, fd, f);
		}
		spin_unlock(&files->file_lock);
		fd = upto;
		cond_resched();
	} while (fd < end && !cr_request_abandoned(req));
	return 0;
}

/* Find the descriptors that share a description: set same_as and refs_here. */
static int cr_group(struct cr_fds_request *l)
{
	struct xarray seen;
	int r = 0;
	u64 i;

	xa_init(&seen);
	for (i = 0; i < l->n; i++) {
		unsigned long key = (unsigned long)l->files[i] >> 3;
		void *first = xa_load(&seen, key);

		if (first)
			l->fds[i].same_as = l->fds[xa_to_value(first)].fd;
		else
			r = r ? r : xa_err(xa_store(&seen, key, xa_mk_value(i), GFP_KERNEL_ACCOUNT));
		l->fds[first ? xa_to_value(first) : i].refs_here++;
	}
	for (i = 0; i < l->n; i++) {
		void *first = xa_load(&seen, (unsigned long)l->files[i] >> 3);

		if (first)
			l->fds[i].refs_here = l->fds[xa_to_value(first)].refs_here;
	}
	xa_destroy(&seen);
	return r;
}

/* Size of the target's descriptor table, an upper limit of its open descriptors. */
static u64 cr_most_fds(struct cr_session *s)
{
	u64 n = 0;

	task_lock(s->leader);
	if (s->leader->files) {
		rcu_read_lock();
		n = rcu_dereference(s->leader->files->fdt)->max_fds;
		rcu_read_unlock();
	}
	task_unlock(s->leader);
	return n;
}

/**
 * cr_ioc_fds - report the target's descriptors
 * @s: the session
 * @a: argument of the ioctl, in and out
 *
 * Return: 0, -ENOBUFS, -ESRCH, -ENOMEM, -EFAULT, -EINTR.
 */
long cr_ioc_fds(struct cr_session *s, struct cr_array *a)
{
	struct cr_fds_request *l = kzalloc(sizeof(*l), GFP_KERNEL_ACCOUNT);
	long r;

	if (!l)
		return -ENOMEM;
	cr_request_init(&l->req, cr_op_fds, cr_fds_release);
	l->fops = s->file->f_op;
	l->room = min(a->count, cr_most_fds(s));
	l->fds = kvcalloc(l->room + 1, sizeof(*l->fds), GFP_KERNEL_ACCOUNT);
	l->files = kvcalloc(l->room + 1, sizeof(*l->files), GFP_KERNEL_ACCOUNT);
	r = -ENOMEM;
	if (!l->fds || !l->files)
		goto out;
	r = cr_call_any(s, &l->req);
	if (!r && l->n <= l->room)
		r = cr_group(l);
	if (!r) {
		if (l->n > l->room)
			a->count = l->room;	/* the buffer or the table was too small: ENOBUFS */
		r = cr_put_array(a, l->fds, l->n, sizeof(*l->fds));
	}
out:
	cr_request_put(&l->req);
	return r;
}

/* ------------------------------------------------------- passing one to the caller */

struct cr_file_request {
	struct cr_request req;
	u32 kind;
	u64 which;
	struct file *file;
	bool reopen;		/* open a new description with flags */
	unsigned int flags;
};

static void cr_file_release(struct cr_request *req)
{
	struct cr_file_request *g = container_of(req, struct cr_file_request, req);

	if (g->file)
		fput(g->file);
	kfree(g);
}

/*
 * The description of a mapping may have more access rights than the mapping, and the target
 * may have no descriptor of it any more. So the caller gets a new description with the
 * mapping's rights.
 */
static void cr_take_mapped(struct cr_file_request *g, struct vm_area_struct *vma)
{
	bool writable = vma->vm_flags & VM_SHARED && vma->vm_flags & VM_MAYWRITE;

	g->file = get_file(vma->vm_file);
	g->reopen = true;
	g->flags = (writable ? O_RDWR : O_RDONLY) | O_LARGEFILE;
	/* opening a device may have side effects, so open it as O_PATH only */
	if (!S_ISREG(file_inode(g->file)->i_mode))
		g->flags = O_PATH;
}

/* Find the file and take a reference, in the target's context. */
static int cr_op_get_file(struct cr_member *m, struct cr_request *req)
{
	struct cr_file_request *g = container_of(req, struct cr_file_request, req);
	struct mm_struct *mm = m->session->mm;
	struct vm_area_struct *vma;

	switch (g->kind) {
	case CR_FILE_FD:
		g->file = g->which <= INT_MAX ? fget_raw(g->which) : NULL;
		return g->file ? 0 : -EBADF;
	case CR_FILE_VMA:
		if (mmap_read_lock_killable(mm))
			return -EINTR;
		vma = find_vma(mm, g->which);
		if (vma && vma->vm_start <= g->which && vma->vm_file && !cr_vma_is_arena(vma))
			cr_take_mapped(g, vma);
		mmap_read_unlock(mm);
		return g->file ? 0 : -ENOENT;
	case CR_FILE_EXE:
		g->file = cr_exe_file(mm);
		g->reopen = true;
		g->flags = O_RDONLY | O_LARGEFILE;
		return g->file ? 0 : -ENOENT;
	}
	return -EINVAL;
}

static int cr_lend(struct cr_file_request *g)
{
	struct file *file;
	int fd;

	if (!g->reopen)
		return cr_receive_fd(g->file, O_CLOEXEC);
	file = dentry_open(&g->file->f_path, g->flags, current_cred());
	if (IS_ERR(file))
		return PTR_ERR(file);
	fd = cr_receive_fd(file, O_CLOEXEC);
	fput(file);
	return fd;
}

/**
 * cr_ioc_get_file - give the caller a descriptor for an open file of the target
 * @s: the session
 * @a: argument of the ioctl, in and out
 *
 * Return: 0, -EBADF, -ENOENT, -EINVAL, -ESRCH, -EMFILE, -ENOMEM, -EINTR, or an error of
 * dentry_open() for a mapped file.
 */
long cr_ioc_get_file(struct cr_session *s, struct cr_get_file *a)
{
	struct cr_file_request *g = kzalloc(sizeof(*g), GFP_KERNEL_ACCOUNT);
	int r;

	if (!g)
		return -ENOMEM;
	cr_request_init(&g->req, cr_op_get_file, cr_file_release);
	g->kind = a->kind;
	g->which = a->which;
	r = cr_call_any(s, &g->req);
	if (!r)
		r = cr_lend(g);
	if (r >= 0) {
		a->fd = r;
		r = 0;
	}
	cr_request_put(&g->req);
	return r;
}

/* The number of the new descriptor could not be copied to the caller: close it. */
void cr_undo_get_file(struct cr_session *s, struct cr_get_file *a)
{
	close_fd(a->fd);
}

/* ---------------------------------------------------------------- installing one */

struct cr_put_request {
	struct cr_request req;
	struct file *file;
	struct path path;	/* of /dev/cr, for a new descriptor */
	unsigned int flags;
	int fd;
};

static void cr_put_release(struct cr_request *req)
{
	struct cr_put_request *p = container_of(req, struct cr_put_request, req);

	if (p->file)
		fput(p->file);
	path_put(&p->path);
	kfree(p);
}

static int cr_op_put_file(struct cr_member *m, struct cr_request *req)
{
	struct cr_put_request *p = container_of(req, struct cr_put_request, req);

	p->fd = cr_receive_fd(p->file, p->flags);
	return p->fd < 0 ? p->fd : 0;
}

/* Open a new session of /dev/cr that belongs to the target. */
static int cr_op_put_fresh(struct cr_member *m, struct cr_request *req)
{
	struct cr_put_request *p = container_of(req, struct cr_put_request, req);

	p->file = dentry_open(&p->path, O_RDWR, current_cred());
	if (IS_ERR(p->file)) {
		int r = PTR_ERR(p->file);

		p->file = NULL;
		return r;
	}
	/* the agent will call AGENT_READY; fails harmlessly if the process has one already */
	cr_agent_register(p->file->private_data);
	return cr_op_put_file(m, req);
}

static struct cr_put_request *cr_put_new(struct cr_session *s,
					 int (*op)(struct cr_member *, struct cr_request *))
{
	struct cr_put_request *p = kzalloc(sizeof(*p), GFP_KERNEL_ACCOUNT);

	if (!p)
		return NULL;
	cr_request_init(&p->req, op, cr_put_release);
	p->path = s->file->f_path;
	path_get(&p->path);
	return p;
}

/**
 * cr_ioc_put_file - install a descriptor of the caller's in the target
 * @s: the session
 * @a: argument of the ioctl, in and out
 *
 * Return: 0, -EBADF, -EINVAL, -ESRCH, -EMFILE, -ENOMEM, -EINTR.
 */
long cr_ioc_put_file(struct cr_session *s, struct cr_put_file *a)
{
	struct cr_put_request *p;
	int r;

	if (a->reserved || a->flags & ~CR_FD_CLOEXEC)
		return -EINVAL;
	p = cr_put_new(s, a->fd == -1 ? cr_op_put_fresh : cr_op_put_file);
	if (!p)
		return -ENOMEM;
	p->flags = a->flags & CR_FD_CLOEXEC ? O_CLOEXEC : 0;
	r = -EBADF;
	if (a->fd != -1) {
		p->file = fget_raw(a->fd);
		if (!p->file)
			goto out;
		/* a session whose descriptor its own target holds would never be closed */
		r = -EINVAL;
		if (p->file->f_op == s->file->f_op && p->file->private_data == s)
			goto out;
	}
	r = cr_call_any(s, &p->req);
	if (!r)
		a->target_fd = p->fd;
out:
	cr_request_put(&p->req);
	return r;
}

static int cr_op_close(struct cr_member *m, struct cr_request *req)
{
	return close_fd(container_of(req, struct cr_put_request, req)->fd);
}

/* The number of the target's new descriptor could not be copied to the caller: close it. */
void cr_undo_put_file(struct cr_session *s, struct cr_put_file *a)
{
	struct cr_put_request *p = cr_put_new(s, cr_op_close);

	if (!p)
		return;
	p->fd = a->target_fd;
	cr_call_any(s, &p->req);
	cr_request_put(&p->req);
}
