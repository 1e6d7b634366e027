// SPDX-License-Identifier: LGPL-2.1-or-later
// Which ranks keep redundant data for each other. Pure logic.
#pragma once

#include <string>
#include <vector>

namespace fnx {

/** FENIX_DATA_POLICY_IN_MEMORY_RAID. */
struct Policy {
  int mode = 1;        // 1: partners, each has a copy of the other's data; 5: parity
  int separation = 0;  // distance between ranks of a cohort; 0: the ranks are spread over the hosts
  int size = 2;        // of a cohort
  bool operator==(const Policy &) const = default;
};

/** @param values mode, separation, and for mode 5 the size; nullptr for partners on different hosts. @throw Error(group_create) */
Policy policy_of(const int *values, int ranks);

/**
 * Cohorts of ranks 0 to `ranks` - 1. Each outlives the loss of one of its ranks. They have the policy's size where the number of
 * ranks allows it, else at least 2 and at most one more; a single rank is alone.
 */
std::vector<std::vector<int>> form_cohorts(int ranks, const Policy &policy);

/** The same, so that the ranks of a cohort are on different hosts if no host has too many. */
std::vector<std::vector<int>> form_cohorts(const std::vector<std::string> &host_of_rank, const Policy &policy);

}  // namespace fnx
