// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The program that has requested a restart, as the parent of the new processes. */
#include "api/helper/service.h"
#include "request/options.h"

namespace reprise::api {

class ProgramAsParent final : public ParentProcess {
 public:
  explicit ProgramAsParent(Service& service) : service_(service) {}
  pid_t pid() const override { return service_.owner(); }
  pid_t make(pid_t pid, const ClockOffsets* offsets, UniqueFd& mem) override;
  int wait() override;
  std::vector<UniqueFd> take(const std::vector<pid_t>& children) override;

 private:
  Service& service_;
};

}  // namespace reprise::api
