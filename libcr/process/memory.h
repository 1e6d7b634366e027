// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Private pages: writing a snapshot of them out, and putting them back. */
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
 * Write the snapshot's pages @p runs into @p writer, by several threads. Runs beside the
 * program, which goes on already.
 */
void write_pages(const Session& session, ImageWriter& writer, std::span<const cr_range> runs, const Progress& progress);

/** Sorted, and without overlaps. */
std::vector<cr_range> merged(std::vector<cr_range> ranges);

/** What to put back, and what is known of the target's pages. */
struct PageSource {
  const Image* file = nullptr;  ///< null: the session's own snapshot
  std::vector<cr_range> changed;  ///< tracked: all that may differ from the image, new mappings included; sorted
  std::array<std::uint8_t, CR_ID_SIZE> id{};
  bool tracked = false;         ///< leave alone what the module knows to be unchanged
};

/** Put the pages back into the mappings of @p image, which are in place, and track from here on. */
void restore_pages(Session& session, const Process& image, const PageSource& source, Report& report);

}  // namespace reprise
