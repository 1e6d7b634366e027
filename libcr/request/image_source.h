// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file An image file as the source of a rollback. */
#include "image/reader.h"
#include "request/rollback.h"
#include "restore/options.h"

namespace reprise {

/** @param process  the image's state, a copy: see Rollback::image */
Rollback rollback_from(Session& session, const Image& image, Process& process, const RestoreOptions& options,
                       RestoreMode mode);

/** Compare the content of shared memory with its checksums, as Image::verify does for private pages. */
void verify_shared(const Image& image);

/** @param fd  borrowed, -1: the file @p path is opened */
Image open_image(const std::string& path, int fd);

}  // namespace reprise
