// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Extended registers (NT_X86_XSTATE), and their conversion to another CPU's layout. */
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "image/format.h"
#include "image/state.pb.h"
#include "restore/options.h"
#include "restore/report.h"

namespace reprise {

/** The XSAVE layout of one machine. Intel SDM vol. 1, 13.4; the kernel's XSAVE regset. */
struct XstateLayout {
  struct Set {
    unsigned feature;  ///< bit in XCR0, 2 and above
    std::size_t offset, size;
  };
  std::uint64_t features = 0;  ///< XCR0
  std::size_t size = 0;        ///< total bytes
  std::vector<Set> sets;
};

/** @return the layout of this machine, from CPUID */
const XstateLayout& xstate_layout_here();
/** Save the register sets of this machine in an image. */
void collect_xstate_layout(Host& host);
/** @return the layout of the machine that an image was taken on; @p xstate is one of its register sets */
XstateLayout xstate_layout_of(const Host& host, const std::string& xstate);

/**
 * @return @p xstate converted from the layout @p then to the layout @p here
 * @param made  the thread was made for this request: it lacks AMX state, which the kernel allocates on first use
 * @throws Error (refused) naming @p who, if registers are in use that this machine or a new thread lacks
 */
std::string fitted_xstate(const std::string& xstate, const XstateLayout& then, const XstateLayout& here, bool made,
                          const std::string& who);

/**
 * Throw Error (refused) for any thread that fitted_xstate() would refuse; warn if this CPU lacks features.
 * @param made  indexes of threads that are made for this request
 */
void check_xstate(const Process& image, const std::vector<ThreadRegs>& regs, const std::vector<int>& made,
                  RestoreMode mode, Report& report);

}  // namespace reprise
