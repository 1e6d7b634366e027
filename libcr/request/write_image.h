// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Write a session's snapshot to an image. */
#include "image/writer.h"
#include "request/state.h"
#include "restore/report.h"
#include "session/session.h"

namespace reprise {

/** Write and publish the image. The target may run meanwhile. Fills in Report.bytes. Throws Error. */
void write_image(Session& session, ImageWriter& writer, const State& state, const Progress& progress, Report& report);

}  // namespace reprise
