// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The module's interface for the agent. In a file of its own, so that the unit
 * tests can link a fake in its place.
 */
#include "cr.h"  // kmod/uapi

namespace reprise::api::device {

/**
 * Open the module's device, at a descriptor number above the program's own.
 * @return the descriptor, or -errno: -ENOSYS when the module is not loaded, -CR_EVERSION
 */
int open();
void close(int fd);
/** Whether the module is loaded. Does not check whether the caller may open the device. */
bool present();
/** CR_IOC_AGENT_WAIT and CR_IOC_AGENT_READY. @return 0 or -errno */
int wait(int fd, cr_agent& agent);
int ready(int fd, cr_agent& agent);
/** Report that a callback has failed after the outcome, with an errno or CR_E* @p code. */
void failed(int fd, int code);
/** Write the image path of the last request or outcome to @p path (@p size bytes); "" when there is none. */
void origin(int fd, char* path, unsigned size);
/**
 * Check whether another process's agent could be notified of a request now, without notifying it.
 * @param mem  descriptor of the process's /proc/PID/mem
 * @return 0, EBUSY (another request is in progress), or another errno
 */
int ask(int mem);

}  // namespace reprise::api::device
