/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where crtcp, whose symbols others do not see, leaves what it does for them. */
#include "rank_services.h"

__attribute__((visibility("default"))) const struct cr_rank_services *reprise_rank_services;
