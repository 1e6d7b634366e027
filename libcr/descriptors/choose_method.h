// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Decides how each open file description of an image is restored. Changes nothing. */
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "image/state.pb.h"
#include "restore/options.h"

namespace reprise {

enum class Way {
  unused,      ///< no descriptor refers to it
  keep,        ///< the target still has it
  make,        ///< made anew
  substitute,  ///< replaced by the caller's --fd
  terminal,    ///< replaced by the caller's own terminal or standard descriptor
  dead,        ///< restored as if its other end had been closed (--dead-sockets)
  refuse,
};

struct Decision {
  Way way = Way::unused;
  std::string why;          ///< the reason, for Way::refuse
  bool dead_helps = false;  ///< --dead-sockets would avoid the refusal
};

/**
 * @param alive  descriptions that the target still has (none in a restart) -> a descriptor of the target
 * @return one decision for each description
 */
std::vector<Decision> choose_method(const Process& image, const RestoreOptions& options, RestoreMode mode,
                             const std::map<std::uint32_t, int>& alive);

/** @return why an epoll set cannot be made again with all its entries, "" if it can */
std::string epoll_without(const Description& description);

/** "descriptor 5 (file /x)", "descriptors 0, 1, 2 (terminal /dev/pts/3)" */
std::string description_text(const Process& image, std::uint32_t index);

/** Collects refusals and throws them as one Error (refused) that lists them and the options that help. */
class Refusals {
 public:
  void add(std::string text, bool substitutable = true, bool dead_helps = false);
  bool empty() const { return lines_.empty(); }
  /** Throws Error (refused) if there are any. */
  void raise(const std::string& headline) const;
  /** Do not advise --fd, which a pause does not have. */
  void no_substitutes() { substitutable_ = false; }

 private:
  std::vector<std::string> lines_;
  bool substitutable_ = false, dead_helps_ = false;
};

}  // namespace reprise
