// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Which open file an entry of an epoll set is of: its number may mean another one by now, or none. */
#include <map>
#include <span>
#include <vector>

#include <sys/epoll.h>
#include <sys/types.h>

#include "base/unique_fd.h"
#include "cr.h"
#include "image/state.pb.h"

namespace reprise {

/** Finds the files of entries among the descriptors of one process. It must stand still meanwhile. */
class EpollFiles {
 public:
  static constexpr int elsewhere = -1;  ///< of no descriptor of the process
  static constexpr int unknown = -2;    ///< of one of several, or of none: the kernel does not tell

  /** @param table  must stay */
  EpollFiles(pid_t pid, std::span<const cr_fd> table);
  /**
   * @param set     the number of the set in the process
   * @param entries as the kernel lists them, see parse_epoll()
   * @return for each entry the lowest number under which its file is open, or one of the two above
   */
  std::vector<int> find(int set, const Epoll& entries) const;
  /** @return the lowest number of what is open as @p fd, elsewhere when nothing is */
  int description_at(int fd) const;

 private:
  struct Search;
  pid_t pid_;
  std::map<int, const cr_fd*> by_number_;
  std::multimap<std::uint64_t, const cr_fd*> by_inode_;  // each description once
};

/** A change of a set that needs a file at a number where the process has something else, or nothing. */
struct StrayControl {
  int operation;  ///< EPOLL_CTL_…
  UniqueFd file;  ///< of ours
  int number;     ///< under which the set knows it, or is to
  epoll_event event;
  int result = 0;  ///< 0 or errno
};

/** Make the changes in @p set, a descriptor of ours, in a table of descriptors that nobody else sees. */
void control_strays(int set, std::vector<StrayControl>& changes);

}  // namespace reprise
