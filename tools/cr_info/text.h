// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The text output. */
#include "details.h"

namespace reprise {

/** The sections to print. */
struct Sections {
  bool summary = false, process = false, threads = false, mappings = false, descriptors = false;
  bool any() const { return summary || process || threads || mappings || descriptors; }
};

void print_text(const Image& image, const Sections& sections, const Verification& verification);

}  // namespace reprise
