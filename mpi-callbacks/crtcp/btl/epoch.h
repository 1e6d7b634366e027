/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief Identifiers of communicators in spawned processes that take the places of failed ones. */
#ifndef CRTCP_EPOCH_H
#define CRTCP_EPOCH_H 1

/** Let the epoch of this process follow that of its parents at the end of MPI_Init, if Open MPI tells the program of failures. */
void crtcp_epoch_follow(void);

#endif
