// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Kept memory (cr_kept_alloc() of libcr): images hold its content only if it was allocated so, and a pause leaves it as it is. A
 * restart makes it anew, or takes memory that the caller gives (RestoreOptions::kept_memory).
 */
#include <string>
#include <string_view>

#include "base/kept_name.h"
#include "base/unique_fd.h"
#include "image/state.pb.h"
#include "restore/options.h"

namespace reprise {

inline bool is_kept_memory(const SharedObject& object) { return object.kind() == SharedObject::KEPT; }
/** Has the image the content of this kept memory (CR_KEPT_COPIED)? */
inline bool is_copied(const SharedObject& object) { return kept_is_copied(object.file().path()); }

/** @return the kind of a shared object that is the memfd with this @p path */
inline SharedObject::Kind memfd_kind(std::string_view path) {
  return kept_name(path).empty() ? SharedObject::MEMFD : SharedObject::KEPT;
}

/** Is it a memfd, kept or not? */
inline bool is_memfd(const SharedObject& object) { return object.kind() == SharedObject::MEMFD || is_kept_memory(object); }

/** Name for messages: "kept memory NAME". */
std::string kept_text(const SharedObject& object);

/**
 * Check the memory that a restart is given: the image has kept memory of the name, once, and it is of the same name and size,
 * and can be mapped. Throws Error (usage, refused) naming it.
 */
void check_kept_memory(const Process& image, const RestoreOptions& options);

/** @return a descriptor of ours for the memory that @p options give for @p object; none if they give none. Throws Error. */
UniqueFd given_memory(const SharedObject& object, const RestoreOptions& options);

}  // namespace reprise
