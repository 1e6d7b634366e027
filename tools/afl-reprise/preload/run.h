// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The begin and the end of a run of the target, for the functions that stand in for the C library's. */
#include <dlfcn.h>

#include "protocol.h"

namespace reprise::afl {

/** Where runs of this process begin. */
enum class At { nowhere, input, accept, function };

/** nowhere: this process is no target, or its runs have begun. */
At at();

/** Called in the target before it has done anything. */
void set_target(At at);

/**
 * The state in which this is called for the first time is the one to which the target is rolled back: tell the server,
 * and wait for the first input. Later calls have no effect. Returns once for every run.
 */
void begin(const sockaddr* address = nullptr, socklen_t address_size = 0);

/** Tell the server that the runs cannot begin, and exit. @param error errno */
[[noreturn]] void give_up(int error);

/**
 * The run has ended: report exit status @p status and wait for the rollback. Returns if there is no run, as in a child
 * that the target has forked, or no server: then the process goes on to exit.
 */
void end(int status, bool accepted = false);

/** @return the function that the caller stands in for */
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace reprise::afl

/** A function of the C library that the preloaded library stands in for. */
#define STANDS_IN extern "C" __attribute__((visibility("default")))
/** The C library's function @p name. */
#define REAL(name)                                                               \
  ([] {                                                                          \
    static const auto real = ::reprise::afl::next<decltype(::name)>(#name);      \
    return real;                                                                 \
  }())
