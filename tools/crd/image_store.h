// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file
 * The images on this node's disk: LOCAL/ID/wave-N/rank-R.img, and their manifests. Of incremental waves they are delta images.
 * Each directory has what its images need: wave-N/rank-R.base-M is another name (a hard link) of the image of wave M. So a
 * wave can be removed at any time, and a file lasts as long as a wave needs it.
 */
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "job/messages.pb.h"

namespace reprise::crd {

/** These functions block on the disk: do not call them from the event loop. @p directory is LOCAL/ID. */
namespace image_store {

/** @return all images there, of committed and uncommitted waves */
std::vector<job::StoredImage> list(const std::string& directory);
/** @return size of all images and copies of kept memory in bytes, each file counted once */
std::uint64_t used_bytes(const std::string& directory);
/** @return free bytes of the file system */
std::uint64_t free_bytes(const std::string& directory);
/** @return bytes of the file system that images may not take, so that others can still write */
std::uint64_t reserve_bytes(const std::string& directory);
/**
 * Whether so many bytes more can be stored. @param limit of all images, 0: none @param what needs them, for the message
 * @return "", or why not
 */
std::string room_for(const std::string& directory, std::uint64_t bytes, std::uint64_t limit, const std::string& what);
/** The image of a rank that has the unchanged pages of its next one. */
struct Parent {
  std::string path;          ///< to give to cr_checkpoint
  bool delta = false;        ///< it is in the directory of the next one: that can refer to it
  unsigned generations = 0;  ///< of the next one
};
/**
 * Find the parents of the images of a wave that has begun, and give them names in its directory.
 * @param newest  wave of each rank's image since which its changes are known
 * @param most    images in a row that may take pages over
 * @return by rank; none: the next image is to have all pages of the process itself
 */
std::map<std::uint32_t, Parent> parents(const std::string& directory, std::uint32_t wave,
                                        const std::map<std::uint32_t, std::uint32_t>& newest, unsigned most);
/** Whether @p message names the parent of an image of @p rank, or a file that has pages of it. */
bool is_about_parent(const std::string& message, const Parent& parent, std::uint32_t rank);
/** Remove the names that parents() gave but those that @p image, the image of @p rank, needs. */
void drop_parents(const std::string& image, std::uint32_t rank, const std::vector<std::string>& needed);
/** Create an empty directory for a wave's images. @return "", or the error */
std::string begin_wave(const std::string& directory, std::uint32_t wave);
/** Make a wave valid. @return "", or the error */
std::string commit_wave(const std::string& directory, std::uint32_t wave);
/** Make the directory of a committed wave, for copies, if it is not there. @return "", or the error */
std::string open_wave(const std::string& directory, std::uint32_t wave);
/** Remove a wave that was not committed. */
void drop_part(const std::string& directory, std::uint32_t wave);
/** Remove all committed waves except those in @p keep. */
void prune(const std::string& directory, const std::vector<std::uint32_t>& keep);
void remove_all(const std::string& directory);

}  // namespace image_store
}  // namespace reprise::crd
