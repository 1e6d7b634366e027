// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Where an open file is. */
#include <string>

namespace reprise::image {

struct FilePlace {
  std::string directory, name;
};

/** @return where the open file @p fd is, without symbolic links; empty when no name leads to it any more */
FilePlace place_of(int fd);

}  // namespace reprise::image
