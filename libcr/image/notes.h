// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The notes of an image, as the kernel writes those of a core file. */
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "image/format.h"
#include "image/state.pb.h"

namespace reprise::image {

/** Header and padded name of a note whose content of @p size bytes follows. */
std::string note_header(std::string_view name, std::uint32_t type, std::uint64_t size);

/** Append a whole note, padded. */
void append_note(std::string& out, std::string_view name, std::uint32_t type, std::string_view content);

/**
 * The first note segment: process, threads (leader first), auxv, mapped files
 * and the serialized state.
 * @param regs in the order of process.threads()
 */
std::string build_notes(const Process& process, const std::vector<const ThreadRegs*>& regs);

}  // namespace reprise::image
