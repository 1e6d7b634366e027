// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The output for people. */
#include "details.h"

namespace reprise {

/** Which parts are wanted. */
struct Sections {
  bool summary = false, process = false, threads = false, mappings = false, descriptors = false;
  bool any() const { return summary || process || threads || mappings || descriptors; }
};

void print_text(const Image& image, const Sections& sections, const Verification& verification);

}  // namespace reprise
