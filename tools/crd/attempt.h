// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Bringing one rank back from one image: made ready without harm to anybody, then let go, or dropped. */
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "crd/manifest.h"
#include "crd/node.h"

namespace reprise::crd {

/**
 * Where the images of the ranks are that @p message places here. In large jobs crrun names only those of ranks that are
 * restarted: the others' are where this daemon has put them.
 */
std::map<std::uint32_t, job::ImagePlace> images_here(const Node& node, const job::Recover& message);

/** An image, as far as its manifest tells. */
struct FoundImage {
  std::string path;
  std::string error;  ///< "": it is there, and is the one that is meant
  Manifest manifest;
};

/** Look at the image of @p place that is the @p which th of its paths, beside other work. */
void find_image(Node& node, const job::ImagePlace& place, int which, std::function<void(const FoundImage&)> then);

/**
 * Look at the first image of each of these, at once; @p then gets them all, by rank, without those of which no path is known.
 * Processes that are started after that do not take the ids of those that are in the images.
 */
void find_images(Node& node, const std::map<std::uint32_t, job::ImagePlace>& places,
                 std::function<void(const std::map<std::uint32_t, FoundImage>&)> then);

struct Attempt {
  std::string path;
  Manifest manifest;
  pid_t paused = -1;           ///< the process to be rolled back; -1: one is made anew
  std::unique_ptr<Rank> rank;  ///< one that is made anew: what it will be, with streams that are not read yet
  std::unique_ptr<Tool> tool;  ///< cr_pause or cr_restart, held

  /** It is what is wanted. @param now the rank, if it is here */
  bool fits(bool restart, const Rank* now) const { return restart ? rank != nullptr : now && now->alive() && now->pid == paused; }
};

/** Roll rank @p rank back, in place. Throws std::system_error. */
Attempt ready_pause(Node& node, const Rank& rank, const FoundImage& image);
/** Make rank @p number anew. Throws std::system_error. */
Attempt ready_restart(Node& node, std::uint32_t number, const FoundImage& image);

}  // namespace reprise::crd
