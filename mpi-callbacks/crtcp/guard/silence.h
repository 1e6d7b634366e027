/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief Does the host of a peer still answer while data are on their way to it? The caller holds crtcp.lock. */
#ifndef CRTCP_SILENCE_H
#define CRTCP_SILENCE_H 1

#include "base/crtcp.h"

/** Milliseconds between two calls of crtcp_silent() for a connection; 0: there is no limit for silence */
unsigned crtcp_silence_look_ms(void);
/** Has the peer's host left the kernel's questions unanswered for as long as its keepalive probes would wait? */
bool crtcp_silent(crtcp_endpoint_t *endpoint, uint64_t now);

#endif
