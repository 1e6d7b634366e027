/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief What a rank tells all others through PMIx. */
#ifndef CRTCP_MODEX_H
#define CRTCP_MODEX_H 1

#include "crtcp.h"

#define CRTCP_MODEX 1

/** Address strings, each ended by 0, follow. */
struct crtcp_modex {
  uint32_t version; /**< CRTCP_MODEX */
  uint32_t count; /**< of addresses */
  uint8_t cookie[CRTCP_COOKIE]; /**< to be shown to this rank */
};

#endif
