// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file What both forms of output tell about parts of an image. */
#include <cstdint>
#include <string>

#include "image/reader.h"

namespace reprise {

/** Bytes of @p mapping whose content is in the image, as pages or as shared content. */
std::uint64_t saved_bytes(const Image& image, const Mapping& mapping);

/** The system call a thread is parked in by name, "" when it was running its own code. */
std::string parked_call(const ThreadRegs& regs);

/** "/var/log/x at 4096", "127.0.0.1:6379 listening": depends on the kind. */
std::string describe(const Process& process, const Description& description);

/** "pipe", "event fd" … */
std::string kind_name(const Description& description);

/** How checking the content went. */
struct Verification {
  bool done = false;
  std::string error;  ///< empty: all is as it was written
  double seconds = 0;
};

}  // namespace reprise
