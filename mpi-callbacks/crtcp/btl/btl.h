/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief What Open MPI's framework sees of the transport. */
#ifndef CRTCP_BTL_H
#define CRTCP_BTL_H 1

#include "base/crtcp.h"

extern mca_btl_base_component_3_0_0_t mca_btl_crtcp_component; /**< the symbol that Open MPI looks for */
extern mca_btl_base_module_t crtcp_module;
int crtcp_progress(void); /**< for opal_progress_register() */

#endif
