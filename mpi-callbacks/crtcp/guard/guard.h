/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * @file
 * @brief The guard: a thread that sees connections end while the program computes.
 *
 * Without it a rank notices that a peer is gone when it calls MPI next, and perhaps not in that call: the kernel takes a
 * message for a peer whose end it knows. The guard looks ten times a second whether a thread handles events. While none does,
 * it waits for the end of a connection. Then it reads what the peer has sent
 * before, as the callback thread does in a wave: messages go to the inbox. So it finds the peer's goodbye, or that there is
 * none. Then the loss is reported to crd at once or, without crd, the peer has failed for the next call of MPI.
 *
 * It also looks now and then whether hosts to which data are on their way still answer (silence.h).
 *
 * The guard does nothing while the transport is held, or while another thread handles events: it tries again a little later.
 * So it can be stopped, saved and rolled back at any point, as the program's threads can.
 */
#ifndef CRTCP_GUARD_H
#define CRTCP_GUARD_H 1

#include "base/crtcp.h"

/** Start the guard if the user wants one. If that is not possible, say so and go on without. */
void crtcp_guard_start(void);
/** End it, and wait until it has ended. The caller does not hold crtcp.lock. */
void crtcp_guard_stop(void);

#endif
