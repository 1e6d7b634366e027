/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Open MPI's installed opal/mca/threads/threads.h includes a header of this name that is not installed.
 * This is a small one of our own: what the installed headers use of it. */
#ifndef CRTCP_COMPAT_THREADS_H
#define CRTCP_COMPAT_THREADS_H

#include <pthread.h>
#include <signal.h>

/* Exported by libopen-pal: how the threads of this run give up the processor. */
extern void (*opal_threads_pthreads_yield_fn)(void);

static inline void opal_thread_yield(void)
{
  opal_threads_pthreads_yield_fn();
}

#endif
