// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file An image file as the source of a rollback. */
#include "image/reader.h"
#include "request/rollback.h"
#include "restore/options.h"

namespace reprise {

/** @return a source that reads from @p image, which must outlive it */
RollbackSource source_from(const Image& image);

/** Compare the content of shared memory with its checksums, as Image::verify() does for private pages. Throws Error. */
void verify_shared(const Image& image);

/**
 * Open an image. Throws Error.
 * @param path  file to open; with a descriptor the name in messages
 * @param fd    descriptor to read instead (borrowed), -1: open @p path
 */
Image open_image(const std::string& path, int fd);

}  // namespace reprise
