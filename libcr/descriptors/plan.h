// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Which descriptors stay, go, move and must be made: image against target, without touching either. */
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
  std::vector<Install> install;  ///< by number: has to be put there
  std::vector<Flag> cloexec;     ///< stays, but this flag differs
  std::vector<int> close;        ///< opened since
  std::map<std::uint32_t, int> alive;    ///< description -> a number of the target that still has it
  std::map<std::uint32_t, int> kept;     ///< of these: one whose number stays what it is
  std::vector<std::uint32_t> make;       ///< descriptions that are gone, by index
};

/**
 * @param live    the target's table now
 * @param match   serials mean something: same process as at the checkpoint
 * @param replace descriptions that must be made anew though they live
 */
DescriptorPlan plan_descriptors(const Process& image, std::span<const cr_fd> live, bool match,
                                const std::set<std::uint32_t>& replace = {});

/** The numbers under which the image's process knows a description; ascending. */
std::vector<int> numbers_of(const Process& image, std::uint32_t description);

/** An entry of a live set. Its `description` is that of the image, 0 when the image does not have it. */
struct LiveEntry {
  Epoll::Entry entry;
  int file;  ///< a number of the target under which its file is open, negative: none
};
struct EpollChanges {
  enum class How { add, modify, replace };
  struct Set {
    Epoll::Entry entry;
    How how;
  };
  std::vector<Set> set;
  std::vector<LiveEntry> drop;      ///< in the live set only
  std::vector<Epoll::Entry> stuck;  ///< the same, of files that the target does not have: nobody can take them out
  std::vector<Epoll::Entry> lost;   ///< of files that the process did not have, and not in the live set any more
};
/** @param live  the target's set now */
EpollChanges plan_epoll(const Epoll& image, const std::vector<LiveEntry>& live);
/** Has a one-shot entry been told of its event, so that it waits for none? */
bool has_fired(const Epoll::Entry& entry);

/** Are both the same set of locks? */
bool same_locks(std::vector<Lock> a, std::vector<Lock> b);

}  // namespace reprise
