/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief Whether Open MPI's layer above, pml/ob1, can still be told what has become of a message. */
#ifndef CRTCP_OB1_H
#define CRTCP_OB1_H 1

#include "base/crtcp.h"

enum crtcp_hearing {
  CRTCP_HEARS, /**< call back */
  CRTCP_HEARS_LATER, /**< not now: ask again */
  CRTCP_HEARS_NEVER, /**< free the message, and tell nobody */
};

/** A message is queued: note whose it is. */
void crtcp_ob1_note(crtcp_fragment_t *fragment);
/** A message is finished: does whoever has sent it hear of that? */
enum crtcp_hearing crtcp_ob1_hears(const crtcp_fragment_t *fragment);
/** Is it a part of a message that ob1 has given up? Its request is already another message's, to another peer. */
bool crtcp_ob1_is_left(const crtcp_fragment_t *fragment);
/** Has the process failed, as far as Open MPI knows? */
bool crtcp_ob1_has_failed(const crtcp_endpoint_t *endpoint);
/** Is it a message of one of ob1's requests to send? */
bool crtcp_ob1_sends(const crtcp_fragment_t *fragment);

#endif
