// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Changes one epoll set: by calls of the target if a file has the entry's number there, else by our own. */
#include <string>
#include <vector>

#include "descriptors/epoll_files.h"
#include "descriptors/kinds.h"
#include "session/remote.h"

namespace reprise {

/** For messages: "its entry for descriptor 5" */
std::string entry_text(const Epoll::Entry& entry);

/** Makes changes to one set, in batches. */
class EpollControls {
 public:
  /** @param number  descriptor of the set in the target */
  EpollControls(Restorer& restorer, Remote& remote, std::uint32_t index, int number)
      : restorer_(restorer), remote_(remote), index_(index), number_(number) {}

  /** Queue a change of an entry whose file has the entry's number in the target. @p operation: EPOLL_CTL_… */
  void at_number(int operation, const Epoll::Entry& entry, std::uint32_t events);
  /** Queue a change of an entry whose file, our descriptor @p file, has not that number in the target. */
  void elsewhere(int operation, const Epoll::Entry& entry, std::uint32_t events, UniqueFd file);
  /** Make the queued changes. Throws Error naming the entry that cannot be changed. */
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
