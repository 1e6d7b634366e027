// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Write a session's snapshot to an image. */
#include <vector>

#include "image/reader.h"
#include "image/writer.h"
#include "request/state.h"
#include "restore/report.h"
#include "session/session.h"

namespace reprise {

/** What an image takes from the image before it. */
struct Inherited {
  const Image* parent = nullptr;  ///< null: nothing
  std::vector<cr_range> pages;    ///< of the parent; sorted, and none of them in the snapshot
};

/** Write and publish the image. The target may run meanwhile. Fills in Report.bytes. Throws Error. */
void write_image(Session& session, ImageWriter& writer, const State& state, const Inherited& inherited,
                 const Progress& progress, Report& report);

}  // namespace reprise
