// SPDX-License-Identifier: GPL-2.0-only
/*
 * The arena: pages mapped into the target, for system calls that its own threads make.
 *
 *   page 0      code    the stub (stub.S), readable and executable, never writable
 *   page 1      gate    never present: an access faults into the module
 *   page 2 …    data    arguments; the session's owner maps them, too
 *
 * Each session has its own pages. The target can neither change the protection of the
 * mapping nor move or split it. When the target unmaps or replaces the whole mapping,
 * cr_arena_close() notes it.
 */
#include "internal.h"
#include <linux/file.h>
#include <linux/fs_context.h>
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/pseudo_fs.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>

/* kmod/stub.S */
extern const char cr_stub[], cr_stub_end[];

static struct cr_arena_pages *cr_pages_new(void)
{
	struct cr_arena_pages *pages = kzalloc(sizeof(*pages), GFP_KERNEL_ACCOUNT);
	int i;

	if (!pages)
		return NULL;
	pages->code = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!pages->code)
		goto fail;
	for (i = 0; i < CR_ARENA_DATA; i++) {
		pages->data[i] = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!pages->data[i])
			goto fail;
	}
	memcpy(page_address(pages->code), cr_stub, cr_stub_end - cr_stub);
	return pages;

fail:
	cr_arena_pages_free(pages);
	return NULL;
}

static int cr_arena_alloc(struct cr_session *s)
{
	struct cr_arena_pages *pages;

	lockdep_assert_held(&s->ioctl_lock);
	if (s->pages)
		return 0;
	pages = cr_pages_new();
	if (!pages)
		return -ENOMEM;
	/* release: a fault handler that sees s->pages sees all pages */
	smp_store_release(&s->pages, pages);
	return 0;
}

/* --------------------------------------------------------------------- faults */

/*
 * A thread of the target has faulted at the gate: store its result and load the next call,
 * or park it. A thread that is no member was created by a call of the session just now.
 */
static vm_fault_t cr_gate(struct cr_session *s, struct vm_fault *vmf)
{
	struct cr_member *m;
	bool more;

	if (!(vmf->flags & FAULT_FLAG_USER) || current->mm != s->mm ||
	    !same_thread_group(current, s->leader))
		return VM_FAULT_SIGBUS;
	m = cr_member_of(s, current);
	if (!m) {
		m = cr_member_add(s, current, true);
		/* on an error retry the fault, until the creator has adopted this thread */
		if (IS_ERR(m))
			return PTR_ERR(m) == -ENOTCONN ? VM_FAULT_SIGBUS : VM_FAULT_NOPAGE;
		cr_queue(m);
	} else {
		more = m->batch && !READ_ONCE(m->leave) &&
		       cr_batch_at_gate(m->batch, task_pt_regs(current));
		if (m->batch)
			cr_adopt(m);
		if (!more)
			cr_queue(m);
	}
	cr_member_put(m);
	return VM_FAULT_NOPAGE;
}

static vm_fault_t cr_give_page(struct vm_fault *vmf, struct page *page)
{
	get_page(page);
	vmf->page = page;
	return 0;
}

/* Fault handler of the target's mapping. */
static vm_fault_t cr_arena_fault(struct vm_fault *vmf)
{
	struct cr_session *s = vmf->vma->vm_file->private_data;
	unsigned long pgoff = vmf->pgoff;

	/* a child that has inherited the mapping by fork, after MADV_DOFORK */
	if (vmf->vma->vm_mm != s->mm)
		return VM_FAULT_SIGBUS;
	if (pgoff == 0)
		return cr_give_page(vmf, s->pages->code);
	if (pgoff == 1)
		return cr_gate(s, vmf);
	if (pgoff - 2 >= CR_ARENA_DATA)
		return VM_FAULT_SIGBUS;
	return cr_give_page(vmf, s->pages->data[pgoff - 2]);
}

static int cr_arena_may_split(struct vm_area_struct *vma, unsigned long addr)
{
	return -EINVAL;
}

static int cr_arena_mremap(struct vm_area_struct *vma)
{
	return -EINVAL;
}

static int cr_arena_mprotect(struct vm_area_struct *vma, unsigned long start,
			     unsigned long end, unsigned long newflags)
{
	return -EACCES;
}

/* The target has unmapped or replaced the arena: the stub is not available any more. */
static void cr_arena_close(struct vm_area_struct *vma)
{
	struct cr_session *s = vma->vm_file->private_data;

	spin_lock(&s->lock);
	if (vma->vm_file == s->arena_file)
		s->arena = 0;
	spin_unlock(&s->lock);
}

static const struct vm_operations_struct cr_arena_ops = {
	.fault = cr_arena_fault,
	.may_split = cr_arena_may_split,
	.mremap = cr_arena_mremap,
	.mprotect = cr_arena_mprotect,
	.close = cr_arena_close,
};

bool cr_vma_is_arena(struct vm_area_struct *vma)
{
	return vma->vm_ops == &cr_arena_ops;
}

/* -------------------------------------------------------------------- mapping */

#define CR_ARENA_MAGIC 0x63726172	/* "crar" */
#define CR_ARENA_FLAGS (VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP)

/*
 * Map the target's part; only cr_op_map() may do so. Clear VM_MAYWRITE or VM_MAYEXEC, so
 * that the target cannot add these rights later.
 */
static int cr_arena_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct cr_session *s = file->private_data;

	if (READ_ONCE(s->mapper) != current || !(vma->vm_flags & VM_SHARED))
		return -EPERM;
	cr_vm_flags_set(vma, CR_ARENA_FLAGS);
	cr_vm_flags_clear(vma, vma->vm_flags & VM_EXEC ? VM_MAYWRITE : VM_MAYEXEC);
	vma->vm_ops = &cr_arena_ops;
	return 0;
}

/*
 * The file of the mapping belongs to a private pseudo file system. A file of /dev/cr would
 * keep the session open, and files of the kernel's anon_inode may not be mapped executable.
 * The file system is mounted, and the module in use, while such a file exists.
 */
static struct vfsmount *cr_arena_mnt;
static int cr_arena_mnt_count;

static int cr_arena_fs_init(struct fs_context *fc)
{
	return init_pseudo(fc, CR_ARENA_MAGIC) ? 0 : -ENOMEM;
}

static struct file_system_type cr_arena_fs = {
	.name = "cr_arena",
	.owner = THIS_MODULE,
	.init_fs_context = cr_arena_fs_init,
	.kill_sb = kill_anon_super,
};

static int cr_arena_release(struct inode *inode, struct file *file)
{
	cr_session_put(file->private_data);
	simple_release_fs(&cr_arena_mnt, &cr_arena_mnt_count);
	return 0;
}

static const struct file_operations cr_arena_fops = {
	.owner = THIS_MODULE,
	.mmap = cr_arena_mmap,
	.release = cr_arena_release,
	.llseek = noop_llseek,
};

static struct file *cr_arena_file(struct cr_session *s)
{
	struct inode *inode;
	struct file *file;
	int r = simple_pin_fs(&cr_arena_fs, &cr_arena_mnt, &cr_arena_mnt_count);

	if (r)
		return ERR_PTR(r);
	cr_arena_mnt->mnt_sb->s_iflags &= ~SB_I_NOEXEC;
	inode = alloc_anon_inode(cr_arena_mnt->mnt_sb);
	if (IS_ERR(inode)) {
		file = ERR_CAST(inode);
		goto fail;
	}
	__module_get(THIS_MODULE);	/* reference of the file, for its operations */
	file = alloc_file_pseudo(inode, cr_arena_mnt, "cr-arena", O_RDWR, &cr_arena_fops);
	if (IS_ERR(file)) {
		module_put(THIS_MODULE);
		iput(inode);
		goto fail;
	}
	cr_session_get(s);
	file->private_data = s;
	return file;

fail:
	simple_release_fs(&cr_arena_mnt, &cr_arena_mnt_count);
	return file;
}

struct cr_map_request {
	struct cr_request req;
	struct file *file;
	unsigned long addr;	/* in: requested address or 0; out: address */
};

static void cr_map_release(struct cr_request *req)
{
	struct cr_map_request *map = container_of(req, struct cr_map_request, req);

	fput(map->file);
	kfree(map);
}

/* Reserve the whole range first, so that the two mappings are adjacent. */
static int cr_map_here(struct cr_session *s, struct cr_map_request *map)
{
	unsigned long addr = map->addr, at;

	at = vm_mmap(NULL, addr, CR_ARENA_SIZE, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | (addr ? MAP_FIXED_NOREPLACE : 0), 0);
	if (IS_ERR_VALUE(at))
		return (int)at;
	map->addr = at;
	at = vm_mmap(map->file, map->addr, PAGE_SIZE, PROT_READ | PROT_EXEC,
		     MAP_SHARED | MAP_FIXED, 0);
	if (!IS_ERR_VALUE(at))
		at = vm_mmap(map->file, map->addr + PAGE_SIZE, CR_ARENA_SIZE - PAGE_SIZE,
			     PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, PAGE_SIZE);
	if (!IS_ERR_VALUE(at))
		return 0;
	vm_munmap(map->addr, CR_ARENA_SIZE);
	return (int)at;
}

static int cr_op_map(struct cr_member *m, struct cr_request *req)
{
	struct cr_map_request *map = container_of(req, struct cr_map_request, req);
	struct cr_session *s = m->session;
	int r;

	cr_unmap_arena_here(s);
	WRITE_ONCE(s->mapper, current);
	r = cr_map_here(s, map);
	WRITE_ONCE(s->mapper, NULL);
	if (r)
		return r;
	spin_lock(&s->lock);
	s->arena = map->addr;
	s->arena_file = get_file(map->file);
	spin_unlock(&s->lock);
	return 0;
}

static struct cr_map_request *cr_map_new(struct cr_session *s, unsigned long addr)
{
	struct cr_map_request *map = kzalloc(sizeof(*map), GFP_KERNEL_ACCOUNT);

	if (!map)
		return ERR_PTR(-ENOMEM);
	map->file = cr_arena_file(s);
	if (IS_ERR(map->file)) {
		long r = PTR_ERR(map->file);

		kfree(map);
		return ERR_PTR(r);
	}
	map->addr = addr;
	cr_request_init(&map->req, cr_op_map, cr_map_release);
	return map;
}

/**
 * cr_ioc_arena - map the arena into the target, or move it
 * @s: the session
 * @a: argument of the ioctl, in and out
 *
 * Return: 0, -EINVAL, -ENOMEM, -EEXIST (the address is mapped already), -ESRCH, -EBUSY (a
 * thread is still in a call of the session).
 */
long cr_ioc_arena(struct cr_session *s, struct cr_arena *a)
{
	struct cr_map_request *map;
	int r;

	if (a->addr & ~PAGE_MASK || a->addr > TASK_SIZE_MAX)
		return -EINVAL;
	if (READ_ONCE(s->arena_file) && cr_arena_needed(s, false)) {
		cr_blame(s, &a->why);
		return -EBUSY;
	}
	r = cr_arena_alloc(s);
	if (r)
		return r;
	map = cr_map_new(s, a->addr);
	if (IS_ERR(map))
		return PTR_ERR(map);
	r = cr_call_any(s, &map->req);
	if (!r) {
		a->addr = map->addr;
		a->data_addr = map->addr + 2 * PAGE_SIZE;
		a->data_size = (u64)CR_ARENA_DATA << PAGE_SHIFT;
	} else {
		cr_why(&a->why, CR_WHY_ADDRESS, a->addr);
	}
	cr_request_put(&map->req);
	return r;
}

/* ------------------------------------------------------------ the owner's part */

static vm_fault_t cr_data_fault(struct vm_fault *vmf)
{
	struct cr_session *s = vmf->vma->vm_file->private_data;
	/* acquire: all pages are visible, see cr_arena_alloc() */
	struct cr_arena_pages *pages = smp_load_acquire(&s->pages);

	if (!pages || vmf->pgoff >= CR_ARENA_DATA)
		return VM_FAULT_SIGBUS;
	return cr_give_page(vmf, pages->data[vmf->pgoff]);
}

static const struct vm_operations_struct cr_data_ops = {
	.fault = cr_data_fault,
};

/* mmap(2) of the session: the data pages, from offset 0 on. */
int cr_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct cr_session *s = file->private_data;

	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	/* not in the target: its mapping would keep the session's file open */
	if (vma->vm_pgoff + vma_pages(vma) > CR_ARENA_DATA || current->mm == s->mm ||
	    vma->vm_flags & VM_EXEC)
		return -EPERM;
	cr_vm_flags_set(vma, CR_ARENA_FLAGS);
	cr_vm_flags_clear(vma, VM_MAYEXEC);
	vma->vm_ops = &cr_data_ops;
	return 0;
}
