// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Compares the descriptors of image and target: which to keep, close, move and make. Changes nothing. */
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "cr.h"
#include "image/state.pb.h"

namespace reprise {

struct DescriptorPlan {
  struct Install {
    int fd;
    std::uint32_t description;
    bool cloexec;
  };
  struct Flag {
    int fd;
    std::uint32_t description;
    bool cloexec;
  };
  std::vector<Install> install;  ///< descriptors to install, sorted by number
  std::vector<Flag> cloexec;     ///< descriptors that stay, but with another FD_CLOEXEC
  std::vector<int> close;        ///< descriptors opened since the checkpoint
  std::map<std::uint32_t, int> alive;    ///< description -> a descriptor of the target that refers to it
  std::map<std::uint32_t, int> kept;     ///< the subset of alive that needs no new number -> that descriptor
  std::vector<std::uint32_t> make;       ///< indexes of descriptions that the target no longer has
};

/**
 * @param live    the target's current descriptor table
 * @param match   serials are valid: the target is the process of the checkpoint
 * @param replace descriptions to make anew although the target has them
 * @param keep_pipes  RestoreOptions::keep_pipes
 */
DescriptorPlan plan_descriptors(const Process& image, std::span<const cr_fd> live, bool match,
                                const std::set<std::uint32_t>& replace = {}, const std::set<int>& keep_pipes = {});

/** @return the descriptors of the image that refer to a description; ascending */
std::vector<int> numbers_of(const Process& image, std::uint32_t description);

/** An entry of a live epoll set. Its `description` is 1 + the image's index, 0 if the image does not have it. */
struct LiveEntry {
  Epoll::Entry entry;
  int file;  ///< a descriptor of the target for its file; negative: none
};
struct EpollChanges {
  enum class How { add, modify, replace };
  struct Set {
    Epoll::Entry entry;
    How how;
  };
  std::vector<Set> set;
  std::vector<LiveEntry> drop;      ///< entries in the live set only
  std::vector<Epoll::Entry> stuck;  ///< the same, but the target does not have their file open: not removable
  std::vector<Epoll::Entry> lost;   ///< image entries of files that the process had not open, missing in the live set
};
/** @param live  the entries of the target's set now */
EpollChanges plan_epoll(const Epoll& image, const std::vector<LiveEntry>& live);
/** Has a one-shot entry reported its event, so that it is disarmed? */
bool has_fired(const Epoll::Entry& entry);

/** Do both contain the same locks, in any order? */
bool same_locks(std::vector<Lock> a, std::vector<Lock> b);

}  // namespace reprise
