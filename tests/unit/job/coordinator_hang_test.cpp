// SPDX-License-Identifier: GPL-2.0-only
// --hang-after and --on-hang: what counts as a hang of the job, what is said, and where a rollback goes.
#include <gmock/gmock.h>

#include "crrun/coordinator/watchdog.h"
#include "simulated_job.h"

namespace reprise::job::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class HangingJob : public SimulatedJob {
 protected:
  HangingJob() {
    model.settings.wave_interval_ms = 4000;
    model.settings.hang_after_ms = 10'000;
    model.settings.spec.set_look_ms(1000);
    model.work_ms = 60'000;
  }
  static constexpr const char* kHangs = "no rank has progressed for 1";
  nlohmann::json status(Cluster& cluster) { return cluster.coordinator().status({cluster.now_ms() + 1000, 0}); }
  /** When a wave began, in ms. */
  static std::uint64_t begin_of(const Cluster& cluster, WaveNumber wave) {
    for (const auto& line : cluster.timeline())
      if (line.at("event") == "wave-begin" && line.at("wave") == wave) return line.at("t").get<std::uint64_t>() / 1'000'000 - 1000;
    return 0;
  }
};

TEST_F(HangingJob, IsReportedOnceAndSoIsItsEnd) {
  Cluster cluster(model);
  cluster.hang(15'000, 1);
  cluster.run_until(24'000);
  EXPECT_EQ(cluster.times_said(kHangs), 0u);
  EXPECT_FALSE(status(cluster).contains("hang"));
  cluster.run_until(40'000);
  EXPECT_EQ(cluster.times_said(kHangs), 1u);
  EXPECT_EQ(cluster.count("hang"), 1u);
  EXPECT_TRUE(cluster.said("6 ranks wait in MPI (rank 0 on node0, rank 1 on node0, rank 2 on node1, rank 3 on node1, ...); "));
  EXPECT_TRUE(cluster.said("with --on-hang recover"));
  EXPECT_GE(status(cluster).at("hang").at("ms").get<std::uint64_t>(), 20'000u);
  EXPECT_THAT(status(cluster).at("hang").at("words").get<std::string>(), HasSubstr("6 ranks wait in MPI"));
  EXPECT_EQ(cluster.count("recovery-begin"), 0u);
  cluster.hang(0, 0);
  cluster.run_until(45'000);
  EXPECT_EQ(cluster.times_said("ranks progress again"), 1u);
  EXPECT_FALSE(status(cluster).contains("hang"));
  ends_well(cluster);
  EXPECT_EQ(cluster.count("hang"), 1u);
}

TEST_F(HangingJob, IsNotSavedAgainAndAgain) {
  Cluster cluster(model);
  cluster.hang(15'000, 1);
  cluster.run_until(24'000);
  const std::size_t waves = cluster.count("wave-commit");
  EXPECT_GE(waves, 3u);
  EXPECT_LE(waves, 5u) << "the first one after the last progress may have begun before that was known";
  cluster.run_until(60'000);
  EXPECT_EQ(cluster.count("wave-commit"), waves);
  EXPECT_TRUE(status(cluster).contains("wave_waits_for_progress"));
  cluster.coordinator().request_checkpoint(7, {cluster.now_ms() + 1000, 1});
  ASSERT_TRUE(cluster.run_while([&] { return !cluster.replies().count(7); }, 5000)) << "a user gets the wave that he asks for";
  EXPECT_EQ(cluster.count("wave-commit"), waves + 1);
  cluster.hang(0, 0);
  ends_well(cluster);
  EXPECT_GT(cluster.count("wave-commit"), waves + 2);
}

TEST_F(HangingJob, DelaysNoWaveWhileRanksProgress) {
  Cluster watched(model);
  ends_well(watched);
  model.settings.hang_after_ms = 0;
  model.settings.spec.clear_look_ms();
  Cluster unwatched(model);
  ends_well(unwatched);
  EXPECT_EQ(watched.count("wave-commit"), unwatched.count("wave-commit"));
  EXPECT_EQ(watched.count("hang"), 0u);
}

TEST_F(HangingJob, IsNoneWhileAWaveIsUnderWay) {
  model.costs.local_disk = 0.0001;  // a wave takes 20 s
  Cluster cluster(model);
  cluster.hang(5000, 1);
  cluster.run_until(23'000);
  ASSERT_EQ(cluster.count("wave-begin"), 1u);
  EXPECT_EQ(cluster.count("wave-commit"), 0u);
  EXPECT_EQ(cluster.count("hang"), 0u);
  cluster.run_until(28'000);
  EXPECT_EQ(cluster.count("wave-commit"), 1u);
  EXPECT_EQ(cluster.count("hang"), 1u);
  cluster.hang(0, 0);
  ends_well(cluster);
}

TEST_F(HangingJob, IsNoneWhileANodeIsSilentOrARecoveryIsUnderWay) {
  Cluster cluster(model);
  cluster.hang(12'000, 1);
  cluster.at(20'000, [&] { cluster.kill_node(1); });
  ends_well(cluster);
  EXPECT_EQ(cluster.count("recovery-done"), 1u);
  EXPECT_EQ(cluster.count("hang"), 0u);
}

TEST_F(HangingJob, GoesBackToAWaveFromBeforeItHung) {
  model.settings.hang_recover = true;
  Cluster cluster(model);
  cluster.hang(15'000, 1);
  ends_well(cluster);
  EXPECT_EQ(cluster.count("hang"), 1u);
  EXPECT_EQ(cluster.count("recovery-done"), 1u);
  ASSERT_EQ(cluster.recoveries().size(), 1u);
  const Recover& back = cluster.recoveries()[0];
  EXPECT_EQ(back.restart_size(), 0) << "no rank is moved, and none started anew";
  EXPECT_LT(begin_of(cluster, back.wave()), 15'000u);
  EXPECT_GT(begin_of(cluster, back.wave() + 1), 15'000u) << "a wave that has saved the hang is passed over";
  EXPECT_FALSE(cluster.is_staged(back.wave() + 1));
  EXPECT_TRUE(cluster.said("(hang): back to wave " + std::to_string(back.wave()) + ", no rank is restarted"));
}

TEST_F(HangingJob, ThatHangsAtTheSamePlaceAgainAndAgainIsLeftToTheUser) {
  model.settings.hang_recover = true;
  Cluster cluster(model);
  cluster.hang(15'000, 100);
  cluster.run_until(150'000);
  EXPECT_EQ(cluster.count("recovery-done"), Watchdog::kMostRollbacks);
  ASSERT_EQ(cluster.recoveries().size(), 2u);
  EXPECT_EQ(cluster.recoveries()[0].wave(), cluster.recoveries()[1].wave()) << "no wave was taken between";
  EXPECT_EQ(cluster.times_said(kHangs), 3u);
  EXPECT_EQ(cluster.times_said("at the same place after 2 rollbacks"), 1u);
  const std::size_t waves = cluster.count("wave-commit");
  cluster.hang(0, 0);
  ends_well(cluster);
  EXPECT_GT(cluster.count("wave-commit"), waves) << "waves are taken again behind that place";
}

TEST_F(HangingJob, ThatHasGotPastThePlaceMayHangElsewhere) {
  model.settings.hang_recover = true;
  model.work_ms = 100'000;
  Cluster cluster(model);
  std::size_t hangs = 0;
  for (const std::uint64_t place : {15'000u, 40'000u, 65'000u, 90'000u}) {
    cluster.hang(place, 1);
    ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") <= hangs; })) << place;
    ++hangs;
  }
  ends_well(cluster);
  EXPECT_EQ(cluster.count("hang"), 4u);
}

TEST_F(HangingJob, WithoutAWaveBeginsAnew) {
  model.settings.hang_recover = true;
  model.settings.wave_interval_ms = 0;
  Cluster cluster(model);
  cluster.hang(5000, 1);
  ends_well(cluster);
  EXPECT_EQ(cluster.count("launch"), 2u);
}

TEST_F(HangingJob, WithoutCheckpointsIsOnlyReported) {
  model.settings.hang_recover = true;
  model.settings.spec.set_no_checkpoints(true);
  Cluster cluster(model);
  cluster.hang(5000, 1);
  cluster.run_until(30'000);
  EXPECT_EQ(cluster.times_said("without checkpoints it cannot go back"), 1u);
  cluster.hang(0, 0);
  ends_well(cluster);
  EXPECT_EQ(cluster.count("recovery-begin"), 0u);
}

TEST_F(HangingJob, IsSeenThroughATreeOfDaemons) {
  model.nodes = 6;
  model.ranks = 12;
  model.fan_out = 2;
  model.settings.hang_recover = true;
  Cluster cluster(model);
  cluster.hang(15'000, 1);
  ends_well(cluster);
  EXPECT_TRUE(cluster.said("12 ranks wait in MPI"));
  EXPECT_EQ(cluster.count("recovery-done"), 1u);
}

TEST_F(HangingJob, IsSeenByALaterCrrun) {
  model.settings.hang_recover = true;
  Cluster cluster(model);
  cluster.hang(15'000, 1);
  cluster.run_until(18'000);  // there is a wave that has saved the hang
  const WaveNumber newest = cluster.coordinator().store().newest().value();
  EXPECT_GT(begin_of(cluster, newest), 15'000u);
  cluster.break_crrun();
  ends_well(cluster);
  EXPECT_EQ(cluster.count("hang"), 1u);
  ASSERT_EQ(cluster.recoveries().size(), 1u);
  EXPECT_EQ(cluster.recoveries()[0].wave(), newest - 1);
}

TEST_F(HangingJob, FailuresAtAnyTimeAreSurvived) {
  model.spares = 2;
  model.settings.hang_recover = true;
  for (model.seed = 1; model.seed <= 16; ++model.seed) {
    SCOPED_TRACE(model.seed);
    Cluster cluster(model);
    const auto some = [&] { return 1000 + cluster.random()() % 60'000; };
    cluster.hang(some(), 1 + static_cast<unsigned>(cluster.random()() % 3));
    cluster.at(some(), [&] { cluster.kill_node(static_cast<NodeIndex>(cluster.random()() % 3)); });
    cluster.at(some(), [&] { cluster.kill_rank(static_cast<Rank>(cluster.random()() % 6), 9); });
    cluster.at(some(), [&] { cluster.break_crrun(); });
    cluster.at(400'000, [&] { cluster.hang(0, 0); });  // it may have been left to the user
    ends_well(cluster);
  }
}

/** The judgement alone. */
class WatchdogTest : public testing::Test {
 protected:
  WatchdogTest() { dog.running({0, 0}); }
  void hear(NodeIndex node, std::uint64_t stood_ms, std::uint32_t ranks = 2) {
    Standing standing;
    standing.set_ranks(ranks);
    standing.set_stood_ms(stood_ms);
    standing.set_idle_ms(stood_ms + idle_more);
    standing.set_waiting(ranks ? ranks - 1 : 0);
    standing.set_asleep(ranks ? 1 : 0);
    if (ranks) standing.add_first_asleep(2 * node + 1);
    dog.heard(node, standing, {now, 0});
  }
  Watchdog::Change judge() {
    return dog.judge(placement, [this](Rank rank) { return ended.count(rank) > 0; });
  }
  Watchdog dog{60'000, 5000};
  PlacementTable placement{0, 0, 1, 1, 2, 2};
  std::set<Rank> ended;
  std::uint64_t now = 1'000'000, idle_more = 0;
};

TEST_F(WatchdogTest, TheLeastOfAllNodesCounts) {
  hear(0, 90'000);
  hear(1, 61'000);
  EXPECT_EQ(judge(), Watchdog::Change::none) << "a node has not said anything";
  hear(2, 59'000);
  EXPECT_EQ(judge(), Watchdog::Change::none);
  hear(2, 60'000);
  EXPECT_EQ(judge(), Watchdog::Change::hangs);
  EXPECT_EQ(dog.stood_ms(), 60'000u);
  EXPECT_EQ(dog.waiting().count, 3u);
  EXPECT_EQ(dog.asleep().count, 3u);
  EXPECT_THAT(dog.asleep().first, ElementsAre(1, 3, 5));
  EXPECT_EQ(judge(), Watchdog::Change::none) << "it is known";
  EXPECT_TRUE(dog.hangs());
  hear(1, 0);
  EXPECT_EQ(judge(), Watchdog::Change::goes_on);
  EXPECT_FALSE(dog.hangs());
}

TEST_F(WatchdogTest, RanksThatHaveEndedAndNodesWithoutRanksDoNotCount) {
  hear(0, 90'000);
  hear(1, 90'000);
  ended = {4, 5};
  hear(3, 0, 0);  // a spare
  EXPECT_EQ(judge(), Watchdog::Change::hangs);
  dog.running({now, 0});
  EXPECT_FALSE(dog.hangs());
  hear(0, 0, 0);
  hear(1, 0, 0);
  EXPECT_EQ(judge(), Watchdog::Change::none) << "all have finalized MPI";
}

TEST_F(WatchdogTest, WhoHasWaitedForARankThatEndsMayGoOn) {
  hear(0, 90'000);
  hear(1, 90'000);
  hear(2, 0);  // computes
  EXPECT_EQ(judge(), Watchdog::Change::none);
  hear(2, 0, 0);  // it has sent its result, and has ended
  EXPECT_EQ(judge(), Watchdog::Change::none) << "the others were heard before that";
  now += 59'000;
  hear(0, 149'000);
  hear(1, 149'000);
  EXPECT_EQ(judge(), Watchdog::Change::none);
  now += 1'000;
  hear(0, 150'000);
  hear(1, 150'000);
  EXPECT_EQ(judge(), Watchdog::Change::hangs);
}

TEST_F(WatchdogTest, NobodyWatchesUnlessItIsAsked) {
  dog = {0, 0};
  for (NodeIndex node : {0u, 1u, 2u}) hear(node, 1'000'000);
  EXPECT_EQ(judge(), Watchdog::Change::none);
  EXPECT_FALSE(dog.holds_waves());
}

TEST_F(WatchdogTest, AWaveAfterTheLastProgressHoldsFurtherOnes) {
  EXPECT_FALSE(dog.holds_waves());
  dog.committed(1, {900'000, 0});
  EXPECT_FALSE(dog.holds_waves()) << "no daemon has said anything";
  idle_more = 100'000;  // the waves
  hear(0, 0);
  EXPECT_TRUE(dog.hung(1)) << "progress was last seen when it began, and may have been before";
  EXPECT_TRUE(dog.holds_waves());
  idle_more = 90'000;
  hear(1, 0);
  EXPECT_FALSE(dog.hung(1));
  EXPECT_FALSE(dog.holds_waves());
  dog.committed(2, {920'000, 0});
  EXPECT_FALSE(dog.hung(1));
  EXPECT_TRUE(dog.hung(2));
  EXPECT_FALSE(dog.hung(3)) << "of another crrun";
}

TEST_F(WatchdogTest, AWaveFromWhichTheRanksDoNotProgressHoldsTheHang) {
  dog.committed(4, {900'000, 0});
  idle_more = 0;
  hear(0, 60'000);
  EXPECT_FALSE(dog.hung(4)) << "progress was seen behind it";
  dog.rolled_back(4);
  dog.running({1'100'000, 0});
  now = 1'170'000;
  hear(0, 62'000);  // since 1,108,000: what the ranks did to come back
  EXPECT_TRUE(dog.hung(4));
  EXPECT_TRUE(dog.hung(5));
  EXPECT_FALSE(dog.hung(3));
  hear(0, 50'000);
  EXPECT_FALSE(dog.hung(4)) << "they have progressed from there";
}

TEST_F(WatchdogTest, AfterARollbackWavesWaitUntilThePlaceIsPassed) {
  dog.committed(4, {900'000, 0});
  idle_more = 80'000;
  hear(0, 0);  // it has run for 20 s from the wave to where it hangs
  dog.rolled_back(4);
  EXPECT_TRUE(dog.may_roll_back());
  dog.running({1'100'000, 0});
  EXPECT_TRUE(dog.holds_waves());
  idle_more = 0;
  now = 1'179'000;
  hear(0, 0);
  EXPECT_TRUE(dog.holds_waves());
  dog.rolled_back(4);
  EXPECT_FALSE(dog.may_roll_back());
  dog.running({1'200'000, 0});  // and it had run for 79 s now
  now = 1'338'000;
  hear(0, 0);
  EXPECT_TRUE(dog.holds_waves());
  now = 1'339'000;
  hear(0, 0);
  EXPECT_FALSE(dog.holds_waves());
  EXPECT_TRUE(dog.may_roll_back());
}

}  // namespace
}  // namespace reprise::job::sim
