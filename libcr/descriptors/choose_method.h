// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file What becomes of each open file description of an image, before anything is done. */
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
  substitute,  ///< the caller's --fd takes its place
  terminal,    ///< the caller's own terminal or standard descriptor takes its place
  dead,        ///< given back as one whose other side is gone
  refuse,
};

struct Decision {
  Way way = Way::unused;
  std::string why;          ///< of a refusal: what it is and why not
  bool dead_helps = false;  ///< --dead-sockets would help
};

/**
 * One decision for each description.
 * @param alive  descriptions that the target still has (none in a restart)
 */
std::vector<Decision> choose_method(const Process& image, const RestoreOptions& options, RestoreMode mode,
                             const std::map<std::uint32_t, int>& alive);

/** Why an epoll set cannot be made again with all its entries, "" if it can. */
std::string epoll_without(const Description& description);

/** "descriptor 5 (file /x)", "descriptors 0, 1, 2 (terminal /dev/pts/3)" */
std::string description_text(const Process& image, std::uint32_t index);

/** Collects refusals and throws them as one Error (refused) that names all and the ways out. */
class Refusals {
 public:
  void add(std::string text, bool substitutable = true, bool dead_helps = false);
  bool empty() const { return lines_.empty(); }
  /** Throws when there are any. */
  void raise(const std::string& headline) const;
  /** In a pause there are no substitutes. */
  void no_substitutes() { substitutable_ = false; }

 private:
  std::vector<std::string> lines_;
  bool substitutable_ = false, dead_helps_ = false;
};

}  // namespace reprise
