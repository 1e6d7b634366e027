// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Delta images: make an image refer to the pages that another one has, and make it whole again. */
#include <span>
#include <string>
#include <vector>

#include "cr.h"
#include "image/reader.h"
#include "image/state.pb.h"
#include "image/writer.h"

namespace reprise {

/**
 * Check that a delta of @p from can be written to @p path (relative to the working directory).
 * @return the name that @p from has in its directory
 * @throws Error (usage) when @p path is in another directory, or would replace a file that the delta needs
 */
std::string name_for_delta(const Image& from, const std::string& path);

/** What refer_to() has done. */
struct Referred {
  std::vector<cr_range> taken;    ///< pages to take over, sorted
  bool too_many_pieces = false;   ///< the pages elsewhere would be too many runs: all are to be taken over
};

/**
 * Make @p process refer to the pages that @p from has in @p ranges. There may be pages in too many files, or in files that are
 * too large for what is needed of them: then it refers to those that have most, and the image takes the others over. So a row of
 * deltas never needs more than so many files and so much room, however long it is, and a page is taken over a few times in it.
 * @param name    of name_for_delta()
 * @param own     bytes of the pages that the image has anyway
 * @param ranges  sorted; each page is in a mapping of @p process and saved in @p from
 */
Referred refer_to(Process& process, const Image& from, const std::string& name, std::uint64_t own,
                  std::span<const cr_range> ranges);

/** @return the delta images that need the file at @p place, by name; what cannot be read there is no image */
std::vector<std::string> deltas_of(const image::FilePlace& place);

/**
 * Write @p image with the pages of its bases: an image that stands alone, of the same checkpoint. Its pages are not
 * verified. The caller calls finish().
 * @param progress  gets bytes done and bytes in total
 */
void write_whole(const Image& image, ImageWriter& writer, const Image::Progress& progress = {});

}  // namespace reprise
