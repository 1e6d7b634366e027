// SPDX-License-Identifier: LGPL-2.1-or-later
#include "roster.h"

#include <algorithm>

namespace fnx {
namespace {

std::vector<int> lost_ranks(const std::vector<Identity> &living, int size) {
  std::vector<bool> there(size, false);
  for (const Identity &one : living)
    if (one.slot >= 0) there[one.slot] = true;
  std::vector<int> lost;
  for (int slot = 0; slot < size; ++slot)
    if (!there[slot]) lost.push_back(slot);
  return lost;
}

/** Positions in `living` of those that can take a rank, in the order in which they do. */
std::vector<int> reserve(const std::vector<Identity> &living) {
  std::vector<int> spares, newcomers;
  for (int i = 0; i < static_cast<int>(living.size()); ++i) {
    if (living[i].slot == kSpare) spares.push_back(i);
    if (living[i].slot == kNew) newcomers.push_back(i);
  }
  std::stable_sort(spares.begin(), spares.end(), [&](int a, int b) { return living[a].number < living[b].number; });
  spares.insert(spares.end(), newcomers.begin(), newcomers.end());
  return spares;
}

void close_gaps(std::vector<int> &slots) {
  std::vector<int> taken;
  for (int slot : slots)
    if (slot >= 0) taken.push_back(slot);
  std::sort(taken.begin(), taken.end());
  for (int &slot : slots)
    if (slot >= 0) slot = static_cast<int>(std::lower_bound(taken.begin(), taken.end(), slot) - taken.begin());
}

}  // namespace

int missing(const std::vector<Identity> &living, const Past &past) {
  const auto lost = lost_ranks(living, past.size).size(), there = reserve(living).size();
  return lost > there ? static_cast<int>(lost - there) : 0;
}

Plan arrange(const std::vector<Identity> &living, const Past &past) {
  Plan plan;
  plan.lost = lost_ranks(living, past.size);
  const std::vector<int> substitutes = reserve(living);
  const std::size_t filled = std::min(plan.lost.size(), substitutes.size());
  for (const Identity &one : living) plan.slots.push_back(one.slot >= 0 ? one.slot : kSpare);
  for (std::size_t i = 0; i < filled; ++i) plan.slots[substitutes[i]] = plan.lost[i];
  for (std::size_t i = filled; i < substitutes.size(); ++i)
    if (living[substitutes[i]].number >= 0) plan.spares.push_back(living[substitutes[i]].number);
  plan.depleted = filled < plan.lost.size();
  if (plan.depleted) close_gaps(plan.slots);
  plan.size = past.size - static_cast<int>(plan.lost.size() - filled);
  for (int number : past.spares)
    if (std::none_of(living.begin(), living.end(), [&](const Identity &one) { return one.number == number; }))
      plan.lost.push_back(number);
  return plan;
}

Past Plan::past() const { return {size, spares}; }

}  // namespace fnx
