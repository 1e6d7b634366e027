// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Opening the files behind shared objects, to save or to restore them. */
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "image/state.pb.h"
#include "restore/file_content.h"
#include "restore/on_behalf.h"
#include "session/session.h"

namespace reprise {

/**
 * @return the file of shared object @p index that the target has mapped or open; none if it has neither
 * @param path  the path of a file that has a name
 */
UniqueFd open_object(Session& session, const OnBehalf& behalf, const Process& process, int index, const std::string& path);

/** @return the parts of shared object @p index that the image's process had mapped shared and writable; merged */
std::vector<FileRange> written_ranges(const Process& image, int index);

}  // namespace reprise
