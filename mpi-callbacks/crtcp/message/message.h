/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief Messages over connections. The caller holds crtcp.lock, except of the functions that are Open MPI's. */
#ifndef CRTCP_MESSAGE_H
#define CRTCP_MESSAGE_H 1

#include "base/crtcp.h"

/* fragment.c: memory for messages to be sent. Open MPI calls these, without the lock. */
mca_btl_base_descriptor_t *crtcp_alloc(mca_btl_base_module_t *, crtcp_endpoint_t *, uint8_t, size_t, uint32_t);
int crtcp_free(mca_btl_base_module_t *, mca_btl_base_descriptor_t *);
/** A fragment with `reserve` bytes for the caller's header and as much data as fits. Contiguous data is not copied. */
mca_btl_base_descriptor_t *crtcp_prepare_src(mca_btl_base_module_t *, crtcp_endpoint_t *, struct opal_convertor_t *,
                                             uint8_t, size_t reserve, size_t *size, uint32_t);
int crtcp_fragment_init(opal_free_list_item_t *item, void *list); /**< for opal_free_list_init() */
void crtcp_fragment_finish(crtcp_fragment_t *fragment); /**< callback and return; without the lock */

/* send.c */
int crtcp_send(mca_btl_base_module_t *, crtcp_endpoint_t *, mca_btl_base_descriptor_t *, mca_btl_base_tag_t);
int crtcp_sendi(mca_btl_base_module_t *, crtcp_endpoint_t *, struct opal_convertor_t *, void *, size_t, size_t, uint8_t,
                uint32_t, mca_btl_base_tag_t, mca_btl_base_descriptor_t **);
int crtcp_put(mca_btl_base_module_t *, crtcp_endpoint_t *, void *, uint64_t, mca_btl_base_registration_handle_t *,
              mca_btl_base_registration_handle_t *, size_t, int, int, mca_btl_base_rdma_completion_fn_t, void *,
              void *);
/** Write queued fragments until the socket is full; finished ones move to crtcp.finished.
 * @return false: the connection broke, and crtcp_lost() was called */
bool crtcp_write_queue(crtcp_endpoint_t *endpoint);
/** Write the rest of a partly written message and all marks. @return 1: done; 0: not yet; -1: the connection broke */
int crtcp_write_marks(crtcp_endpoint_t *endpoint);
/** Send FIN, if no message is under way, and close the connection. */
void crtcp_fin(crtcp_endpoint_t *endpoint);

/* receive.c */
/** Handle an event of the socket: messages, or if these come through a lane, a wake-up call or the connection's end.
 * @return as crtcp_read() */
int crtcp_socket_event(crtcp_endpoint_t *endpoint, uint8_t *scratch);
/** Read once and deliver complete messages. @return > 0: data was read; 0: none, or shut; -1: the connection broke, and
 * crtcp_lost() was called */
int crtcp_read(crtcp_endpoint_t *endpoint, uint8_t *scratch);
/** Parse bytes that were read before. @return -1: the connection broke, and crtcp_lost() was called */
int crtcp_parse(crtcp_endpoint_t *endpoint);
/** Make the callback thread the reader: it parses the bytes that a thread in an upcall has read but not parsed.
 * @return as crtcp_parse() */
int crtcp_take_over(crtcp_endpoint_t *endpoint);

#endif
