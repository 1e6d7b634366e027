// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The files that have those pages of a delta image that it does not have itself: its bases. All are in one directory. A
 * base may be a delta image, too: only the pages that it has itself are taken from it.
 */
#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "image/format.h"
#include "image/loader.h"
#include "image/state.pb.h"

namespace reprise::image {

/** A base, open for reading its pages. */
struct OpenBase {
  std::string name;  ///< for messages
  UniqueFd fd;
  Loaded tables;  ///< as load_tables() sets it
};

/**
 * Open the bases of an image.
 * @param name     of the image in messages
 * @param process  validated
 * @param fd       the file of the image, borrowed: it tells the directory
 * @param owner    of that file; a base must belong to the same user, or to root, since its owner can forge the pages
 * @throws Error usage (a base is not there), refused (of another user), permanent (another file, damaged)
 */
std::vector<OpenBase> open_bases(const std::string& name, const Process& process, int fd, uid_t owner);

/** @return the pages in @p bases, by address. Throws Error (permanent) when a base does not have them. */
std::vector<PageRun> runs_of_bases(const std::string& name, const Process& process, std::span<const OpenBase> bases);

}  // namespace reprise::image
