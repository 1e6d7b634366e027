// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The module as the agent sees it. Kept apart from the rest so that the unit
 * tests can link another one in its place.
 */
#include "cr.h"  // kmod/uapi

namespace reprise::api::device {

/** @return a descriptor of the module, out of the way of the program's own, or -errno */
int open();
void close(int fd);
/** Is the module loaded? Cheap, and no promise that it may be opened. */
bool present();
/** CR_IOC_AGENT_WAIT and CR_IOC_AGENT_READY. @return 0 or -errno */
int wait(int fd, cr_agent& agent);
int ready(int fd, cr_agent& agent);
/** A callback has failed behind the outcome, with an errno or CR_E* code. */
void failed(int fd, int code);
/** Path of the image of the last request or outcome that the agent was told of, "" when it has none. */
void origin(int fd, char* path, unsigned size);
/** Could the agent of the process with this /proc/PID/mem be told of a request? @return 0, EBUSY, or another errno */
int ask(int mem);

}  // namespace reprise::api::device
