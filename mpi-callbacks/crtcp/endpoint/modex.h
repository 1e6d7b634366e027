/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief The data that a rank publishes to all others through PMIx. */
#ifndef CRTCP_MODEX_H
#define CRTCP_MODEX_H 1

#include "base/crtcp.h"

#define CRTCP_MODEX 1

/** Followed by address strings, each ended by 0. */
struct crtcp_modex {
  uint32_t version; /**< CRTCP_MODEX */
  uint32_t count; /**< number of addresses */
  uint8_t cookie[CRTCP_COOKIE]; /**< peers must send it in the handshake with this rank */
};

#endif
