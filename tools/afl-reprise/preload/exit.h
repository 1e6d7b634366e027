// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The ends of a program: see exit.cpp. */
namespace reprise::afl {

/** Call before the program's own code registers handlers. */
void watch_exits();

}  // namespace reprise::afl
