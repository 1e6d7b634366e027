// SPDX-License-Identifier: GPL-2.0-only
#include "roster/roster.h"

#include <gmock/gmock.h>

namespace fnx {
namespace {

using testing::ElementsAre, testing::IsEmpty;

TEST(Roster, NobodyIsLost) {
  const std::vector<Identity> living{{0, 0}, {1, 1}, {kSpare, 2}};
  const Plan plan = arrange(living, {2, {2}});
  EXPECT_THAT(plan.slots, ElementsAre(0, 1, kSpare));
  EXPECT_EQ(plan.size, 2);
  EXPECT_THAT(plan.lost, IsEmpty());
  EXPECT_THAT(plan.spares, ElementsAre(2));
  EXPECT_FALSE(plan.depleted);
}

TEST(Roster, SurvivorsKeepTheirRanksAndSparesFillTheOthers) {
  const std::vector<Identity> living{{0, 0}, {3, 3}, {kSpare, 5}, {kSpare, 4}, {kSpare, 6}};
  const Plan plan = arrange(living, {4, {4, 5, 6}});
  EXPECT_THAT(plan.slots, ElementsAre(0, 3, 2, 1, kSpare)) << "the lowest rank gets the spare with the lowest number";
  EXPECT_THAT(plan.lost, ElementsAre(1, 2));
  EXPECT_THAT(plan.spares, ElementsAre(6));
  EXPECT_EQ(plan.past().size, 4);
}

TEST(Roster, LostSparesAreReportedByTheirNumbers) {
  const Plan plan = arrange({{0, 0}, {kSpare, 3}}, {2, {2, 3}});
  EXPECT_THAT(plan.lost, ElementsAre(1, 2));
  EXPECT_THAT(plan.slots, ElementsAre(0, 1));
  EXPECT_THAT(plan.spares, IsEmpty());
}

TEST(Roster, WithoutEnoughSparesTheRanksAreClosedUp) {
  const std::vector<Identity> living{{1, 1}, {3, 3}, {4, 4}, {kSpare, 5}};
  EXPECT_EQ(missing(living, {5, {5}}), 1);
  const Plan plan = arrange(living, {5, {5}});
  EXPECT_THAT(plan.lost, ElementsAre(0, 2));
  EXPECT_THAT(plan.slots, ElementsAre(1, 2, 3, 0)) << "the spare is rank 0, and rank 2 is closed up";
  EXPECT_EQ(plan.size, 4);
  EXPECT_TRUE(plan.depleted);
}

TEST(Roster, NewProcessesComeAfterSpares) {
  const std::vector<Identity> living{{1, 1}, {kNew, -1}, {kSpare, 4}};
  EXPECT_EQ(missing(living, {3, {4}}), 0);
  EXPECT_THAT(arrange(living, {3, {4}}).slots, ElementsAre(1, 2, 0));
}

TEST(Roster, ANewProcessTooManyIsASpareWithoutANumber) {
  const Plan plan = arrange({{0, 0}, {kNew, -1}, {kNew, -1}}, {2, {}});
  EXPECT_THAT(plan.slots, ElementsAre(0, 1, kSpare));
  EXPECT_THAT(plan.spares, IsEmpty());
}

}  // namespace
}  // namespace fnx
