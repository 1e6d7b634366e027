// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Write a session's snapshot to an image. */
#include <string>
#include <vector>

#include "image/reader.h"
#include "image/writer.h"
#include "request/state.h"
#include "restore/report.h"
#include "session/session.h"

namespace reprise {

/** The image that a checkpoint takes unchanged pages from. */
struct Inheritance {
  const Image* parent = nullptr;  ///< null: none, the snapshot holds all pages
  std::string refer_as;           ///< if not empty: the image refers to these pages, in the file of this name in its directory
};

/**
 * Write and publish the image. The target may run meanwhile. Fills in Report.bytes, bytes_compressed, pages_inherited and pages, which were
 * those of the snapshot. @p state gets what the image refers to. Throws Error.
 */
void write_image(Session& session, ImageWriter& writer, State& state, const Inheritance& from,
                 const Progress& progress, Report& report);

}  // namespace reprise
