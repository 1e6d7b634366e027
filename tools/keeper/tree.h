// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file The states that a process has been saved in, as a tree: which was taken after which. */
#include <map>
#include <string>
#include <vector>

namespace reprise::snapshots {

/** Numbers grow by one and are never used again. 0 stands for what was before the first snapshot. */
class Tree {
 public:
  struct Node {
    std::string name;     ///< "": none
    unsigned parent = 0;  ///< the state that the process was in, or came from, when it was taken
  };

  /** Throw Error (usage) unless @p name may be the name of a new snapshot: unique, and no number. "" may be. */
  void check_name(const std::string& name) const;
  bool may_be_name(const std::string& name) const;
  /** Add a child of current(), which becomes current. @return its number */
  unsigned add(const std::string& name);
  /** @return the snapshot with this number or name. Throws Error (refused, ENOENT). */
  unsigned find(const std::string& which) const;
  /** The process has been rolled back to a snapshot. */
  void go_to(unsigned number) { current_ = number; }
  /** Remove one; its children become those of its parent. */
  void drop(unsigned number);

  unsigned current() const { return current_; }
  const std::map<unsigned, Node>& nodes() const { return nodes_; }

  /** A line of the drawn tree. */
  struct Line {
    std::string lead;  ///< the branches in front of it
    unsigned number;
  };
  /** All of them, each behind its parent, by number. */
  std::vector<Line> draw() const;

 private:
  void draw_children(unsigned parent, const std::string& lead, std::vector<Line>& lines) const;

  std::map<unsigned, Node> nodes_;
  unsigned last_ = 0, current_ = 0;
};

}  // namespace reprise::snapshots
