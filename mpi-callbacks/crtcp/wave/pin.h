/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief Waves that the program asks for: see rank_services.h. */
#ifndef CRTCP_PIN_H
#define CRTCP_PIN_H 1

void crtcp_offer_services(void); /**< to the other libraries of this process */
void crtcp_look_around(void); /**< let MPI make progress for a moment, without the lock, which the caller has */

#endif
