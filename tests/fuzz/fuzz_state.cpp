// SPDX-License-Identifier: GPL-2.0-only
// Only the serialized state: faster than whole images.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "image/loader.h"
#include "image/notes.h"
#include "image/validate.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  reprise::Process process;
  if (!reprise::image::parse_state({reinterpret_cast<const char*>(data), size}, process)) return 0;
  try {
    reprise::validate_process("IMAGE", process, 1 << 20);
    // A valid state can be written again.
    std::vector<reprise::ThreadRegs> regs(static_cast<std::size_t>(process.threads_size()));
    std::vector<const reprise::ThreadRegs*> in_order;
    for (const auto& one : regs) in_order.push_back(&one);
    reprise::image::build_notes(process, in_order);
  } catch (const reprise::Error&) {
  }
  return 0;
}
