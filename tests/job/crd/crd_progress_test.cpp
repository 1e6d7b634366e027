// SPDX-License-Identifier: GPL-2.0-only
// What the daemon takes for progress of its ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crd/progress.h"

namespace reprise::crd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kSecond = 1'000'000'000;

class ProgressTest : public ::testing::Test {
 protected:
  ProgressTest() {
    progress.forget(now);
    ranks[3] = ranks[5] = {};
    look();
  }
  /** A look a second after the last one. */
  job::Standing look(bool excused = false) {
    now += 1000;
    progress.look(ranks, now, excused);
    return said();
  }
  job::Standing said() const {
    job::Standing out;
    progress.fill(out, now);
    return out;
  }
  /** A rank waits in MPI, with a whole processor. */
  void spin(std::uint32_t rank) {
    ranks[rank].cpu_ns += kSecond;
    ranks[rank].waited_ns += kSecond * 99 / 100;
  }
  Progress progress;
  std::map<std::uint32_t, RankSample> ranks;
  std::uint64_t now = 5000;
};

TEST_F(ProgressTest, RanksThatWaitOrSleepStandStill) {
  for (int second = 0; second < 3; ++second) {
    spin(3);
    look();
  }
  EXPECT_EQ(said().ranks(), 2u);
  EXPECT_EQ(said().stood_ms(), 3000u);
  EXPECT_EQ(said().idle_ms(), 3000u);
  EXPECT_EQ(said().waiting(), 1u);
  EXPECT_EQ(said().asleep(), 1u);
  EXPECT_THAT(said().first_waiting(), ElementsAre(3));
  EXPECT_THAT(said().first_asleep(), ElementsAre(5));
  now += 400;
  EXPECT_EQ(said().idle_ms(), 3400u) << "between two looks";
  EXPECT_EQ(said().stood_ms(), 3000u) << "as of the last look";
}

TEST_F(ProgressTest, AMessageOrOutputOrWorkOfOneRankIsProgress) {
  const auto stands = [&] {
    spin(3);
    return look().stood_ms();
  };
  EXPECT_EQ(stands(), 1000u);
  ++ranks[5].moved;
  EXPECT_EQ(stands(), 0u);
  EXPECT_EQ(said().idle_ms(), 0u);
  EXPECT_THAT(said().first_asleep(), IsEmpty());
  EXPECT_EQ(stands(), 1000u);
  ++ranks[3].output;
  EXPECT_EQ(stands(), 0u);
  EXPECT_EQ(stands(), 1000u);
  ranks[5].cpu_ns += kSecond / 10;
  EXPECT_EQ(stands(), 0u);
  ranks[3].cpu_ns += kSecond;
  EXPECT_EQ(stands(), 0u) << "another thread computes while one waits";
  ranks[5].cpu_ns += kSecond / 50;
  EXPECT_EQ(stands(), 1000u) << "a few system calls are no work";
  ranks[5].cpu_ns -= kSecond / 100;
  EXPECT_EQ(stands(), 0u) << "a descendant has ended";
}

TEST_F(ProgressTest, SleepingInMpiIsWaiting) {
  ranks[3].cpu_ns += kSecond / 20;
  ranks[3].waited_ns += kSecond / 20;
  look();
  EXPECT_THAT(said().first_waiting(), ElementsAre(3));
  EXPECT_EQ(said().stood_ms(), 1000u);
}

TEST_F(ProgressTest, WhatKeepsRanksFromProgressingIsNeitherProgressNorStandingStill) {
  look();
  look(true);
  ++ranks[3].moved;  // the bytes of a mark
  look(true);
  EXPECT_EQ(said().stood_ms(), 1000u);
  EXPECT_EQ(said().idle_ms(), 3000u);
  look();
  EXPECT_EQ(said().stood_ms(), 2000u) << "what happened meanwhile does not count later";
  ranks[3].stopped = true;
  look();
  EXPECT_EQ(said().stood_ms(), 2000u);
  ++ranks[5].moved;
  look();
  EXPECT_EQ(said().stood_ms(), 0u) << "others go on while one is stopped";
}

TEST_F(ProgressTest, RanksThatBeginProgressAndThoseThatHaveEndedDoNotCount) {
  look();
  ranks[7].begun = false;
  look();
  EXPECT_EQ(look().stood_ms(), 0u) << "before MPI_Init";
  ranks[7].begun = true;
  EXPECT_EQ(look().stood_ms(), 1000u);
  ranks.erase(5);
  ranks.erase(7);
  EXPECT_EQ(look().stood_ms(), 2000u);
  EXPECT_EQ(said().ranks(), 1u);
  ranks.clear();
  EXPECT_EQ(look().ranks(), 0u);
  EXPECT_EQ(said().stood_ms(), 0u);
}

TEST_F(ProgressTest, ARollbackBeginsAnew) {
  ranks[3].moved = 1000;
  look();
  look();
  progress.forget(now);
  EXPECT_EQ(said().stood_ms(), 0u);
  ranks[3].moved = 10;  // as in the image
  look();
  EXPECT_EQ(said().stood_ms(), 0u) << "there is nothing to compare with";
  EXPECT_EQ(look().stood_ms(), 1000u);
}

}  // namespace
}  // namespace reprise::crd
