// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Inside of validate.h: one function per area, one way to refuse. */
#include <cstdint>
#include <string>

#include "base/error.h"
#include "image/format.h"
#include "image/state.pb.h"

namespace reprise::image {

/** Knows the image's name and how to refuse it. */
class Checker {
 public:
  explicit Checker(const std::string& name) : name_(name) {}

  [[noreturn]] void bad(const std::string& what) const;
  /** @p what is only built when it is needed: a callable or a string */
  template <class What>
  void need(bool good, const What& what) const {
    if (good) return;
    if constexpr (std::is_invocable_v<What>)
      bad(what());
    else
      bad(what);
  }

  void address(std::uint64_t value, const std::string& what) const;
  void file(const File& file, const std::string& what) const;
  void pending(const PendingSignal& pending, const std::string& what) const;

 private:
  const std::string& name_;
};

void validate_threads(const Checker& check, const Process& process);
void validate_memory(const Checker& check, const Process& process, std::uint64_t blob_size);
void validate_descriptors(const Checker& check, const Process& process);
void validate_signals_timers(const Checker& check, const Process& process);
void validate_environment(const Checker& check, const Process& process);

}  // namespace reprise::image
