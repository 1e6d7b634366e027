// SPDX-License-Identifier: GPL-2.0-only
/* 6.13 on: file_count() over f_ref */
#include <linux/fs.h>
#include <linux/file_ref.h>
unsigned long probe(struct file *f);
unsigned long probe(struct file *f) { return file_ref_read(&f->f_ref); }
