// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Copies of delta images as they are on the node that takes the waves: what has changed is copied, and the files with the rest
 * are here already, from copies of earlier waves. As on that node, each directory of a wave has all that its images need.
 */
#include <cstdint>
#include <functional>
#include <string>

#include "crd/images/manifest.h"
#include "crd/images/part_file.h"

namespace reprise::crd {

/** Reads a file from the other node: what rank-R.base-N is there, or with 0 the delta image itself. */
using ReadDelta = std::function<void(std::uint32_t base, PartFile& to)>;

/**
 * Copy the delta image that @p manifest describes to @p to, beside it its manifest and what it needs.
 * Throws what @p read throws; std::runtime_error: this is not the image, or it is damaged. Nothing is left then.
 */
void copy_delta(const std::string& to, const Manifest& manifest, const ReadDelta& read);

}  // namespace reprise::crd
