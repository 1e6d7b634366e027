// SPDX-License-Identifier: GPL-2.0-only
/*
 * Digests of the target's state. Equal digests of two moments mean that the state is the same, so
 * that a rollback need not look at it. The hash is keyed: it shows no kernel address, and nobody
 * can make two states that have the same one.
 *
 * All that libcr restores must be hashed here, or make the digest 0. Pages, registers, signal
 * masks and the content of shared memory are not part of any digest.
 */
#include "digest.h"
#include <linux/cred.h>
#include <linux/fdtable.h>
#include <linux/fs_struct.h>
#include <linux/once.h>
#include <linux/path.h>
#include <linux/pipe_fs_i.h>
#include <linux/random.h>
#include <linux/resource.h>
#include <linux/siphash.h>
#include <linux/slab.h>
#include <linux/stat.h>
#include <net/inet_connection_sock.h>

static siphash_key_t cr_digest_key __read_mostly;

/**
 * struct cr_hash - the digest of one area
 * @value: hash of all that was added
 * @blind: there is state that cannot be hashed: the digest is 0
 */
struct cr_hash {
	u64 value;
	bool blind;
};

static void cr_hash(struct cr_hash *hash, const void *data, size_t len)
{
	hash->value = siphash_2u64(hash->value, siphash(data, len, &cr_digest_key),
				   &cr_digest_key);
}

static u64 cr_hash_end(const struct cr_hash *hash)
{
	return hash->blind ? 0 : hash->value | 1;
}

/* ----------------------------------------------------------------- mappings */

#define CR_VMAS_AT_ONCE 256	/* mappings hashed before the mmap lock is dropped */

/* The part of a mapping that is in the snapshot; @c: all of it. */
static void cr_hash_part(struct cr_hash *hash, struct vm_area_struct *vma, struct cr_vma c,
			 unsigned long from, unsigned long to)
{
	unsigned long id[3];

	hash->blind |= c.flags & (CR_VMA_POLICY | CR_VMA_UFFD);
	c.offset += from - c.start;
	c.start = from;
	c.end = to;
	cr_hash(hash, &c, sizeof(c));
	if (!vma->vm_file)
		return;
	id[0] = (unsigned long)vma->vm_file;
	id[1] = (unsigned long)file_inode(vma->vm_file);
	id[2] = file_inode(vma->vm_file)->i_generation;
	cr_hash(hash, id, sizeof(id));
}

static void cr_hash_vma(struct cr_hash *hash, struct vm_area_struct *vma, struct cr_grown *grown)
{
	unsigned long from, to;
	struct cr_vma c = { };

	if (cr_vma_is_arena(vma))
		return;
	cr_fill_vma(vma, &c);
	/* the kernel makes special mappings when it likes; none of them grows */
	if (!grown || !grown->nmappings || c.flags & CR_VMA_SPECIAL) {
		cr_hash_part(hash, vma, c, c.start, c.end);
		return;
	}
	for (from = c.start; from < c.end; from = to) {
		switch (cr_grown_vma(grown, vma, c.flags, from, &to)) {
		case CR_PART_KEPT:
			cr_hash_part(hash, vma, c, from, to);
			break;
		case CR_PART_BLIND:
			hash->blind = true;
			break;
		case CR_PART_ENDS:
			break;
		}
	}
}

/* Hash mappings from *next on. Return: 1: more exist, 0, -EINTR. */
static int cr_hash_some_vmas(struct cr_hash *hash, struct mm_struct *mm, struct cr_grown *grown,
			     unsigned long *next)
{
	struct vm_area_struct *vma;
	struct vma_iterator vmi;
	int n = 0;

	vma_iter_init(&vmi, mm, *next);
	if (mmap_read_lock_killable(mm))
		return -EINTR;
	for_each_vma(vmi, vma) {
		if (n++ == CR_VMAS_AT_ONCE)
			break;
		cr_hash_vma(hash, vma, grown);
		*next = vma->vm_end;
	}
	mmap_read_unlock(mm);
	return n > CR_VMAS_AT_ONCE;
}

static int cr_hash_vmas(struct cr_hash *hash, struct mm_struct *mm, struct cr_digester *digest)
{
	unsigned long next = 0;
	int r;

	do {
		r = cr_hash_some_vmas(hash, mm, digest->grown, &next);
		if (cr_request_abandoned(digest->req))
			r = -EINTR;
	} while (r > 0);
	return r;
}

/* -------------------------------------------------------------- descriptors */

static bool cr_has_locks(struct inode *inode)
{
	struct file_lock_context *locks = READ_ONCE(inode->i_flctx);

	return locks && !(list_empty_careful(&locks->flc_flock) &&
			  list_empty_careful(&locks->flc_posix) &&
			  list_empty_careful(&locks->flc_lease));
}

/* The size and time of a file, for what a rollback says of files that were written to. */
static void cr_hash_content(struct cr_hash *hash, struct file *file)
{
	struct kstat stat;
	u64 seen[3];

	if (vfs_getattr(&file->f_path, &stat, STATX_SIZE | STATX_MTIME, AT_STATX_DONT_SYNC)) {
		hash->blind = true;
		return;
	}
	seen[0] = stat.size;
	seen[1] = stat.mtime.tv_sec;
	seen[2] = stat.mtime.tv_nsec;
	cr_hash(hash, seen, sizeof(seen));
}

/* The next open file from *fd on, with a reference; NULL: *fd is how far there is none. */
static struct file *cr_next_file(struct files_struct *files, unsigned int *fd,
				 unsigned int *end, bool *cloexec)
{
	struct file *file = NULL;
	struct fdtable *fdt;
	unsigned int upto;

	spin_lock(&files->file_lock);
	fdt = files_fdtable(files);
	*end = fdt->max_fds;
	upto = min(*end, *fd + CR_FDS_AT_ONCE);
	while (!file && *fd < upto) {
		*fd = find_next_bit(fdt->open_fds, upto, *fd);
		if (*fd >= upto)
			break;
		file = files_lookup_fd_locked(files, *fd);
		if (file) {
			get_file(file);
			*cloexec = test_bit(*fd, fdt->close_on_exec);
		} else {
			++*fd;
		}
	}
	spin_unlock(&files->file_lock);
	return file;
}

static void cr_hash_file(struct cr_hash *hash, struct cr_fd *c, struct file *file)
{
	struct inode *inode = file_inode(file);

	cr_hash(hash, c, sizeof(*c));
	if (file->f_mode & FMODE_PATH || !S_ISREG(inode->i_mode) ||
	    inode->i_sb->s_flags & SB_NOUSER)	/* one of the kernel's own */
		return;
	hash->blind |= cr_has_locks(inode);
	if (file->f_mode & FMODE_WRITE)
		cr_hash_content(hash, file);
}

/*
 * Only empty pipes are compared: whether the content is the same cannot be told by how much was
 * written and read, since the counters of the newest kernels wrap around soon.
 */
static void cr_hash_pipe(struct cr_hash *hash, unsigned int fd, const struct pipe_inode_info *pipe)
{
	u32 size[] = { fd, READ_ONCE(pipe->ring_size) };

	hash->blind |= READ_ONCE(pipe->head) != READ_ONCE(pipe->tail);
	cr_hash(hash, size, sizeof(size));
}

/*
 * What the kernel tells of a file in /proc/PID/fdinfo is all its state. An epoll set names the
 * watched files by number and inode only: cr_hash_watchers() tells apart those of one inode.
 */
static void cr_hash_shown(struct cr_hash *hash, struct cr_digester *digest, struct file *file)
{
	const char *text;
	size_t len;

	switch (cr_show_file(&digest->shown, file, &text, &len)) {
	case CR_SHOWN:
		cr_hash(hash, text, len);
		break;
	case CR_NOT_SHOWN:
		hash->blind = true;
		break;
	case CR_NOTHING_TO_SHOW:
		break;
	}
}

#define CR_MOST_WATCHERS 64	/* entries of epoll sets for one file, hashed under a spinlock */

/* The entries of epoll sets for the file, by their place in memory. */
static void cr_hash_watchers(struct cr_hash *hash, unsigned int fd, struct file *file)
{
#ifdef CONFIG_EPOLL
	struct hlist_node *node;
	int n = 0;

	if (!READ_ONCE(file->f_ep))
		return;
	cr_hash(hash, &fd, sizeof(fd));
	spin_lock(&file->f_lock);
	if (file->f_ep) {
		hlist_for_each(node, file->f_ep) {
			if (n++ == CR_MOST_WATCHERS)
				break;
			cr_hash(hash, &node, sizeof(node));
		}
	}
	spin_unlock(&file->f_lock);
	hash->blind |= n > CR_MOST_WATCHERS;
#endif
}

/* TLS keys and the like, which a connection keeps when its program is rolled back. */
static bool cr_has_upper_layer(struct file *file)
{
#ifdef CONFIG_INET
	struct socket *socket = sock_from_file(file);
	const struct sock *sk = socket ? socket->sk : NULL;

	return sk && sk->sk_type == SOCK_STREAM && sk->sk_protocol == IPPROTO_TCP &&
	       (sk->sk_family == AF_INET || sk->sk_family == AF_INET6) &&
	       READ_ONCE(inet_csk(sk)->icsk_ulp_ops);
#else
	return false;
#endif
}

static void cr_hash_fd(struct cr_hash *hash, struct cr_hash *content, struct cr_digester *digest,
		       unsigned int fd, struct file *file, bool cloexec)
{
	struct cr_fd c = { .fd = fd, .flags = cloexec ? CR_FD_CLOEXEC : 0 };
	enum cr_part part = CR_PART_KEPT;

	cr_fill_file(file, &c);
	if (digest->grown && digest->grown->nfds)
		part = cr_grown_fd(digest->grown, fd, file, digest->own, &c.pos);
	hash->blind |= part == CR_PART_BLIND;
	if (part != CR_PART_KEPT)
		return;
	cr_hash_file(hash, &c, file);
	if (file->f_mode & FMODE_PATH)	/* it has no content */
		return;
	if (S_ISFIFO(file_inode(file)->i_mode))
		cr_hash_pipe(content, fd, file->private_data);
	hash->blind |= cr_has_upper_layer(file);
	cr_hash_shown(content, digest, file);
	cr_hash_watchers(content, fd, file);
}

static int cr_hash_fds(struct cr_hash *hash, struct cr_hash *content, struct cr_digester *digest)
{
	unsigned int fd = 0, end;
	struct file *file;
	bool cloexec;

	do {
		file = cr_next_file(current->files, &fd, &end, &cloexec);
		if (file) {
			cr_hash_fd(hash, content, digest, fd, file, cloexec);
			fput(file);
			fd++;
		}
		if (cr_request_abandoned(digest->req))
			return -EINTR;
		cond_resched();
	} while (fd < end && !(hash->blind && content->blind));
	return 0;
}

/* -------------------------------------------------------------- the process */

static void cr_hash_path(struct cr_hash *hash, const struct path *path)
{
	struct inode *inode = d_inode(path->dentry);
	unsigned long id[] = {
		(unsigned long)path->mnt, (unsigned long)path->dentry, (unsigned long)inode,
		inode->i_ino, inode->i_generation,
	};

	cr_hash(hash, id, sizeof(id));
}

static void cr_hash_fs(struct cr_hash *hash)
{
	int umask = current_umask();
	struct path path;

	cr_hash(hash, &umask, sizeof(umask));
	get_fs_root(current->fs, &path);
	cr_hash_path(hash, &path);
	path_put(&path);
	get_fs_pwd(current->fs, &path);
	cr_hash_path(hash, &path);
	path_put(&path);
}

static bool cr_has_timers(const struct cr_process *process)
{
	return process->itimer_value_ns[0] || process->itimer_value_ns[1] ||
	       process->itimer_value_ns[2] || cr_has_posix_timers(current->signal);
}

static void cr_hash_process(struct cr_hash *hash, struct cr_session *s, struct cr_digester *digest)
{
	struct cr_process *process = &digest->process;
	u32 set[2];

	cr_fill_process(s, process);
	if (digest->grown)
		cr_grown_heap(digest->grown, process);
	hash->blind |= process->shared_pending || process->stopped || process->ldt_entries ||
		       cr_has_timers(process);
	cr_hash(hash, process, sizeof(*process));
	task_lock(s->leader);
	memcpy(digest->limits, current->signal->rlim, sizeof(digest->limits));
	task_unlock(s->leader);
	cr_hash(hash, digest->limits, sizeof(digest->limits));
	set[0] = current->signal->oom_score_adj;
	set[1] = cr_dump_filter(s->mm);
	cr_hash(hash, set, sizeof(set));
	cr_hash_fs(hash);
}

/* ------------------------------------------------------------------ threads */

static void cr_hash_cred(struct cr_hash *hash, const struct cred *cred)
{
	u32 ids[] = {
		__kuid_val(cred->uid), __kuid_val(cred->euid), __kuid_val(cred->suid),
		__kuid_val(cred->fsuid), __kgid_val(cred->gid), __kgid_val(cred->egid),
		__kgid_val(cred->sgid), __kgid_val(cred->fsgid), cred->securebits,
	};
	kernel_cap_t caps[] = {
		cred->cap_inheritable, cred->cap_permitted, cred->cap_effective,
		cred->cap_bset, cred->cap_ambient,
	};
	const struct group_info *groups = cred->group_info;

	cr_hash(hash, ids, sizeof(ids));
	cr_hash(hash, caps, sizeof(caps));
	cr_hash(hash, &cred->user_ns, sizeof(cred->user_ns));
	cr_hash(hash, groups->gid, groups->ngroups * sizeof(groups->gid[0]));
}

static void cr_hash_scheduling(struct cr_hash *hash, struct task_struct *t)
{
	u32 set[] = { t->policy, t->static_prio, t->rt_priority };

	cr_hash(hash, set, sizeof(set));
	cr_hash(hash, cpumask_bits(t->cpus_ptr), BITS_TO_LONGS(nr_cpu_ids) * sizeof(long));
#ifdef CONFIG_NUMA
	hash->blind |= !!READ_ONCE(t->mempolicy);
#endif
}

/* The thread is pinned. */
static void cr_hash_thread(struct cr_hash *hash, struct cr_session *s, struct cr_member *m)
{
	const struct cred *cred;
	struct cr_thread c = { };

	cr_fill_thread(s, m, &c);
	hash->blind |= c.pending || c.flags & CR_THREAD_BORN;
	/* what belongs to the registers */
	c.sigmask = 0;
	c.restart_left_ns = 0;
	c.restart_nr = 0;
	cr_hash(hash, &c, sizeof(c));
	cr_hash_scheduling(hash, m->task);
	if (c.flags & CR_THREAD_CREDS && !(c.flags & CR_THREAD_LEADER))
		return;
	cred = get_task_cred(m->task);
	cr_hash_cred(hash, cred);
	put_cred(cred);
}

static int cr_hash_threads(struct cr_hash *hash, struct cr_session *s)
{
	struct cr_member *m;
	unsigned long i;
	int r;

	cr_for_each_member(s, i, m) {
		if (m->task == current) {	/* it changes nothing of its own meanwhile */
			cr_hash_thread(hash, s, m);
			continue;
		}
		r = cr_pin(m);
		if (r == -EINTR) {
			cr_member_put(m);
			return r;
		}
		if (r)	/* it has been killed */
			continue;
		cr_hash_thread(hash, s, m);
		cr_unpin(m);
		cond_resched();
	}
	return 0;
}

/**
 * cr_digest_here() - the digests of what the target has of its snapshot
 * @m: current, working on @digest->req; the others are parked
 * @digest: what to compute
 *
 * Return: 0, -EINTR.
 */
int cr_digest_here(struct cr_member *m, struct cr_digester *digest)
{
	struct cr_hash mappings = { }, files = { }, content = { }, process = { }, threads = { };
	int r;

	if (digest->grown)
		cr_grown_begin(digest->grown);
	r = cr_hash_vmas(&mappings, m->session->mm, digest);
	if (!r)
		r = cr_hash_fds(&files, &content, digest);
	if (!r)
		r = cr_hash_threads(&threads, m->session);
	if (r)
		return r;
	cr_hash_process(&process, m->session, digest);
	digest->area[CR_AREA_MAPPINGS] = cr_hash_end(&mappings);
	digest->area[CR_AREA_DESCRIPTORS] = cr_hash_end(&files);
	digest->area[CR_AREA_CONTENT] = cr_hash_end(&content);
	digest->area[CR_AREA_PROCESS] = cr_hash_end(&process);
	digest->area[CR_AREA_THREADS] = cr_hash_end(&threads);
	return 0;
}

/**
 * cr_digest_init() - prepare a digest
 * @digest: zeroed before
 * @s: the session
 * @req: the request of the thread that will compute it; the object has @digest, too
 */
void cr_digest_init(struct cr_digester *digest, struct cr_session *s, struct cr_request *req)
{
	get_random_once(&cr_digest_key, sizeof(cr_digest_key));
	digest->req = req;
	digest->own = s->file->f_op;
}

/* Free what the digest has needed. */
void cr_digest_free(struct cr_digester *digest)
{
	cr_shown_free(&digest->shown);
}

struct cr_digest_request {
	struct cr_request req;
	struct cr_digester digest;
};

static int cr_op_digest(struct cr_member *m, struct cr_request *req)
{
	return cr_digest_here(m, &container_of(req, struct cr_digest_request, req)->digest);
}

static void cr_digest_release(struct cr_request *req)
{
	struct cr_digest_request *request = container_of(req, struct cr_digest_request, req);

	cr_digest_free(&request->digest);
	kfree(request);
}

/**
 * cr_ioc_digest() - CR_IOC_DIGEST
 * @s: the session
 * @a: its argument
 *
 * Return: 0, -ESRCH, -ENOMEM, -EINTR.
 */
long cr_ioc_digest(struct cr_session *s, struct cr_digest *a)
{
	struct cr_digest_request *request = kzalloc(sizeof(*request), GFP_KERNEL_ACCOUNT);
	int r;

	memset(a, 0, sizeof(*a));
	if (!request)
		return -ENOMEM;
	cr_request_init(&request->req, cr_op_digest, cr_digest_release);
	cr_digest_init(&request->digest, s, &request->req);
	r = cr_call_any(s, &request->req);
	if (!r)
		memcpy(a->area, request->digest.area, sizeof(a->area));
	cr_request_put(&request->req);
	return r;
}
