// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The template of several copies of a process: it has the private memory of the image, and they share its pages. */
#include <utility>
#include <vector>

#include <sys/types.h>

#include "image/reader.h"
#include "request/child.h"
#include "request/namespaces.h"
#include "request/options.h"
#include "restore/report.h"

namespace reprise {

/** Children of ours or of another process, which are ended unless they are released, and reaped if they are ours. */
class Children {
 public:
  Children(std::vector<pid_t> pids, ParentProcess* parent) : pids_(std::move(pids)), parent_(parent) {}
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  Children(Children&& other) noexcept
      : pids_(std::exchange(other.pids_, {})), parent_(other.parent_), memory_(std::move(other.memory_)) {}
  const std::vector<pid_t>& pids() const { return pids_; }
  /** Tell the other process of them. Throws Error. */
  void tell_parent() {
    if (parent_) memory_ = parent_->take(pids_);
  }
  /** Bind a session to number @p index, once. Throws Error. */
  Session attach(std::size_t index) {
    return parent_ ? Session::attach_mem(std::move(memory_[index]), pids_[index]) : Session::attach(pids_[index]);
  }
  void release() { pids_.clear(); }

 private:
  std::vector<pid_t> pids_;
  ParentProcess* parent_;                // nullptr: they are ours
  std::vector<UniqueFd> memory_;  // if they are not: /proc/PID/mem of each
};

/**
 * A blank process that gets the image's private memory, and then runs a few instructions of ours: it makes the copies by
 * clone3() without CLONE_VM, so that the kernel shares its pages with them copy-on-write, and ends. The copies are
 * children of its parent and wait, with the template's mappings and nothing else of the image.
 */
class Template {
 public:
  /**
   * Make the process and restore its memory.
   * @param process  the image's state
   * @param options  new ids must be asked for; all references must outlive this
   * Throws Error.
   */
  Template(const Process& process, const Image& image, const RestartOptions& options, Report& report);

  /**
   * Make the copies; the template has ended then. On failure there are none.
   * @param namespaces  one for each, in which it has the image's pid; nullptr: new pids, in the template's namespace
   */
  Children copy(unsigned number, const PidNamespaces* namespaces);

  /** The copies are restored. Until then the thread that is their parent must not end. */
  void release(const std::vector<pid_t>& copies) { child_.release(copies); }

 private:
  const Process& process_;
  ParentProcess* parent_;
  BlankChild child_;
  Session session_;
};

}  // namespace reprise
