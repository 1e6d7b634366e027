// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Carry out checkpoint, restart and pause orders. Each function throws Error. */
#include "api/helper/outcome.h"
#include "api/helper/service.h"
#include "restore/options.h"

namespace reprise::api {

/** @return the option that the flags @p keep and @p restore of a request select */
inline SharedMemory shared_memory(unsigned flags, unsigned keep, unsigned restore) {
  return flags & keep ? SharedMemory::keep : flags & restore ? SharedMemory::restore : SharedMemory::refuse;
}

/** @return the path of an open image, or words for one without */
std::string image_name(const UniqueFd& fd);

Outcome carry_out_checkpoint(Service& service, const Order& order);
Outcome carry_out_restart(Service& service, const Order& order);
Outcome carry_out_pause(Service& service, const Order& order);

}  // namespace reprise::api
