// SPDX-License-Identifier: GPL-2.0-only
#include "job/lost_links.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace reprise::job {
namespace {

class LostLinksTest : public testing::Test {
 protected:
  bool pass(std::uint32_t rank, std::uint32_t peer, std::uint64_t ms, int error = ECONNRESET, std::uint32_t recovery = 0) {
    LinkLost lost;
    lost.set_rank(rank);
    lost.set_peer(peer);
    lost.set_error(error);
    lost.set_recovery(recovery);
    // Four ranks a node, and some that are on none.
    return links.pass(lost, peer < 100 ? std::optional(peer / 4) : std::nullopt, ms);
  }
  LostLinks links;
};

TEST_F(LostLinksTest, OneReportANodeAndSecondIsEnough) {
  EXPECT_TRUE(pass(0, 8, 1000));
  EXPECT_FALSE(pass(0, 9, 1000));
  EXPECT_FALSE(pass(1, 8, 1999));
  EXPECT_TRUE(pass(0, 12, 1000)) << "another node";
  EXPECT_TRUE(pass(0, 200, 1000)) << "a peer whose node is not known";
  EXPECT_FALSE(pass(0, 201, 1500));
  EXPECT_TRUE(pass(1, 9, 2000)) << "the node may have broken again";
}

TEST_F(LostLinksTest, AllPassThatNeedMoreThanSuspicion) {
  EXPECT_TRUE(pass(0, 8, 1000));
  for (const int error : {ENODATA, EMFILE, ENFILE})
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(pass(1, 9, 1000, error));
  EXPECT_FALSE(pass(1, 9, 1000));
}

TEST_F(LostLinksTest, OnePairIsReportedForAsLongAsItIsBroken) {
  // crrun tells the user of a pair that has reported for a minute.
  EXPECT_TRUE(pass(3, 8, 5'000));
  for (const std::uint64_t ms : {35'000u, 65'000u, 95'000u}) {
    EXPECT_TRUE(pass(2, 9, ms - 100));
    EXPECT_TRUE(pass(3, 8, ms));
    EXPECT_FALSE(pass(1, 10, ms + 100));
  }
}

TEST_F(LostLinksTest, APairThatIsReachedNoLongerStandsForTheNode) {
  EXPECT_TRUE(pass(3, 8, 5'000));
  EXPECT_TRUE(pass(2, 9, 50'001));
  EXPECT_FALSE(pass(3, 8, 50'500));
  EXPECT_TRUE(pass(2, 9, 50'600)) << "now this pair does";
}

TEST_F(LostLinksTest, ARecoveryBeginsAnew) {
  EXPECT_TRUE(pass(0, 8, 1000));
  EXPECT_FALSE(pass(1, 9, 1100));
  EXPECT_TRUE(pass(1, 9, 1200, ECONNRESET, 1));
  EXPECT_FALSE(pass(0, 8, 1300, ECONNRESET, 0)) << "of the earlier recovery: crrun drops it anyway";
}

}  // namespace
}  // namespace reprise::job
