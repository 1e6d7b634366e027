// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Internal to validate.h: one function per area of the state. */
#include <cstdint>
#include <string>

#include "base/error.h"
#include "image/format.h"
#include "image/state.pb.h"

namespace reprise::image {

/** Refuses an image with an Error (permanent, EBADMSG) that names it. */
class Checker {
 public:
  explicit Checker(const std::string& name) : name_(name) {}

  [[noreturn]] void bad(const std::string& what) const;
  /** Throw Error unless @p good. @param what the message: a string, or a callable that builds it only on failure */
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
void validate_bases(const Checker& check, const std::string& name, const Process& process);

}  // namespace reprise::image
