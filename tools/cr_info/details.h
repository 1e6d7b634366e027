// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Descriptions of the parts of an image that both output forms use. */
#include <cstdint>
#include <string>

#include "image/reader.h"

namespace reprise {

/** @return the bytes of @p mapping whose content is in the image, as pages or as shared content */
std::uint64_t saved_bytes(const Image& image, const Mapping& mapping);

/** @return the name of the system call that the thread was in; "" when it was running its own code */
std::string parked_call(const ThreadRegs& regs);

/** A description by kind: "/var/log/x at 4096", "127.0.0.1:6379 listening". */
std::string describe(const Process& process, const Description& description);

/** "pipe", "event fd" … */
std::string kind_name(const Description& description);

/** Result of the check of the content. */
struct Verification {
  bool done = false;
  std::string error;  ///< empty: the content matches its checksums
  double seconds = 0;
};

}  // namespace reprise
