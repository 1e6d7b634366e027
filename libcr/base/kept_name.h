// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The name by which kept memory (cr_kept_alloc() of libcr) is recognised: it is a memfd whose name begins with a prefix. So
 * a program without libcr can make some, too, and a daemon can hold it. Memory whose content images have (CR_KEPT_COPIED) has a
 * prefix of its own; a process has a name once, whichever the prefix.
 */
#include <cstddef>
#include <string_view>

namespace reprise {

/** What the names of the memfds begin with; of those with CR_KEPT_COPIED. */
inline constexpr char kKeptPrefix[] = "reprise.keep.", kCopiedPrefix[] = "reprise.keep+";
/** What their paths in /proc begin with, and end with. */
inline constexpr std::string_view kKeptPath = "/memfd:reprise.keep.", kCopiedPath = "/memfd:reprise.keep+";
inline constexpr std::string_view kKeptEnd = " (deleted)";

/** A name has at most so many characters, of these. */
inline constexpr std::size_t kKeptNameMax = 200;
inline constexpr char kKeptNameCharacters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
/** @return whether cr_kept_alloc() takes the name */
constexpr bool valid_kept_name(std::string_view name) {
  return !name.empty() && name.size() <= kKeptNameMax && name.find_first_not_of(kKeptNameCharacters) == std::string_view::npos;
}

/** @return whether @p path, without kKeptEnd, is of kept memory whose content images have */
inline bool kept_is_copied(std::string_view path) { return path.starts_with(kCopiedPath); }

/** @return the name of the kept memory with this @p path, which is without kKeptEnd; "" if it is no kept memory */
inline std::string_view kept_name(std::string_view path) {
  static_assert(kKeptPath.size() == kCopiedPath.size());
  return path.starts_with(kKeptPath) || kept_is_copied(path) ? path.substr(kKeptPath.size()) : std::string_view();
}

}  // namespace reprise
