// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file An image file as the source of a rollback. */
#include "image/reader.h"
#include "request/rollback.h"
#include "restore/options.h"

namespace reprise {

/** @param image  must outlive the result */
RollbackSource source_from(const Image& image);

/** Compare the content of shared memory with its checksums, as Image::verify does for private pages. */
void verify_shared(const Image& image);

/** @param fd  borrowed, -1: the file @p path is opened */
Image open_image(const std::string& path, int fd);

}  // namespace reprise
