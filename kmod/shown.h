/* SPDX-License-Identifier: GPL-2.0-only */
/* What the kernel tells of an open file in /proc/PID/fdinfo. */
#ifndef CR_SHOWN_H
#define CR_SHOWN_H

#include <linux/fs.h>

/**
 * struct cr_shown - room for the text of one file after the other
 * @text: NULL at first
 * @size: its bytes
 */
struct cr_shown {
	char *text;
	size_t size;
};

/**
 * enum cr_showing - what cr_show_file() says
 * @CR_SHOWN: the text is all that the file has as its state
 * @CR_NOT_SHOWN: the file has state that could not be shown
 * @CR_NOTHING_TO_SHOW: the file is of none of these kinds
 */
enum cr_showing { CR_SHOWN, CR_NOT_SHOWN, CR_NOTHING_TO_SHOW };

enum cr_showing cr_show_file(struct cr_shown *shown, struct file *file, const char **text,
			     size_t *len);
void cr_shown_free(struct cr_shown *shown);

#endif /* CR_SHOWN_H */
