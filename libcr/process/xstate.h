// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Extended registers (NT_X86_XSTATE) on the CPU they were saved on, and on another one. */
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "image/format.h"
#include "image/state.pb.h"
#include "restore/options.h"
#include "restore/report.h"

namespace reprise {

/** How one machine lays the extended registers out. Intel SDM vol. 1, 13.4; the kernel's XSAVE regset. */
struct XstateLayout {
  struct Set {
    unsigned feature;  ///< bit in XCR0, 2 and above
    std::size_t offset, size;
  };
  std::uint64_t features = 0;  ///< XCR0
  std::size_t size = 0;        ///< bytes of the whole
  std::vector<Set> sets;
};

/** Of this machine, as its CPU tells. */
const XstateLayout& xstate_layout_here();
/** Note the sets of this machine in an image. */
void collect_xstate_layout(Host& host);
/** Of the machine that an image was taken on; @p xstate is one of its register sets. */
XstateLayout xstate_layout_of(const Host& host, const std::string& xstate);

/**
 * @p xstate, saved under the layout @p then, as it has to be on @p here.
 * @param made  the thread was made for this request: what a kernel gives only to threads that used it, it has not
 * @throws Error (refused) naming @p who, when registers are in use that this machine or a new thread lacks
 */
std::string fitted_xstate(const std::string& xstate, const XstateLayout& then, const XstateLayout& here, bool made,
                          const std::string& who);

/** Refuse what fitted_xstate() would refuse. @p made: indices of threads that are made for this request. */
void check_xstate(const Process& image, const std::vector<ThreadRegs>& regs, const std::vector<int>& made,
                  RestoreMode mode, Report& report);

}  // namespace reprise
