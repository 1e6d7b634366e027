// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file PMIx's names of processes (namespace and rank), and the numbers by which crd and crrun know them. */
#include <pmix.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace reprise::crd {

/** From any thread. */
class PmixNames {
 public:
  /** Ranks of @p nspace have the numbers from @p first on. The first one that is added is that of the job's own ranks. */
  void add(const std::string& nspace, std::uint32_t first, std::uint32_t count);
  /** None: nobody of that name is known. */
  std::optional<std::uint32_t> number(const pmix_proc_t& proc) const;
  pmix_proc_t proc(std::uint32_t number) const;
  /** Numbers of all that are named, each once, in order; empty: all of the job's own ranks. None: one is not known. */
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
