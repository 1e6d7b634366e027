// SPDX-License-Identifier: GPL-2.0-only
/* 6.3 on: file locks have a header of their own */
#include <linux/filelock.h>
struct file_lock_context *probe(struct inode *inode);
struct file_lock_context *probe(struct inode *inode) { return inode->i_flctx; }
