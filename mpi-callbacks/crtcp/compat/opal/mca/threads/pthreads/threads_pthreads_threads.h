/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Replaces a header that Open MPI's installed opal/mca/threads/threads.h includes but that is not installed. It
 * declares only what the installed headers use. */
#ifndef CRTCP_COMPAT_THREADS_H
#define CRTCP_COMPAT_THREADS_H

#include <pthread.h>
#include <signal.h>

/* Exported by libopen-pal: the function by which a thread yields its processor. */
extern void (*opal_threads_pthreads_yield_fn)(void);

static inline void opal_thread_yield(void)
{
  opal_threads_pthreads_yield_fn();
}

#endif
