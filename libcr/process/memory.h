// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Private pages: writing out their snapshot, and restoring them. */
#include <cstdint>
#include <span>
#include <vector>

#include "image/reader.h"
#include "image/writer.h"
#include "process/mapping_plan.h"
#include "restore/report.h"
#include "session/session.h"

namespace reprise {

/**
 * Write the snapshot's pages @p runs into @p writer, with several threads. The program may already be running.
 */
void write_pages(const Session& session, ImageWriter& writer, std::span<const cr_range> runs, const Progress& progress);

/** @return the sum of the lengths of @p ranges */
std::uint64_t bytes_in(std::span<const cr_range> ranges);

/** @return @p ranges sorted and without overlaps */
std::vector<cr_range> merged(std::vector<cr_range> ranges);

/** @return where @p process has the pages of @p parent, among @p clean, sorted, which have not changed since */
std::vector<cr_range> unchanged_pages(const Image& parent, const Process& process, std::span<const cr_range> clean);

/** Which pages to restore, and what is known about the target's pages. */
struct PageSource {
  const Image* file = nullptr;  ///< null: the session's own snapshot
  std::vector<cr_range> changed;  ///< if tracked or others_right: all that may differ from the image, new mappings included; sorted
  std::array<std::uint8_t, CR_ID_SIZE> id{};
  /** Skip pages that the module has tracked as unchanged. Not set for a snapshot: the module then finds out what has changed
   *  while it restores, and gets the whole scope. */
  bool tracked = false;
  /** All pages outside of `changed` are as in the image, though the module has not tracked them. */
  bool others_right = false;
};

/** Restore the pages in the mappings of @p image, which must be in place, and start tracking changes. */
void restore_pages(Session& session, const Process& image, const PageSource& source, Report& report);

}  // namespace reprise
