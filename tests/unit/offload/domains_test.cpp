// SPDX-License-Identifier: GPL-2.0-only
#include "graph/domains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace croff {
namespace {

using testing::ElementsAre;

TEST(Domains, TheSameKeyInTheSameGroupIsTheSameDomain) {
  Domains domains;
  domains.join(1, implicit_key(0), 1);
  domains.join(1, implicit_key(0), 2);
  domains.join(2, implicit_key(0), 3);
  domains.join(1, implicit_key(1), 4);
  EXPECT_TRUE(domains.same(1, 2));
  EXPECT_FALSE(domains.same(1, 3)) << "another group";
  EXPECT_FALSE(domains.same(1, 4)) << "another order";
}

TEST(Domains, WaitingInOneDirectionMergesNothing) {
  Domains domains;
  for (TaskId task : {1, 2, 3}) domains.join(1, implicit_key(task), task);
  EXPECT_EQ(domains.wait_for(2, 1), 0);
  EXPECT_EQ(domains.wait_for(3, 2), 0);
  EXPECT_EQ(domains.wait_for(3, 1), 0);
  EXPECT_EQ(domains.all().size(), 3u);
}

TEST(Domains, ACircleBecomesOneDomain) {
  // Explicit domains 1 and 2 on two boosters, submitted in opposite orders.
  Domains domains;
  domains.join(1, explicit_key(1), 1);
  domains.join(1, explicit_key(2), 2);
  domains.join(1, explicit_key(2), 3);
  EXPECT_EQ(domains.wait_for(3, 1), 0);
  domains.join(1, explicit_key(1), 4);
  EXPECT_EQ(domains.wait_for(4, 2), 1);
  EXPECT_THAT(domains.at(domains.of(1)).members, ElementsAre(1, 2, 3, 4));
  domains.join(1, explicit_key(2), 5);
  EXPECT_TRUE(domains.same(5, 1)) << "later members of either join the whole";
}

TEST(Domains, ACircleOverOthersTakesThemIn) {
  Domains domains;
  for (TaskId task : {1, 2, 3, 4, 5}) domains.join(1, explicit_key(static_cast<int>(task)), task);
  domains.wait_for(2, 1);
  domains.wait_for(3, 2);
  domains.wait_for(4, 1);  // not between 1 and 3
  domains.wait_for(5, 3);
  domains.join(1, explicit_key(1), 6);
  EXPECT_EQ(domains.wait_for(6, 3), 2);
  EXPECT_TRUE(domains.same(1, 2) && domains.same(2, 3));
  EXPECT_FALSE(domains.same(1, 4));
  EXPECT_FALSE(domains.same(1, 5));
  // The edges are those of the whole: 1 needs nobody, 4 and 5 need it.
  EXPECT_TRUE(domains.at(domains.of(1)).needs.empty());
  EXPECT_THAT(domains.at(domains.of(4)).needs, ElementsAre(domains.of(1)));
  EXPECT_THAT(domains.at(domains.of(5)).needs, ElementsAre(domains.of(1)));
  domains.dissolve(domains.of(1));
  EXPECT_TRUE(domains.at(domains.of(4)).needs.empty());
}

TEST(Domains, AMergedDomainIsClosedWhenAllItsPartsAre) {
  Domains domains;
  domains.join(1, implicit_key(0), 1);
  domains.join(1, explicit_key(0), 2);
  domains.wait_for(2, 1);
  domains.join(1, implicit_key(0), 3);
  domains.wait_for(3, 2);
  ASSERT_TRUE(domains.same(1, 2));
  domains.close(1, 0, 1);
  EXPECT_FALSE(domains.at(domains.of(1)).closed()) << "the explicit one ends at taskwait only";
  domains.close_all();
  EXPECT_TRUE(domains.at(domains.of(1)).closed());
}

TEST(Domains, AgreementIsByKey) {
  Domains domains;
  domains.join(1, implicit_key(3), 1);
  domains.join(1, implicit_key(4), 2);
  domains.agree_below(1, implicit_key(4));
  EXPECT_TRUE(domains.at(domains.of(1)).parts[0].agreed);
  EXPECT_FALSE(domains.at(domains.of(2)).parts[0].agreed);
}

TEST(Domains, TheLastMemberThatLeavesEndsIt) {
  Domains domains;
  domains.join(1, explicit_key(5), 1);
  domains.join(1, explicit_key(5), 2);
  domains.leave(1);
  EXPECT_EQ(domains.all().size(), 1u);
  domains.leave(2);
  EXPECT_TRUE(domains.all().empty());
  domains.join(1, explicit_key(5), 3);
  EXPECT_EQ(domains.all().size(), 1u) << "the number can be used again";
}

TEST(ImplicitOrder, EachBoosterCountsForItself) {
  ImplicitOrder order(2);
  EXPECT_EQ(order.take(0, 0), 0);
  EXPECT_EQ(order.take(0, 0), 1);
  EXPECT_EQ(order.passed(), 0) << "booster 1 may still get its first task";
  EXPECT_EQ(order.take(1, 0), 0);
  EXPECT_EQ(order.passed(), 1);
}

TEST(ImplicitOrder, ADependencyMovesATaskToALaterDomain) {
  ImplicitOrder order(2);
  const auto first = order.take(0, 0);
  EXPECT_EQ(order.take(1, first + 1), 1) << "in the same domain it would wait for itself";
  order.align(order.end());
  EXPECT_EQ(order.take(0, 0), 2);
}

}  // namespace
}  // namespace croff
