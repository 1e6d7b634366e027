// SPDX-License-Identifier: GPL-2.0-only
// What the job level must survive, with simulated daemons: the decisions.
#include <gmock/gmock.h>

#include <csignal>

#include "simulated_job.h"

namespace reprise::job::sim {
namespace {

using testing::IsEmpty;

auto event(const std::string& name) {
  return [name](const nlohmann::json& line) { return line.at("event") == name; };
}

class Job : public SimulatedJob {
 protected:
  Job() {
    model.settings.wave_interval_ms = 2000;
    model.settings.start_timeout_ms = 10'000;
  }
};

TEST_F(Job, RunsAndTakesWaves) {
  Cluster cluster(model);
  ends_well(cluster);
  EXPECT_GE(cluster.count("wave-commit"), 3u);
  EXPECT_GE(cluster.count("wave-staged"), 3u);
  EXPECT_EQ(cluster.count("recovery-begin"), 0u);
}

TEST_F(Job, EndsAsSoonAsItsDaemonsHaveEnded) {
  Cluster cluster(model);
  std::uint64_t end_ms = 0;
  cluster.when(event("job-end"), [&] { end_ms = cluster.now_ms(); });
  ends_well(cluster);
  ASSERT_GT(end_ms, 0u);
  EXPECT_LE(cluster.now_ms() - end_ms, 200u);
}

TEST_F(Job, ALostNodesRanksGoOnOnTheSpareAndTheOthersStay) {
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.kill_node(1);
  cluster.when(event("recovery-done"), [&] {
    for (Rank rank : {0u, 1u}) EXPECT_EQ(cluster.where(rank), 0u);
    for (Rank rank : {2u, 3u}) EXPECT_EQ(cluster.where(rank), 3u);
    for (Rank rank : {4u, 5u}) EXPECT_EQ(cluster.where(rank), 2u);
  });
  ends_well(cluster);
  EXPECT_EQ(cluster.count("recovery-done"), 1u);
}

TEST_F(Job, ASpareTakesThePlaceOfANodeThatIsLostWhileStarting) {
  model.spares = 2;
  {
    Cluster cluster(model);
    cluster.kill_node(1);  // no daemon can be started there
    ends_well(cluster);
    EXPECT_TRUE(cluster.said("takes its place"));
    EXPECT_EQ(cluster.count("launch"), 1u);
  }
  {
    model.image_us = 900'000;  // daemons take different times to start
    Cluster cluster(model);
    cluster.run_until(400);
    cluster.kill_daemon(0);
    cluster.kill_daemon(1);
    ends_well(cluster);
  }
}

TEST_F(Job, WithoutASpareANodeThatIsLostWhileStartingEndsTheJobByName) {
  model.spares = 0;
  Cluster cluster(model);
  cluster.kill_node(1);
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 1);
  EXPECT_TRUE(cluster.said("node1"));
  EXPECT_TRUE(cluster.said("could not be started"));
}

TEST_F(Job, DetectionTakesAsLongAsWasChosen) {
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.kill_node(1);
  cluster.run_while([&] { return cluster.count("node-lost") == 0; });
  EXPECT_GE(cluster.now_ms(), 7000 + model.settings.lost_after_ms - 1100);
  EXPECT_LE(cluster.now_ms(), 7000 + model.settings.lost_after_ms + 200);
}

TEST_F(Job, ANodeLostBeforeTheFirstWaveBeginsTheJobAnew) {
  Cluster cluster(model);
  cluster.run_until(800);
  cluster.kill_node(0);
  ends_well(cluster);
  EXPECT_EQ(cluster.count("launch"), 2u);
}

TEST_F(Job, ANodeLostWithinAWaveBeforeItsCommit) {
  Cluster cluster(model);
  cluster.run_until(3000);
  const auto committed = cluster.count("wave-commit");
  cluster.when(event("wave-begin"), [&] { cluster.kill_node(2); });
  cluster.run_while([&] { return cluster.count("recovery-begin") == 0; });
  EXPECT_EQ(cluster.count("wave-commit"), committed);
  EXPECT_GE(cluster.count("wave-abort"), 1u);
  ends_well(cluster);
}

TEST_F(Job, ANodeLostAfterTheCommitBeforeStagingGoesBackToTheStagedWave) {
  Cluster cluster(model);
  cluster.run_until(3500);
  ASSERT_EQ(cluster.count("wave-staged"), 1u);
  cluster.when(event("wave-commit"), [&] { cluster.kill_node(2); });
  cluster.run_while([&] { return cluster.count("recovery-begin") == 0; });
  EXPECT_EQ(cluster.timeline().back().value("wave", 99), 1);
  ends_well(cluster);
}

TEST_F(Job, TheSpareIsLostWhileTakingOver) {
  model.spares = 2;
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.kill_node(1);
  cluster.when(event("recovery-begin"), [&] { cluster.kill_node(cluster.coordinator().placement()[2]); });
  ends_well(cluster);
  EXPECT_GE(cluster.count("recovery-begin"), 2u);
}

TEST_F(Job, ASurvivorIsLostBetweenRestoreAndResume) {
  model.spares = 2;
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.kill_node(1);
  cluster.when(event("resume"), [&] { cluster.kill_node(0); });
  ends_well(cluster);
  EXPECT_EQ(cluster.count("recovery-begin"), 2u);
}

TEST_F(Job, TwoNodesAtOnceWithTwoSpares) {
  model.spares = 2;
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.kill_node(0);
  cluster.kill_node(1);
  ends_well(cluster);
}

TEST_F(Job, MoreLossesThanSparesDoubleUp) {
  Cluster cluster(model);
  cluster.run_until(5000);
  cluster.kill_node(0);
  cluster.run_while([&] { return cluster.count("recovery-done") == 0; });
  cluster.run_until(cluster.now_ms() + 3000);
  cluster.kill_node(1);
  ends_well(cluster);
}

TEST_F(Job, WithoutDoublingUpItEndsClearlyAndRestartGoesOn) {
  model.settings.double_up = false;
  Cluster cluster(model);
  cluster.run_until(5000);
  cluster.kill_node(0);
  cluster.run_while([&] { return cluster.count("recovery-done") == 0; });
  cluster.run_until(cluster.now_ms() + 1500);
  cluster.kill_node(1);
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), kRestartable);
  EXPECT_TRUE(cluster.said("crrun --restart /shared/job"));
  cluster.restart_with({});
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_THAT(cluster.violations(), IsEmpty());
}

TEST_F(Job, AKilledRankIsRestartedWhereItWas) {
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.kill_rank(3, SIGKILL);
  cluster.when(event("recovery-begin"), [&] {
    EXPECT_EQ(cluster.timeline().back().at("restart"), nlohmann::json({3}));
    EXPECT_EQ(cluster.coordinator().placement()[3], 1u);
  });
  ends_well(cluster);
}

TEST_F(Job, AWaveAtTheStartIsTheOnlyOneAlsoAfterRecoveries) {
  model.settings.wave_interval_ms = 0;
  model.settings.wave_at_start = true;
  Cluster cluster(model);
  cluster.run_until(3000);
  EXPECT_EQ(cluster.count("wave-commit"), 1u);
  cluster.kill_rank(3, SIGKILL);
  cluster.run_until(6000);
  cluster.kill_node(1);
  ends_well(cluster);
  EXPECT_EQ(cluster.count("recovery-done"), 2u);
  EXPECT_EQ(cluster.count("wave-begin"), 1u);
  EXPECT_EQ(cluster.count("launch"), 1u);
}

TEST_F(Job, AllRanksGoBackAtASignal) {
  model.settings.rollback_on = {SIGUSR2};
  Cluster cluster(model);
  cluster.run_until(5000);
  const auto commits = cluster.count("wave-commit");
  ASSERT_GE(commits, 1u);
  cluster.coordinator().signal(SIGUSR2, {cluster.now_ms() + 1000, 1});
  cluster.coordinator().signal(SIGUSR2, {cluster.now_ms() + 1000, 1});  // they go back already
  cluster.when(event("recovery-begin"), [&] {
    EXPECT_EQ(cluster.timeline().back().at("restart"), nlohmann::json::array());
    EXPECT_EQ(cluster.timeline().back().at("cause"), "request by SIGUSR2");
  });
  ends_well(cluster);
  EXPECT_EQ(cluster.count("recovery-done"), 1u);
}

TEST_F(Job, AJobThatBeginsAnewTakesItsWaveAtTheStartAgain) {
  model.settings.wave_interval_ms = 0;
  model.settings.wave_at_start = true;
  Cluster cluster(model);
  bool killed = false;
  cluster.when(event("launch"), [&] {
    if (!std::exchange(killed, true)) cluster.kill_node(0);
  });
  ends_well(cluster);
  EXPECT_EQ(cluster.count("launch"), 2u);
  EXPECT_EQ(cluster.count("wave-commit"), 1u);
}

TEST_F(Job, ARankThatAlwaysDiesEndsTheJobWithItsSignal) {
  model.work_ms = 100'000;
  Cluster cluster(model);
  cluster.run_until(5000);
  model.settings.wave_interval_ms = 0;
  // After each recovery it dies before the next wave.
  std::function<void()> again = [&] {
    cluster.when(event("recovery-done"), again);
    cluster.kill_rank(0, SIGSEGV);
  };
  again();
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 128 + SIGSEGV);
  EXPECT_EQ(cluster.count("recovery-begin"), 3u);
}

TEST_F(Job, AKilledDaemonIsNoticedAtOnceAndComesBackAsASpare) {
  model.work_ms = 40'000;
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.kill_daemon(1);
  cluster.run_while([&] { return cluster.count("node-lost") == 0; });
  EXPECT_LE(cluster.now_ms(), 7100u);
  cluster.run_while([&] { return cluster.count("node-back") == 0; });
  EXPECT_TRUE(cluster.coordinator().members().up(1));
  ends_well(cluster);
}

TEST_F(Job, CrrunDiesAndAnotherAttaches) {
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.break_crrun();
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_THAT(cluster.violations(), IsEmpty());
  EXPECT_EQ(cluster.count("recovery-begin"), 0u) << "all ranks had lived on";
}

TEST_F(Job, WhatWasPrintedBeforeCrrunDiedIsNotPrintedAgain) {
  model.work_ms = 20'000;
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.break_crrun();
  cluster.run_until(9500);
  cluster.kill_node(1);  // and its ranks repeat what the first crrun has printed
  ends_well(cluster);
  EXPECT_EQ(cluster.count("recovery-done"), 1u);
}

TEST_F(Job, RanksThatEndWhileCrrunAttachesHaveEnded) {
  model.work_ms = 4500;
  Cluster cluster(model);
  cluster.run_until(2500);
  cluster.cut(1, true);  // crrun has to wait for this node
  cluster.break_crrun();
  cluster.at(6500, [&] { cluster.cut(1, false); });
  ends_well(cluster);
  EXPECT_EQ(cluster.count("recovery-begin"), 0u);
}

TEST_F(Job, RanksThatEndWhileNoCrrunRunsHaveEnded) {
  Cluster cluster(model);
  cluster.run_while([&] { return cluster.progress_ms(0) < model.work_ms - 500; }, 60'000);
  ASSERT_TRUE(cluster.where(0)) << "it has ended";
  cluster.break_crrun();
  ends_well(cluster);
  EXPECT_EQ(cluster.count("recovery-begin"), 0u);
}

TEST_F(Job, AJobThatWasEndingWhenCrrunDiedEndsAsItWould) {
  {
    Cluster cluster(model);
    cluster.when(event("job-end"), [&] { cluster.break_crrun(); });
    ends_well(cluster);
    EXPECT_EQ(cluster.count("recovery-begin"), 0u);
  }
  Cluster cluster(model);
  cluster.run_until(3000);
  cluster.abort(1, 3);
  cluster.when(event("job-end"), [&] { cluster.break_crrun(); });
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 3);
}

TEST_F(Job, ARankThatFailsWhileNoCrrunRunsIsRestarted) {
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.break_crrun();
  cluster.kill_rank(3, SIGKILL);
  ends_well(cluster);
  EXPECT_EQ(cluster.count("recovery-done"), 1u);
}

TEST_F(Job, NodesThatAreLostWhileCrrunAttachesAreNoReasonToEndTheJob) {
  model.spares = 0;
  model.nodes = 4;
  model.slots = 4;
  Cluster cluster(model);
  cluster.run_until(7000);
  ASSERT_GE(cluster.count("wave-staged"), 1u);
  cluster.break_crrun();
  cluster.kill_node(1);  // crrun waits for it
  cluster.run_until(8500);
  cluster.kill_node(0);  // has come back to crrun
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_GE(cluster.count("recovery-done"), 1u);
  EXPECT_FALSE(cluster.said("could not be started"));
  EXPECT_THAT(cluster.violations(), IsEmpty());
}

TEST_F(Job, CrrunDiesWithinAWave) {
  Cluster cluster(model);
  cluster.run_until(5000);
  cluster.when(event("wave-begin"), [&] { cluster.break_crrun(); });
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_THAT(cluster.violations(), IsEmpty());
}

TEST_F(Job, CrrunDiesWithinARecovery) {
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.kill_node(1);
  cluster.when(event("recovery-begin"), [&] { cluster.break_crrun(); });
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_GE(cluster.count("recovery-done"), 1u);
  EXPECT_THAT(cluster.violations(), IsEmpty());
}

TEST_F(Job, ANodeRebootsAndComesBackAsASpareThatIsUsed) {
  model.work_ms = 60'000;
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.kill_node(1);
  cluster.run_while([&] { return cluster.count("recovery-done") == 0; });
  cluster.boot_node(1);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("node-back") == 0; }));
  cluster.run_until(cluster.now_ms() + 3000);
  cluster.kill_node(0);
  cluster.when(event("recovery-done"), [&] { EXPECT_EQ(cluster.where(0), 1u); });
  ends_well(cluster);
}

TEST_F(Job, ASplitOfTenSecondsLeavesOneProcessARank) {
  model.work_ms = 40'000;
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.cut(1, true);
  cluster.at(17'000, [&] { cluster.cut(1, false); });
  ends_well(cluster);
  EXPECT_EQ(cluster.count("node-back"), 1u);
  EXPECT_EQ(cluster.count("recovery-done"), 1u);
}

TEST_F(Job, ASplitShorterThanDetectionCostsNothing) {
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.cut(1, true);
  cluster.at(7000 + 1500, [&] { cluster.cut(1, false); });
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_EQ(cluster.count("node-lost"), 0u);
}

TEST_F(Job, WhatIsMadeReadyForALossIsWhatIsAsked) {
  Cluster cluster(model);
  cluster.run_until(7000);
  EXPECT_THAT(cluster.expectations(), IsEmpty());
  cluster.kill_node(1);
  ends_well(cluster);
  ASSERT_EQ(cluster.expectations().size(), 1u);
  ASSERT_EQ(cluster.recoveries().size(), 1u);
  Recover asked = cluster.recoveries()[0];
  EXPECT_GT(asked.recovery(), 0u);
  asked.clear_recovery();
  asked.clear_deadline_ms();
  EXPECT_EQ(cluster.expectations()[0].SerializeAsString(), asked.SerializeAsString());
  EXPECT_GT(asked.restart_size(), 0);
}

TEST_F(Job, ANodeThatIsHeardOfAgainEndsTheExpectation) {
  model.work_ms = 40'000;
  Cluster cluster(model);
  std::size_t waves = 0;
  for (std::uint64_t ms = 7000; ms < 30'000; ms += 5000) {
    cluster.at(ms, [&cluster, &waves] { cluster.cut(1, true), waves = cluster.count("wave-begin"); });
    cluster.at(ms + 2000, [&cluster, &waves, ms] {
      if (ms < 20'000) {
        EXPECT_EQ(cluster.count("wave-begin"), waves) << "while the node was silent";
      }
      cluster.cut(1, false);
    });
  }
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  // Five times it was silent; after three in vain nothing is made ready for a while.
  ASSERT_EQ(cluster.expectations().size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(cluster.expectations()[i].wave() != 0, i % 2 == 0) << i;
  EXPECT_EQ(cluster.count("node-lost"), 0u);
}

TEST_F(Job, ASecondSilentNodeIsExpectedToBeLostToo) {
  model.spares = 2;
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.kill_node(0);
  cluster.at(7400, [&] { cluster.kill_node(1); });
  ends_well(cluster);
  ASSERT_EQ(cluster.expectations().size(), 2u);
  EXPECT_EQ(cluster.expectations()[0].restart_size(), 2);
  EXPECT_EQ(cluster.expectations()[1].restart_size(), 4);
}

TEST_F(Job, FullLocalStorageKeepsTheOlderWaveAndTells) {
  Cluster cluster(model);
  cluster.run_until(3500);
  cluster.local_full(0, true);
  cluster.run_until(9000);
  EXPECT_EQ(cluster.count("wave-commit"), 1u);
  EXPECT_TRUE(cluster.said("no space left on the node"));
  EXPECT_TRUE(cluster.said("wave 1 still counts"));
  cluster.kill_node(1);
  ends_well(cluster);
}

TEST_F(Job, SharedStorageGoneIsToldOnceAndTriedAgain) {
  model.work_ms = 60'000;
  Cluster cluster(model);
  cluster.shared_gone(true);
  cluster.run_until(20'000);
  EXPECT_EQ(cluster.count("wave-staged"), 0u);
  EXPECT_TRUE(cluster.said("could not be copied to shared storage"));
  EXPECT_EQ(std::count_if(cluster.said().begin(), cluster.said().end(),
                          [](const std::string& text) { return text.find("could not be copied") != std::string::npos; }),
            1);
  cluster.shared_gone(false);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("wave-staged") == 0; }));
  EXPECT_TRUE(cluster.said("copied to shared storage again"));
  ends_well(cluster);
}

TEST_F(Job, ADamagedImageTurnsToTheOlderWaveAndTells) {
  Cluster cluster(model);
  model.settings.staging_nodes = 1;
  cluster.run_until(3500);
  ASSERT_EQ(cluster.count("wave-staged"), 1u);
  cluster.when(event("wave-commit"), [&] {
    cluster.damage(2, 0, true, true);
    cluster.kill_rank(4, SIGKILL);
  });
  cluster.run_while([&] { return cluster.count("recovery-done") == 0; });
  EXPECT_TRUE(cluster.said("missing or damaged"));
  EXPECT_TRUE(cluster.said("back to wave 1"));
  ends_well(cluster);
}

TEST_F(Job, DrainMovesTheRanksOfAHealthyNode) {
  model.work_ms = 20'000;
  Cluster cluster(model);
  cluster.run_until(5300);
  cluster.coordinator().request_drain(7, "node1", {cluster.now_ms() + 1000, 0});
  ASSERT_TRUE(cluster.run_while([&] { return !cluster.replies().count(7); }));
  EXPECT_TRUE(cluster.replies().at(7).first) << cluster.replies().at(7).second;
  EXPECT_EQ(cluster.where(2), 3u);
  EXPECT_EQ(cluster.where(3), 3u);
  EXPECT_LE(cluster.now_ms(), 7000u);
  ends_well(cluster);
}

TEST_F(Job, DrainIsRefusedWithTheReason) {
  Cluster cluster(model);
  cluster.run_until(3000);
  Coordinator& coordinator = cluster.coordinator();
  coordinator.request_drain(1, "nowhere", {4000, 0});
  coordinator.request_drain(2, "node3", {4000, 0});
  cluster.run_until(3200);
  EXPECT_FALSE(cluster.replies().at(1).first);
  EXPECT_THAT(cluster.replies().at(1).second, testing::HasSubstr("no node of this job"));
  EXPECT_TRUE(cluster.replies().at(2).first) << "an empty node";
}

TEST_F(Job, ADrainedNodeIsLostMeanwhile) {
  model.work_ms = 30'000;
  Cluster cluster(model);
  cluster.run_until(5300);
  cluster.coordinator().request_drain(7, "node1", {cluster.now_ms() + 1000, 0});
  cluster.when(event("wave-commit"), [&] { cluster.kill_node(1); });
  ends_well(cluster);
  EXPECT_TRUE(cluster.replies().count(7));
}

TEST_F(Job, ADrainIsGivenUpWhenItsRanksHaveNoPlaceAnyMore) {
  model.work_ms = 30'000;
  model.settings.double_up = false;
  Cluster cluster(model);
  cluster.run_until(5300);
  cluster.coordinator().request_drain(7, "node1", {cluster.now_ms() + 1000, 0});
  cluster.when(event("wave-begin"), [&] { cluster.kill_node(2); });  // its ranks take the spare
  ASSERT_TRUE(cluster.run_while([&] { return !cluster.replies().count(7); }));
  EXPECT_FALSE(cluster.replies().at(7).first);
  EXPECT_THAT(cluster.replies().at(7).second, testing::HasSubstr("no other node has slots for its ranks"));
  ends_well(cluster);
  EXPECT_EQ(cluster.count("recovery-begin"), 1u) << "a drain that moves nothing must not take the job back";
}

TEST_F(Job, TwentyRecoveriesInARow) {
  model.work_ms = 120'000;
  Cluster cluster(model);
  cluster.run_until(5000);
  for (int i = 0; i < 20; ++i) {
    cluster.kill_rank(static_cast<Rank>(i) % model.ranks, SIGKILL);
    ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") <= static_cast<std::size_t>(i); }));
    cluster.run_until(cluster.now_ms() + 1000);
    EXPECT_LE(cluster.coordinator().store().waves().size(), 3u);
  }
  ends_well(cluster);
  EXPECT_EQ(cluster.count("recovery-done"), 20u);
}

TEST_F(Job, WavesAreTriedAgainWhenARankIsNotReady) {
  model.again = 0.15;
  Cluster cluster(model);
  ends_well(cluster);
  EXPECT_GE(cluster.count("wave-abort"), 1u);
  EXPECT_GE(cluster.count("wave-commit"), 2u);
}

TEST_F(Job, ACheckpointOnRequestIsAnswered) {
  model.settings.wave_interval_ms = 0;
  Cluster cluster(model);
  cluster.run_until(3000);
  cluster.coordinator().request_checkpoint(1, {4000, 0});
  ASSERT_TRUE(cluster.run_while([&] { return !cluster.replies().count(1); }));
  EXPECT_TRUE(cluster.replies().at(1).first);
  EXPECT_EQ(cluster.count("wave-commit"), 1u);
}

TEST_F(Job, MessagesLostWithAConnectionAreRepairedByARecovery) {
  Cluster cluster(model);
  cluster.run_until(5000);
  cluster.break_link(0, 3);
  cluster.run_while([&] { return cluster.count("recovery-done") == 0; });
  EXPECT_LT(cluster.now_ms(), 5600u);
  EXPECT_TRUE(cluster.coordinator().placement() == PlacementTable({0, 0, 1, 1, 2, 2})) << "nobody has to move";
  ends_well(cluster);
  EXPECT_EQ(cluster.count("recovery-begin"), 1u);
  EXPECT_TRUE(cluster.said("broken connection between rank"));
}

TEST_F(Job, AConnectionLostBeforeTheFirstWaveBeginsTheJobAnew) {
  Cluster cluster(model);
  cluster.run_until(1000);
  cluster.break_link(0, 3);
  ends_well(cluster);
  EXPECT_EQ(cluster.count("launch"), 2u);
}

TEST_F(Job, AConnectionLostDuringARecoveryIsRepairedByTheNext) {
  Cluster cluster(model);
  cluster.run_until(5000);
  cluster.kill_rank(2, SIGKILL);
  cluster.when(event("resumed-rank"), [&] { cluster.break_link(0, 3); });
  ends_well(cluster);
  EXPECT_EQ(cluster.count("recovery-done"), 2u);
}

TEST_F(Job, ConnectionsThatAlwaysBreakEndTheJobClearly) {
  Cluster cluster(model);
  cluster.run_until(5000);
  std::function<void()> again = [&] {
    cluster.break_link(0, 3);
    cluster.when(event("recovery-done"), again);
  };
  again();
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), kRestartable);
  EXPECT_EQ(cluster.count("recovery-done"), 5u);
  EXPECT_GT(cluster.now_ms(), 5000u + 1000 + 2000 + 4000 + 8000) << "it waits longer and longer";
  EXPECT_TRUE(cluster.said("crrun --restart /shared/job"));
}

TEST_F(Job, AConnectionThatIsOnlyClosedNeedsNoRecovery) {
  Cluster cluster(model);
  cluster.run_until(5000);
  cluster.break_link(0, 3, ECONNRESET);
  ends_well(cluster);
  EXPECT_EQ(cluster.count("recovery-begin"), 0u);
}

TEST_F(Job, NoDescriptorsForConnectionsEndTheJobByName) {
  Cluster cluster(model);
  cluster.run_until(5000);
  cluster.break_link(0, 3, EMFILE);
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), kRestartable);
  EXPECT_TRUE(cluster.said("ulimit -n"));
}

TEST_F(Job, NoWaveBeginsBeforeEveryRankHasCalledMpiInit) {
  model.init_ms = 7000;
  Cluster cluster(model);
  ends_well(cluster);
  EXPECT_GE(cluster.count("wave-commit"), 1u);
  EXPECT_EQ(cluster.count("wave-abort"), 0u);
}

TEST_F(Job, ARankThatRepeatsMoreOutputThanItsDaemonKeepsGoesOn) {
  model.line_bytes = 60'000;
  model.window = 1 << 20;
  model.work_ms = 40'000;
  model.settings.wave_interval_ms = 100'000;
  Cluster cluster(model);
  cluster.run_until(2000);
  cluster.coordinator().request_checkpoint(1, {3000, 0});
  cluster.run_until(25'000);
  cluster.kill_rank(2, SIGKILL);
  ends_well(cluster);
  EXPECT_EQ(cluster.count("recovery-done"), 1u);
}

TEST_F(Job, WavesAreKeptUnlessTheJobEndsWell) {
  for (const char* how : {"interrupted", "timeout", "end", "abort"}) {
    if (how == std::string("timeout")) model.settings.run_timeout_ms = 6000;
    Cluster cluster(model);
    cluster.run_until(6000);
    ASSERT_GE(cluster.count("wave-staged"), 1u);
    if (how == std::string("interrupted")) cluster.coordinator().signal(SIGINT, {7000, 0});
    if (how == std::string("end")) cluster.coordinator().request_end(1, {7000, 0});
    if (how == std::string("abort")) cluster.abort(3, 5);
    ASSERT_TRUE(cluster.run()) << how;
    EXPECT_NE(cluster.code(), 0) << how;
    EXPECT_TRUE(cluster.said("crrun --restart /shared/job")) << how;
    if (std::exchange(model.settings.run_timeout_ms, 0)) continue;  // a restarted job has the same timeout
    cluster.restart_with({});
    ASSERT_TRUE(cluster.run()) << how;
    EXPECT_EQ(cluster.code(), 0) << how;
    EXPECT_EQ(cluster.staged_images(), 0u) << how << ": the job ended well, so nothing is left";
  }
}

TEST_F(Job, StagedImagesOfVoidWavesAreRemoved) {
  model.spares = 2;
  Cluster cluster(model);
  cluster.run_until(8500);
  const auto newest = static_cast<WaveNumber>(cluster.count("wave-commit"));
  cluster.damage(newest, 0, true, true);
  cluster.kill_node(0);
  cluster.run_while([&] { return cluster.count("resume") == 0; });
  EXPECT_FALSE(cluster.is_staged(newest)) << "the job has gone back to before it";
  ends_well(cluster);
}

TEST_F(Job, InterruptEndsItInOrder) {
  Cluster cluster(model);
  cluster.run_until(5000);
  cluster.coordinator().signal(SIGINT, {6000, 0});
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 130);
  EXPECT_LE(cluster.now_ms(), 7000u);
  EXPECT_EQ(cluster.count("recovery-begin"), 0u);
  EXPECT_THAT(cluster.violations(), IsEmpty());
}

TEST_F(Job, ALaterCrrunKnowsOfTheInterrupt) {
  Cluster cluster(model);
  cluster.run_until(5000);
  cluster.coordinator().signal(SIGINT, {5000, 5'000'000'000});
  cluster.run_until(5001);
  cluster.break_crrun();
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 130);
  EXPECT_EQ(cluster.count("recovery-begin"), 0u);
  EXPECT_THAT(cluster.violations(), IsEmpty());
}

TEST_F(Job, LeavesAtASignalWhenALastWaveIsStaged) {
  model.settings.wave_interval_ms = 600'000;  // none is due
  model.settings.leave_on = {SIGUSR1};
  Cluster cluster(model);
  cluster.run_until(5000);
  cluster.coordinator().signal(SIGUSR1, {6000, 6'000'000'000});
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), kRestartable);
  EXPECT_TRUE(cluster.said("SIGUSR1: the job takes a last wave"));
  EXPECT_EQ(cluster.count("wave-commit"), 1u);
  EXPECT_EQ(cluster.count("wave-staged"), 1u);
  EXPECT_THAT(cluster.violations(), IsEmpty());
  cluster.restart_with({});
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_THAT(cluster.violations(), IsEmpty());
}

TEST_F(Job, LeavesAlthoughANodeIsLostMeanwhile) {
  model.settings.leave_on = {SIGTERM};
  Cluster cluster(model);
  cluster.run_until(5000);
  cluster.coordinator().signal(SIGTERM, {6000, 6'000'000'000});
  cluster.run_until(5050);
  cluster.kill_node(1);
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), kRestartable);
  cluster.restart_with({});
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_THAT(cluster.violations(), IsEmpty());
}

TEST_F(Job, TheSecondSignalToLeaveKillsTheJob) {
  model.settings.leave_on = {SIGTERM};
  Cluster cluster(model);
  cluster.run_until(5000);
  cluster.coordinator().signal(SIGTERM, {6000, 6'000'000'000});
  cluster.coordinator().signal(SIGTERM, {6000, 6'000'000'000});
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 128 + SIGTERM);
}

TEST_F(Job, LeavesBeforeItsTimeEnds) {
  model.work_ms = 600'000;
  model.settings.wall_end_unix_s = 200;  // the time of day is that of the simulation and a second
  Cluster cluster(model);
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), kRestartable);
  EXPECT_TRUE(cluster.said("the time of this job in the batch system ends"));
  EXPECT_GT(cluster.now_ms(), 170'000u);
  EXPECT_LT(cluster.now_ms(), 199'000u);
}

TEST_F(Job, LeavesAtOnceWhenItsTimeIsShortAndNothingIsKnown) {
  model.work_ms = 600'000;
  model.settings.wall_end_unix_s = 60;
  Cluster cluster(model);
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), kRestartable);
  EXPECT_EQ(cluster.count("wave-staged"), 1u);
}

TEST_F(Job, WithoutSharedStorageALossBeginsAnewAndARankDeathDoesNot) {
  model.shared = false;
  Cluster cluster(model);
  cluster.run_until(5000);
  cluster.kill_rank(2, SIGKILL);
  cluster.run_while([&] { return cluster.count("recovery-done") == 0; });
  EXPECT_EQ(cluster.count("launch"), 1u);
  cluster.kill_node(1);
  ends_well(cluster);
  EXPECT_EQ(cluster.count("launch"), 2u);
}

TEST_F(Job, StatusTellsWhatThereIs) {
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.kill_node(1);
  cluster.run_while([&] { return cluster.count("recovery-done") == 0; });
  const auto status = cluster.coordinator().status({cluster.now_ms() + 1000, 0});
  EXPECT_EQ(status.at("phase"), "running");
  EXPECT_EQ(status.at("nodes")[1].at("state"), "lost");
  EXPECT_EQ(status.at("ranks")[2].at("node"), "node3");
  EXPECT_TRUE(status.at("last_recovery").at("done"));
}

// Failures at random moments; whatever happens, there is one process a rank, no wave that could be had is given up,
// and the job ends, well or with a clear word.
class RandomSchedule : public Job, public testing::WithParamInterface<int> {};

TEST_P(RandomSchedule, EndsOrGoesOn) {
  model.seed = static_cast<std::uint64_t>(GetParam());
  std::mt19937_64 random(model.seed * 7919);
  const auto any = [&](std::uint64_t below) { return random() % below; };
  model.nodes = 2 + static_cast<std::uint32_t>(any(3));
  model.spares = static_cast<std::uint32_t>(any(3));
  model.ranks = model.nodes * model.slots;
  model.work_ms = 20'000;
  model.again = any(3) ? 0 : 0.2;
  model.shared = any(5) > 0;
  model.settings.double_up = any(4) > 0;
  model.image_us = any(2) ? 20'000 : 800'000;
  Cluster cluster(model);
  const auto all = static_cast<std::uint32_t>(model.nodes + model.spares);
  const char* const moments[] = {"wave-begin", "wave-commit", "recovery-begin", "resume", "recovery-done", "launch", "wave-staged"};
  bool attached = false;
  for (std::uint64_t i = 0, failures = 1 + any(5); i < failures; ++i) {
    const NodeIndex node = static_cast<NodeIndex>(any(all));
    const auto kind = any(9);
    const auto wave = static_cast<WaveNumber>(1 + any(6));
    const auto rank = static_cast<Rank>(any(model.ranks));
    const auto act = [&, node, kind, wave, rank] {
      switch (kind) {
        case 0: cluster.kill_node(node); break;
        case 1:
          cluster.kill_node(node);
          cluster.at(cluster.now_ms() + 4000, [&cluster, node] { cluster.boot_node(node); });
          break;
        case 2: cluster.kill_daemon(node); break;
        case 3: cluster.kill_rank(rank, SIGKILL); break;
        case 4:
          cluster.cut(node, true);
          cluster.at(cluster.now_ms() + 10'000, [&cluster, node] { cluster.cut(node, false); });
          break;
        case 5: cluster.damage(wave, rank, true, true); break;
        case 6:
          if (!std::exchange(attached, true)) cluster.break_crrun();
          break;
        case 8: cluster.break_link(rank, (rank + 1) % model.ranks); break;
        case 7: cluster.coordinator().request_drain(100 + node, "node" + std::to_string(node), {cluster.now_ms() + 1000, 0}); break;
      }
    };
    at_random(cluster, any, 1000, 20'000, moments, act);
  }
  ends_clearly(cluster);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomSchedule, testing::Range(0, 400));

TEST_F(Job, AKilledDaemonBreaksManyConnectionsAndCrrunHearsOfFew) {
  model.nodes = 8;
  model.slots = 16;
  model.ranks = 128;
  model.costs.links = model.ranks - 1;
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.kill_daemon(2);
  ends_well(cluster);
  EXPECT_EQ(cluster.count("recovery-done"), 1u);
  // 1792 connections are broken at both ends of 7 pairs of nodes.
  EXPECT_GE(cluster.count("link-lost"), 1u);
  EXPECT_LE(cluster.count("link-lost"), 7u);
}

TEST_F(Job, ASlowDiskOfCrrunDelaysAndChangesNothing) {
  model.costs.sync_us = 300'000;
  model.costs.crrun_disk = 0.1;
  Cluster cluster(model);
  cluster.when(event("wave-commit"), [&] { cluster.at(cluster.now_ms() + 100, [&] { cluster.break_crrun(); }); });
  cluster.run_until(7000);
  cluster.kill_node(1);
  ends_well(cluster);
  EXPECT_GE(cluster.count("recovery-done"), 1u);
}

TEST_F(Job, StagingTakesItsTime) {
  model.image_bytes = 1'000'000;
  model.costs.local_disk = 100;
  model.costs.node_to_shared = 10;
  model.costs.shared = 15;
  model.settings.staging_nodes = 3;
  model.work_ms = 20'000;
  Cluster cluster(model);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("wave-commit") == 0; }));
  const std::uint64_t committed = cluster.now_ms();
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("wave-staged") == 0; }));
  EXPECT_GE(cluster.now_ms() - committed, 6'000'000u / 15 / 1000) << "6 MB at 15 MB/s";
  cluster.kill_node(1);
  ends_well(cluster);
}

// Ten thousand nodes, as a tree: the coordinator sees a hundredth of the messages, and all goes as it does with four.
TEST(LargeJob, TenThousandNodesLoseOne) {
  Model model;
  model.nodes = 10'000;
  model.spares = 2;
  model.slots = 2;
  model.ranks = 20'000;
  model.fan_out = 64;
  model.output = false;
  model.step_ms = 60'000;
  model.work_ms = 120'000;
  model.settings.lost_after_ms = 6000;
  model.settings.staging_nodes = 500;
  model.settings.spec.set_heartbeat_ms(1000);
  Cluster cluster(model);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("launch") == 0; }));
  cluster.run_until(cluster.now_ms() + 2000);
  cluster.reset_traffic();
  cluster.coordinator().request_checkpoint(1, {cluster.now_ms() + 1000, 0});
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("wave-commit") == 0; }));
  EXPECT_LT(cluster.traffic().at_crrun, 1000u);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("wave-staged") == 0; }));
  cluster.kill_node(9'999);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-begin") == 0; }));
  cluster.reset_traffic();
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") == 0; }));
  EXPECT_LT(cluster.traffic().at_crrun, 2000u);
  EXPECT_EQ(cluster.where(19'999), 10'000u);
  EXPECT_THAT(cluster.violations(), IsEmpty());
}

}  // namespace
}  // namespace reprise::job::sim
