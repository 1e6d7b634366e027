// SPDX-License-Identifier: GPL-2.0-only
#include "tree.h"

#include <cerrno>

#include "base/error.h"

namespace reprise::snapshots {
namespace {

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

void Tree::check_name(const std::string& name) const {
  if (name.empty()) return;
  if (is_number(name)) throw Error(Failure::usage, EINVAL, "a snapshot's name cannot be a number: " + name);
  if (name.front() == '-' || name.find_first_of("\n\t") != std::string::npos)
    throw Error(Failure::usage, EINVAL, "a snapshot's name neither begins with - nor contains a new line: " + name);
  for (const auto& [number, node] : nodes_)
    if (node.name == name)
      throw Error(Failure::usage, EEXIST,
                  "snapshot " + std::to_string(number) + " has the name " + name + " already: drop it, or choose another name");
}

bool Tree::may_be_name(const std::string& name) const {
  try {
    check_name(name);
    return true;
  } catch (const Error&) {
    return false;
  }
}

unsigned Tree::add(const std::string& name) {
  nodes_[++last_] = {name, current_};
  return current_ = last_;
}

unsigned Tree::find(const std::string& which) const {
  for (const auto& [number, node] : nodes_)
    if ((!which.empty() && node.name == which) || std::to_string(number) == which) return number;
  throw Error(Failure::refused, ENOENT, "there is no snapshot " + which + ": cr_snapshot list tells which there are");
}

void Tree::drop(unsigned number) {
  const auto found = nodes_.find(number);
  if (found == nodes_.end()) return;
  const unsigned parent = found->second.parent;
  nodes_.erase(found);
  for (auto& [child, node] : nodes_)
    if (node.parent == number) node.parent = parent;
  if (current_ == number) current_ = parent;
}

void Tree::draw_children(unsigned parent, const std::string& lead, std::vector<Line>& lines) const {
  std::vector<unsigned> children;
  for (const auto& [number, node] : nodes_)
    if (node.parent == parent) children.push_back(number);
  for (const unsigned child : children) {
    const bool last = child == children.back();
    // A single child continues its parent's line: only where states part does the tree become wider.
    if (children.size() == 1) {
      lines.push_back({lead, child});
      draw_children(child, lead, lines);
      continue;
    }
    lines.push_back({lead + (last ? "└─ " : "├─ "), child});
    draw_children(child, lead + (last ? "   " : "│  "), lines);
  }
}

std::vector<Tree::Line> Tree::draw() const {
  std::vector<Line> lines;
  draw_children(0, "", lines);
  return lines;
}

}  // namespace reprise::snapshots
