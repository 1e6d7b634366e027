// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The commands that were installed with this daemon. */
#include <string>

namespace reprise::crd {

/** @return the path of cr_checkpoint, cr_pause, cr_restart or crrun beside the daemon; its name, for PATH, if it is not there */
const std::string& command_path(const std::string& name);

}  // namespace reprise::crd
