// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the kernel tells of files that it makes for calls such as eventfd(2). Their state is private
 * to the kernel, but shown in /proc/PID/fdinfo, by a function that every such file has.
 */
#include "shown.h"
#include <linux/file.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>

#define CR_SHOWN_FIRST	1024	/* enough for all kinds but large epoll sets */
#define CR_SHOWN_MOST	(1UL << 20)

/* The kinds whose state is shown in full, by the names that the kernel gives them. */
static bool cr_is_shown(const struct file *file, bool *locks)
{
	static const char * const names[] = {
		"[eventpoll]", "[eventfd]", "[signalfd]", "[timerfd]",
	};
	const char *name = file->f_path.dentry->d_name.name;
	int i;

	if (file_inode(file)->i_sb->s_magic != ANON_INODE_FS_MAGIC)
		return false;
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (!strcmp(name, names[i])) {
			*locks = i == 0;
			return true;
		}
	}
	return false;
}

static bool cr_shown_grow(struct cr_shown *shown)
{
	size_t size = shown->size ? 4 * shown->size : CR_SHOWN_FIRST;

	if (size > CR_SHOWN_MOST)
		return false;
	cr_shown_free(shown);
	shown->text = kvmalloc(size, GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	shown->size = shown->text ? size : 0;
	return shown->text;
}

/**
 * cr_show_file() - get the state of an eventfd, a timerfd, a signalfd or an epoll set as text
 * @shown: room, zeroed at first
 * @file: the file, with a reference of the caller's beside that of a descriptor
 * @text: out: valid until the next call
 * @len: out: its bytes
 *
 * Sleeps. The mutex of an epoll set may be held by a process that waits for a page of its memory,
 * and cannot be waited for killably: a set that is not open here only is not shown.
 */
enum cr_showing cr_show_file(struct cr_shown *shown, struct file *file, const char **text,
			     size_t *len)
{
	struct seq_file out = { };
	bool locks;

	if (!cr_is_shown(file, &locks))
		return CR_NOTHING_TO_SHOW;
	if (!file->f_op->show_fdinfo || (locks && file_count(file) > 2))
		return CR_NOT_SHOWN;
	if (!shown->text && !cr_shown_grow(shown))
		return CR_NOT_SHOWN;
	for (;;) {
		out.buf = shown->text;
		out.size = shown->size;
		out.count = 0;
		file->f_op->show_fdinfo(&out, file);
		if (!seq_has_overflowed(&out))
			break;
		if (!cr_shown_grow(shown))
			return CR_NOT_SHOWN;
	}
	*text = out.buf;
	*len = out.count;
	return CR_SHOWN;
}

/**
 * cr_shown_free() - free the room
 * @shown: the room; it can be used again
 */
void cr_shown_free(struct cr_shown *shown)
{
	kvfree(shown->text);
	shown->text = NULL;
	shown->size = 0;
}
