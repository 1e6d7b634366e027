// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The steps of a pause, for requests that do more than it. */
#include <functional>

#include "image/reader.h"
#include "request/options.h"
#include "restore/report.h"
#include "session/session.h"

namespace reprise {

/** Open the image, and refuse one that options.pid cannot be rolled back to. Throws Error. */
Image open_for_pause(const PauseOptions& options, Report& report);

/** Nobody but root has written what is asked of root. */
bool trusts(const Image& image);

/**
 * Roll the process that @p session is bound to back to @p image. As pause().
 * @param verified  the whole image has been verified
 * @param restored  called when all is restored and the process still stands still. An exception ends the process
 */
void pause_to(Session& session, const Image& image, bool verified, const PauseOptions& options, Report& report,
              const std::function<void()>& restored = {});

}  // namespace reprise
