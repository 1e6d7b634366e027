/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Replaces a header that Open MPI's installed opal/mca/threads/tsd.h includes but that is not installed. */
#ifndef CRTCP_COMPAT_TSD_H
#define CRTCP_COMPAT_TSD_H

#include <pthread.h>

typedef pthread_key_t opal_tsd_key_t;

static inline int opal_tsd_key_delete(opal_tsd_key_t key)
{
  return pthread_key_delete(key) ? -1 : 0;
}

static inline int opal_tsd_set(opal_tsd_key_t key, void *value)
{
  return pthread_setspecific(key, value) ? -1 : 0;
}

static inline int opal_tsd_get(opal_tsd_key_t key, void **value)
{
  *value = pthread_getspecific(key);
  return 0;
}

#endif
