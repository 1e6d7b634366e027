// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file An attempt to bring one rank back from one image: prepared without effect on any process, then started or
 * dropped.
 */
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "crd/images/manifest.h"
#include "crd/node.h"

namespace reprise::crd {

/**
 * @return the places of the images of the ranks that @p message places here. In large jobs crrun names only the images of
 * ranks that are restarted; the other images are where this daemon has put them
 */
std::map<std::uint32_t, job::ImagePlace> images_here(const Node& node, const job::Recover& message);

/** An image, and what its manifest says about it. */
struct FoundImage {
  std::string path;
  std::string error;  ///< "": the image exists and is the right one
  Manifest manifest;
};

/** Look at the image of @p place at its path number @p which, without blocking the loop. */
void find_image(Node& node, const job::ImagePlace& place, int which, std::function<void(const FoundImage&)> then);

/**
 * Look at the first image of each place, all at once. @p then gets the results by rank; places without a path are left
 * out. Processes that are started afterwards do not take the process ids in the images.
 */
void find_images(Node& node, const std::map<std::uint32_t, job::ImagePlace>& places,
                 std::function<void(const std::map<std::uint32_t, FoundImage>&)> then);

struct Attempt {
  std::string path;
  Manifest manifest;
  pid_t paused = -1;           ///< the process to roll back; -1: a new process is made
  std::unique_ptr<Rank> rank;  ///< for a new process: the rank to be, with streams that are not read yet
  std::unique_ptr<Tool> tool;  ///< cr_pause or cr_restart, held

  /** Whether the attempt is the one that is needed. @param now the rank, if it is here */
  bool fits(bool restart, const Rank* now) const { return restart ? rank != nullptr : now && now->alive() && now->pid == paused; }
};

/** Prepare to roll @p rank back in place. Throws std::system_error. */
Attempt ready_pause(Node& node, const Rank& rank, const FoundImage& image);
/** Prepare to restart rank @p number as a new process. Throws std::system_error. */
Attempt ready_restart(Node& node, std::uint32_t number, const FoundImage& image);

}  // namespace reprise::crd
