// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Finds the open file of an epoll entry: the entry's number may refer to another file by now, or to none. */
#include <map>
#include <span>
#include <vector>

#include <sys/epoll.h>
#include <sys/types.h>

#include "base/unique_fd.h"
#include "cr.h"
#include "image/state.pb.h"

namespace reprise {

/** Finds the files of entries among the descriptors of one process, which must be frozen. */
class EpollFiles {
 public:
  static constexpr int elsewhere = -1;  ///< no descriptor of the process refers to its file
  static constexpr int unknown = -2;    ///< kcmp(2) is not available and the entry is ambiguous

  /** @param table  must outlive this object */
  EpollFiles(pid_t pid, std::span<const cr_fd> table);
  /**
   * @param set     the descriptor of the set in the process
   * @param entries as the kernel lists them, see parse_epoll()
   * @return for each entry the lowest descriptor of its file, elsewhere or unknown
   */
  std::vector<int> find(int set, const Epoll& entries) const;
  /** @return the lowest descriptor of the same description as @p fd; elsewhere if @p fd is not open */
  int description_at(int fd) const;

 private:
  struct Search;
  pid_t pid_;
  std::map<int, const cr_fd*> by_number_;
  std::multimap<std::uint64_t, const cr_fd*> by_inode_;  // each description once
};

/** A change of a set for a number at which the process has another file, or none. */
struct StrayControl {
  int operation;  ///< EPOLL_CTL_…
  UniqueFd file;  ///< our descriptor for the file
  int number;     ///< the descriptor number of the entry
  epoll_event event;
  int result = 0;  ///< 0 or errno
};

/** Make the changes in @p set, a descriptor of ours, from a private copy of our descriptor table. */
void control_strays(int set, std::vector<StrayControl>& changes);

}  // namespace reprise
