/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * @file
 * @brief Types and constants that BLCR has in a header of their own; here they are in libcr.h.
 */
#ifndef REPRISE_BLCR_COMMON_H
#define REPRISE_BLCR_COMMON_H 1

#include <libcr.h>

#endif /* REPRISE_BLCR_COMMON_H */
