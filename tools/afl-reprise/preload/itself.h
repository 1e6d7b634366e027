// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The target rolls itself back by one call of the module, without the server. */
#include "protocol.h"

namespace reprise::afl {

/** Call before the program's own code runs: take over what the server has opened for it. */
void open_room();

/** @return the address of the memory that the server shares with us; 0: none */
std::uint64_t room_address();

/**
 * Wait for a run, by @p wait. Called where the snapshot will be taken. Behind each rollback by roll_back_itself() it goes on
 * here, and tells the server by @p tell what that run had to tell.
 */
void wait_here(bool (*tell)(const Message&), void (*wait)());

/** Roll back to wait_here(). Returns if that is not possible: nothing has changed then. */
void roll_back_itself(const Message& message);

}  // namespace reprise::afl
