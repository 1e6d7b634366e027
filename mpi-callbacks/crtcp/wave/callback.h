/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief libcr's callback. */
#ifndef CRTCP_CALLBACK_H
#define CRTCP_CALLBACK_H 1

int crtcp_callback_register(const char **why); /**< @return 0; -1: checkpoints are off, see why */

#endif
