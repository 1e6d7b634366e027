// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The images on this node's disk: LOCAL/ID/wave-N/rank-R.img, and what is known of them. */
#include <cstdint>
#include <string>
#include <vector>

#include "job/messages.pb.h"

namespace reprise::crd {

/** Functions that wait for the disk; not for the event loop. @p directory is LOCAL/ID. */
namespace image_store {

/** What is there, of waves that are committed and of those that are not. */
std::vector<job::StoredImage> list(const std::string& directory);
/** Bytes of all images. */
std::uint64_t used_bytes(const std::string& directory);
/** Bytes that the file system would take. */
std::uint64_t free_bytes(const std::string& directory);
/** Make the place for a wave's images, empty. @return "", or why not. */
std::string begin_wave(const std::string& directory, std::uint32_t wave);
/** Let a wave count. @return "", or why not. */
std::string commit_wave(const std::string& directory, std::uint32_t wave);
/** Remove a wave that was not committed. */
void drop_part(const std::string& directory, std::uint32_t wave);
/** Remove all committed waves but those in @p keep. */
void prune(const std::string& directory, const std::vector<std::uint32_t>& keep);
void remove_all(const std::string& directory);

}  // namespace image_store
}  // namespace reprise::crd
