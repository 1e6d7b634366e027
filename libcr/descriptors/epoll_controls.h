// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Changes of one epoll set: by calls of the target where a file has its number there, else by us. */
#include <string>
#include <vector>

#include "descriptors/epoll_files.h"
#include "descriptors/kinds.h"
#include "session/remote.h"

namespace reprise {

/** For messages: "its entry for descriptor 5" */
std::string entry_text(const Epoll::Entry& entry);

/** Changes of one set, in batches. */
class EpollControls {
 public:
  /** @param number  of the set in the target */
  EpollControls(Restorer& restorer, Remote& remote, std::uint32_t index, int number)
      : restorer_(restorer), remote_(remote), index_(index), number_(number) {}

  /** With the file at its number in the target. @p operation: EPOLL_CTL_… */
  void at_number(int operation, const Epoll::Entry& entry, std::uint32_t events);
  /** With @p file, of ours, at its number in a table of ours. */
  void elsewhere(int operation, const Epoll::Entry& entry, std::uint32_t events, UniqueFd file);
  /** Make them. Throws Error naming the entry that cannot be changed. */
  void flush();

 private:
  struct Queued {
    int operation;
    Epoll::Entry entry;
    std::uint32_t events;
  };

  std::vector<Queued> make_queued(bool last);
  void flush_strays();
  void done(int operation, const Epoll::Entry& entry, int code);

  Restorer& restorer_;
  Remote& remote_;
  std::uint32_t index_;
  int number_;
  std::vector<Queued> queued_;
  std::vector<StrayControl> strays_;
  std::vector<Epoll::Entry> stray_entries_;
};

}  // namespace reprise
