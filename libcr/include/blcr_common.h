/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * @file
 * @brief For BLCR programs: includes libcr.h, which contains the declarations of BLCR's blcr_common.h.
 */
#ifndef REPRISE_BLCR_COMMON_H
#define REPRISE_BLCR_COMMON_H 1

#include <libcr.h>

#endif /* REPRISE_BLCR_COMMON_H */
