// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Build the notes of an image in the format of the kernel's core files. */
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "image/format.h"
#include "image/state.pb.h"

namespace reprise::image {

/** Bytes of the header and the name of a note of the project's own. */
inline constexpr std::uint64_t kNoteHeaderSize = 12 + sizeof kNoteName;

/** @return header and padded name of a note with @p size bytes of content. @throws Error (refused) above 4 GiB */
std::string note_header(std::string_view name, std::uint32_t type, std::uint64_t size);

/** Append a whole note, padded to 4 bytes, to @p out. */
void append_note(std::string& out, std::string_view name, std::uint32_t type, std::string_view content);

/**
 * Build the first note segment: process, threads (leader first), auxv, mapped
 * files and the serialized state.
 * @param regs in the order of process.threads()
 * @throws Error (refused) when the state is too large
 */
std::string build_notes(const Process& process, const std::vector<const ThreadRegs*>& regs);

}  // namespace reprise::image
