// SPDX-License-Identifier: LGPL-2.1-or-later
#include "cohort.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace fnx {
namespace {

/** `ranks` in `count` cohorts, each with ranks as far from each other as possible. */
void spread(const std::vector<int> &ranks, std::size_t count, std::vector<std::vector<int>> &cohorts) {
  for (std::size_t i = 0; i < count; ++i) {
    cohorts.emplace_back();
    for (std::size_t at = i; at < ranks.size(); at += count) cohorts.back().push_back(ranks[at]);
  }
}

}  // namespace

Policy policy_of(const int *values, int ranks) {
  if (!values) return {};
  Policy policy{values[0], values[1], 2};
  if (policy.mode == 5) policy.size = values[2];
  if (policy.mode != 1 && policy.mode != 5)
    throw Error(Code::group_create, "the policy's mode is " + std::to_string(policy.mode) + ": use 1 (partners) or 5 (parity)");
  if (policy.separation < 1 || policy.separation > std::max(1, ranks - 1))
    throw Error(Code::group_create, "the policy's separation is " + std::to_string(policy.separation) + " for " +
                                        std::to_string(ranks) + " ranks: it is the distance between ranks of a cohort");
  if (policy.mode == 5 && policy.size < 3)
    throw Error(Code::group_create,
                "a parity group of " + std::to_string(policy.size) + ": use at least 3; 2 ranks are partners, mode 1");
  return policy;
}

std::vector<std::vector<int>> form_cohorts(int ranks, const Policy &policy) {
  const int separation = policy.separation ? policy.separation : std::max(1, ranks / 2), stretch = separation * policy.size;
  std::vector<std::vector<int>> cohorts;
  int done = 0;
  for (; ranks - done >= stretch; done += stretch) {
    std::vector<int> part(stretch);
    std::iota(part.begin(), part.end(), done);
    spread(part, separation, cohorts);
  }
  std::vector<int> rest(ranks - done);
  std::iota(rest.begin(), rest.end(), done);
  const int left = static_cast<int>(rest.size());
  if (left == 1 && !cohorts.empty())
    cohorts.back().push_back(rest[0]);
  else if (left > 0)
    spread(rest, std::max(1, policy.size == 2 ? left / 2 : (left + policy.size - 1) / policy.size), cohorts);
  return cohorts;
}

std::vector<std::vector<int>> form_cohorts(const std::vector<std::string> &host_of_rank, const Policy &policy) {
  std::vector<int> order(host_of_rank.size());
  std::iota(order.begin(), order.end(), 0);
  // Half of all apart in the order of hosts: on the same host only if that has more than half of the ranks.
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return host_of_rank[a] < host_of_rank[b]; });
  std::vector<std::vector<int>> cohorts = form_cohorts(static_cast<int>(order.size()), policy);
  for (std::vector<int> &cohort : cohorts)
    for (int &rank : cohort) rank = order[rank];
  return cohorts;
}

}  // namespace fnx
