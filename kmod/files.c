// SPDX-License-Identifier: GPL-2.0-only
/*
 * The target's descriptors: telling them, lending one out, putting one in.
 */
#include "internal.h"
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/once.h>
#include <linux/slab.h>
#include <linux/siphash.h>
#include <linux/random.h>
#include <linux/uaccess.h>

/* Descriptions are told apart by a keyed hash: no kernel address leaves. */
static siphash_key_t cr_serial_key __read_mostly;

static u64 cr_serial(struct file *file)
{
	struct inode *inode = file_inode(file);
	/*
	 * The memory of a closed file is used again: what else is hashed keeps
	 * another description from passing for the old one. One that is alike in
	 * all of it may: what differs then (offset, flags, state) is put back.
	 */
	u64 id[6] = {
		(unsigned long)file, (unsigned long)inode, inode->i_ino,
		(unsigned long)file->f_op, (unsigned long)file->private_data,
		(__force u32)(file->f_mode & (FMODE_READ | FMODE_WRITE | FMODE_PATH)),
	};

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

struct cr_fd_list {
	struct cr_session *s;
	struct cr_fd *fds;
	struct file **files;	/* compared only, no references */
	u64 n, room;
};

static int cr_op_fds(struct cr_session *s, struct cr_member *m, void *arg)
{
	struct files_struct *files = current->files;
	struct cr_fd_list *l = arg;
	struct fdtable *fdt;
	unsigned int fd;

	spin_lock(&files->file_lock);
	fdt = files_fdtable(files);
	for (fd = 0; fd < fdt->max_fds; fd++) {
		struct file *f = files_lookup_fd_locked(files, fd);
		struct cr_fd *c;

		if (!f)
			continue;
		if (l->n++ >= l->room)
			continue;
		c = &l->fds[l->n - 1];
		l->files[l->n - 1] = f;
		c->fd = fd;
		c->same_as = fd;
		c->flags = test_bit(fd, fdt->close_on_exec) ? CR_FD_CLOEXEC : 0;
		if (f->f_op == s->file->f_op)
			c->flags |= CR_FD_CR;
		c->f_flags = f->f_flags;
		c->pos = f->f_pos;
		c->ino = file_inode(f)->i_ino;
		c->mode = file_inode(f)->i_mode;
		c->refs = file_count(f);
		c->serial = cr_serial(f);
		cr_fill_owner(f, c);
	}
	spin_unlock(&files->file_lock);
	return 0;
}

/* Which descriptors share a description. */
static int cr_group(struct cr_fd_list *l)
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
			r = r ? r : xa_err(xa_store(&seen, key, xa_mk_value(i), GFP_KERNEL));
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

long cr_ioc_fds(struct cr_session *s, struct cr_array *a)
{
	struct cr_fd_list l = { .s = s, .room = min_t(u64, a->count, 1U << 20) };
	long r;

	get_random_once(&cr_serial_key, sizeof(cr_serial_key));
	l.fds = kvcalloc(l.room + 1, sizeof(*l.fds), GFP_KERNEL);
	l.files = kvcalloc(l.room + 1, sizeof(*l.files), GFP_KERNEL);
	r = -ENOMEM;
	if (!l.fds || !l.files)
		goto out;
	r = cr_run_on(s, cr_any(s), cr_op_fds, &l);
	if (!r && l.n <= l.room)
		r = cr_group(&l);
	if (!r)
		r = cr_put_array(a, l.fds, l.n, sizeof(*l.fds));
out:
	kvfree(l.fds);
	kvfree(l.files);
	return r;
}

struct cr_file_arg {
	u32 kind;
	u64 which;
	struct file *file;
};

/* Find the file and take a reference, in the target's context. */
static int cr_op_get_file(struct cr_session *s, struct cr_member *m, void *arg)
{
	struct cr_file_arg *g = arg;
	struct vm_area_struct *vma;

	switch (g->kind) {
	case CR_FILE_FD:
		g->file = g->which <= INT_MAX ? fget_raw(g->which) : NULL;
		return g->file ? 0 : -EBADF;
	case CR_FILE_VMA:
		mmap_read_lock(s->mm);
		vma = find_vma(s->mm, g->which);
		if (vma && vma->vm_start <= g->which && vma->vm_file && !cr_vma_is_arena(vma))
			g->file = get_file(vma->vm_file);
		mmap_read_unlock(s->mm);
		return g->file ? 0 : -ENOENT;
	case CR_FILE_EXE:
		/* get_mm_exe_file() is not exported; the mmap lock keeps it in place */
		mmap_read_lock(s->mm);
		rcu_read_lock();
		g->file = rcu_dereference(s->mm->exe_file);
		if (g->file)
			get_file(g->file);	/* the mm holds one: it cannot be the last */
		rcu_read_unlock();
		mmap_read_unlock(s->mm);
		return g->file ? 0 : -ENOENT;
	}
	return -EINVAL;
}

long cr_ioc_get_file(struct cr_session *s, struct cr_get_file *a)
{
	struct cr_file_arg g = { .kind = a->kind, .which = a->which };
	int r = cr_run_on(s, cr_any(s), cr_op_get_file, &g);

	if (r)
		return r;
	r = cr_receive_fd(g.file, O_CLOEXEC);
	fput(g.file);
	if (r < 0)
		return r;
	a->fd = r;
	return 0;
}

struct cr_put_arg {
	struct file *file;
	unsigned int flags;
	int fd;
};

static int cr_op_put_file(struct cr_session *s, struct cr_member *m, void *arg)
{
	struct cr_put_arg *p = arg;

	p->fd = cr_receive_fd(p->file, p->flags);
	return p->fd < 0 ? p->fd : 0;
}

/* A descriptor of /dev/cr that belongs to the target. */
static int cr_op_put_fresh(struct cr_session *s, struct cr_member *m, void *arg)
{
	struct cr_put_arg *p = arg;

	p->file = dentry_open(&s->file->f_path, O_RDWR, current_cred());
	if (IS_ERR(p->file))
		return PTR_ERR(p->file);
	/* its agent comes back in AGENT_READY; a second one of a process is none */
	cr_agent_get(p->file->private_data);
	p->fd = cr_receive_fd(p->file, p->flags);
	fput(p->file);
	return p->fd < 0 ? p->fd : 0;
}

long cr_ioc_put_file(struct cr_session *s, struct cr_put_file *a)
{
	struct cr_put_arg p = { .flags = a->flags & CR_FD_CLOEXEC ? O_CLOEXEC : 0 };
	int r;

	if (a->reserved || a->flags & ~CR_FD_CLOEXEC)
		return -EINVAL;
	if (a->fd == -1) {
		r = cr_run_on(s, cr_any(s), cr_op_put_fresh, &p);
	} else {
		p.file = fget_raw(a->fd);
		if (!p.file)
			return -EBADF;
		/* a session in its own target would keep itself alive */
		r = p.file == s->file ? -EINVAL : cr_run_on(s, cr_any(s), cr_op_put_file, &p);
		fput(p.file);
	}
	a->target_fd = p.fd;
	return r;
}
