// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The files behind shared objects, for what saves them and what restores them. */
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "image/state.pb.h"
#include "restore/file_content.h"
#include "restore/on_behalf.h"
#include "session/session.h"

namespace reprise {

/** The target's own open file for object number @p index, which lies under @p path if it has a name. */
UniqueFd open_object(Session& session, const OnBehalf& behalf, const Process& process, int index, const std::string& path);

/** Through which parts of the object number @p index the image's process could write; merged. */
std::vector<FileRange> written_ranges(const Process& image, int index);

}  // namespace reprise
