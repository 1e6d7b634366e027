// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Which file an image is, so that one that was replaced or written to is not taken for the old one. */
#include <cstdint>
#include <string>

namespace reprise::snapshots {

struct ImageFile {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::int64_t changed_ns = 0;  ///< ctime

  bool operator==(const ImageFile&) const = default;
  explicit operator bool() const { return inode != 0; }

  /** @return the file at @p path; none if there is no regular file */
  static ImageFile of(const std::string& path);
  /** For a command line. */
  std::string text() const;
  /** @return none if it is not one of text() */
  static ImageFile parse(const std::string& text);
};

}  // namespace reprise::snapshots
