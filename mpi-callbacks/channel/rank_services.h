/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * @file
 * @brief What the transport crtcp does for other libraries in its process. The library that crd preloads into the ranks has a
 * variable CR_RANK_SERVICES, which crtcp sets in MPI_Init: find_services.h looks it up.
 */
#ifndef REPRISE_RANK_SERVICES_H
#define REPRISE_RANK_SERVICES_H 1

#define CR_RANK_SERVICES "reprise_rank_services"

enum cr_pin_outcome {
	CR_PIN_TAKEN, /**< the wave is committed */
	CR_PIN_BACK, /**< the job went back to the wave */
	CR_PIN_BACK_LOST, /**< the same, and this rank was lost before */
	CR_PIN_NONE, /**< with `or_none`: it could not be taken, and nobody waits for it any more */
};

struct cr_rank_services {
	/** @return why no waves are taken in this job; NULL: they are */
	const char *(*no_waves)(void);
	/**
	 * Wait for a wave that all ranks of the job wait for here, and to which all recoveries go back from then on. As setjmp()
	 * does, it returns once more after each of them. MPI makes progress meanwhile.
	 * If no wave can be taken (crrun says why), it waits until one can.
	 * @param or_none of all ranks 1: after some 10 s without a wave it ends with CR_PIN_NONE, in all ranks; no wave at all
	 *     is taken then until the job has begun anew.
	 */
	enum cr_pin_outcome (*pin_wave)(int or_none);
	/** This rank needs the wave no more. When all have said so, recoveries go to the newest wave again. */
	void (*release_wave)(void);
	/**
	 * After a return to the wave the program has come further than before: it has stored something itself, from which it goes on
	 * after the next one. One rank needs to say so, once after each return. A rank that dies again and again without that ends the job.
	 * @return 0: say it again later
	 */
	int (*progressed)(void);
	/**
	 * Wait until another node has what kept memory `name` (cr_kept_alloc() of libcr, with CR_KEPT_COPIED) has now: a restart of
	 * this rank elsewhere begins with that, or with what is newer. Other threads must not write to it meanwhile. MPI makes progress.
	 * @param fd a descriptor of it
	 * @param why receives, on an error, why, ended by 0 @return 0, or an errno: EOPNOTSUPP: the nodes of this job keep no copies;
	 *     EHOSTUNREACH: no other node can keep one now; others: it cannot be copied
	 */
	int (*copy_kept)(const char *name, int fd, char *why, unsigned long bytes);
};

#endif
