/* SPDX-License-Identifier: GPL-2.0-only */
/* Digests of the target's state: declarations that digest.c and rollback.c share. */
#ifndef CR_DIGEST_H
#define CR_DIGEST_H

#include "grown.h"
#include "shown.h"
#include <linux/resource.h>

/**
 * struct cr_digester - computes digests, in a parked thread
 * @req: the request that the thread works on
 * @own: operations of /dev/cr
 * @grown: finds what the target has more than at its snapshot, which is not hashed; NULL: all
 *	   is hashed
 * @shown: room for what the kernel tells of files
 * @area: out: the digests
 * @process: room, too large for a stack
 * @limits: likewise
 */
struct cr_digester {
	struct cr_request *req;
	const struct file_operations *own;
	struct cr_grown *grown;
	struct cr_shown shown;
	u64 area[CR_AREAS];
	struct cr_process process;
	struct rlimit limits[RLIM_NLIMITS];
};

void cr_digest_init(struct cr_digester *digest, struct cr_session *s, struct cr_request *req);
void cr_digest_free(struct cr_digester *digest);
int cr_digest_here(struct cr_member *m, struct cr_digester *digest);

#endif /* CR_DIGEST_H */
