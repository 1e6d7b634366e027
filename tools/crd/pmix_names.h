// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Maps PMIx's names of processes (namespace and rank) to the numbers that crd and crrun use. */
#include <pmix.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace reprise::crd {

/** May be used from any thread. */
class PmixNames {
 public:
  /** The ranks of @p nspace have the numbers from @p first on. Add the namespace of the job's own ranks first. */
  void add(const std::string& nspace, std::uint32_t first, std::uint32_t count);
  /** @return nothing when no process of that name is known */
  std::optional<std::uint32_t> number(const pmix_proc_t& proc) const;
  pmix_proc_t proc(std::uint32_t number) const;
  /**
   * @return the numbers of all named processes, each once, sorted; all of the job's own ranks when @p count is 0; nothing
   * when one is not known
   */
  std::optional<std::vector<std::uint32_t>> members(const pmix_proc_t* procs, std::size_t count) const;

 private:
  struct Range {
    std::uint32_t first, count;
  };
  mutable std::mutex mutex_;  ///< guards the fields below
  std::map<std::string, Range> ranges_;
  std::string own_;
};

}  // namespace reprise::crd
