// SPDX-License-Identifier: GPL-2.0-only
/* up to 6.4: get_user_pages_remote() has an argument vmas */
#include <linux/mm.h>
long probe(struct mm_struct *mm, struct page **p);
long probe(struct mm_struct *mm, struct page **p)
{
	return get_user_pages_remote(mm, 0, 1, 0, p, NULL, (int *)NULL);
}
