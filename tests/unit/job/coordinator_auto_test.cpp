// SPDX-License-Identifier: GPL-2.0-only
// --checkpoint-every auto in the coordinator, with simulated daemons: when waves begin, what is learned, and what is kept of it.
#include <gmock/gmock.h>

#include <csignal>

#include "simulated_job.h"

namespace reprise::job::sim {
namespace {

class AutoJob : public SimulatedJob {
 protected:
  AutoJob() {
    model.settings.wave_interval_auto = true;
    model.settings.node_mtbf_ms = 3'600'000;
    model.work_ms = 150'000;
    model.output = true;
  }
  /** Times in seconds of all such events. */
  static std::vector<double> times(const Cluster& cluster, const std::string& name) {
    std::vector<double> out;
    for (const auto& line : cluster.timeline())
      if (line.at("event") == name) out.push_back(line.at("t").get<double>() / 1e9);
    return out;
  }
  nlohmann::json status(Cluster& cluster) { return cluster.coordinator().status({cluster.now_ms() + 1000, 0}); }
};

TEST_F(AutoJob, TakesAFirstWaveSoonAndThenThoseThatLoseLeast) {
  model.settings.wave_share = 0.00015;  // a wave costs 3 ms
  Cluster cluster(model);
  cluster.run_until(10'000);
  EXPECT_EQ(status(cluster).at("wave_interval").at("limit"), "first");
  cluster.run_until(40'000);
  EXPECT_EQ(status(cluster).at("wave_interval").at("limit"), "share");
  EXPECT_EQ(status(cluster).at("wave_interval_ms"), 20'000);
  EXPECT_DOUBLE_EQ(status(cluster).at("wave_interval").at("mtbf_s").get<double>(), 1200) << "of three nodes with ranks";
  EXPECT_DOUBLE_EQ(status(cluster).at("wave_interval").at("cost_s").get<double>(), 0.003);
  ends_well(cluster);
  const std::vector<double> begun = times(cluster, "wave-begin");
  ASSERT_GE(begun.size(), 5u);
  EXPECT_NEAR(begun[0], times(cluster, "launch")[0] + 30, 0.2);
  for (std::size_t i = 1; i < begun.size(); ++i) EXPECT_NEAR(begun[i] - begun[i - 1], 20, 0.2);
  EXPECT_EQ(cluster.count("wave-interval"), 2u) << "the timeline has its changes";
}

TEST_F(AutoJob, ADueWaveWaitsWhileTheLastOneIsStagedUnlessAUserAsks) {
  model.image_bytes = 1'000'000;
  model.costs.local_disk = 100;
  model.costs.node_to_shared = 0.05;  // 2 MB a node in 40 s
  model.settings.staging_nodes = 3;
  Cluster cluster(model);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("wave-commit") == 0; }));
  cluster.run_until(cluster.now_ms() + 15'000);
  EXPECT_EQ(status(cluster).at("wave_interval").at("waits_for_staging_of"), 1);
  EXPECT_EQ(cluster.count("wave-begin"), 1u) << "it would have been due after ten seconds";
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("wave-begin") < 2; }));
  EXPECT_EQ(cluster.count("wave-staged"), 1u);
  cluster.run_until(cluster.now_ms() + 12'000);
  EXPECT_EQ(cluster.count("wave-begin"), 2u);
  EXPECT_EQ(status(cluster).at("wave_interval").at("limit"), "staging");
  cluster.coordinator().request_checkpoint(7, {cluster.now_ms() + 1000, 1});
  ASSERT_TRUE(cluster.run_while([&] { return !cluster.replies().count(7); }, 5000));
  EXPECT_TRUE(cluster.replies().at(7).first);
  EXPECT_EQ(cluster.count("wave-staged"), 1u);
  ends_well(cluster);
}

TEST_F(AutoJob, StagingThatFailsIsNotWaitedFor) {
  Cluster cluster(model);
  cluster.shared_gone(true);
  ends_well(cluster);
  EXPECT_EQ(cluster.count("wave-staged"), 0u);
  EXPECT_GE(cluster.count("wave-commit"), 8u);
}

TEST_F(AutoJob, FailuresAreLearnedAndDrainsAreNone) {
  model.settings.node_mtbf_ms = 0;
  Cluster cluster(model);
  cluster.run_until(45'000);
  const double at_first = status(cluster).at("wave_interval").at("mtbf_s");
  cluster.coordinator().request_drain(1, "node0", {cluster.now_ms() + 1000, 0});
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") < 1; }));
  EXPECT_EQ(cluster.coordinator().state().learned.failures, 0u);
  cluster.kill_node(1);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") < 2; }));
  const Learned learned = cluster.coordinator().state().learned;
  EXPECT_EQ(learned.failures, 1u);
  EXPECT_EQ(learned.recoveries, 1u);
  EXPECT_GE(learned.recovery_ms, model.settings.lost_after_ms - 1000) << "with the silence";
  EXPECT_LT(status(cluster).at("wave_interval").at("mtbf_s").get<double>(), 0.5 * at_first);
  cluster.kill_rank(3, 9);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") < 3; }));
  EXPECT_EQ(cluster.coordinator().state().learned.failures, 2u);
  ends_well(cluster);
}

TEST_F(AutoJob, ALaterCrrunGoesOnWithWhatWasLearned) {
  model.settings.leave_on = {SIGTERM};
  model.settings.node_mtbf_ms = 0;
  Cluster cluster(model);
  cluster.run_until(40'000);
  cluster.kill_node(1);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") == 0; }));
  cluster.run_until(60'000);
  const Learned before = cluster.coordinator().state().learned;
  EXPECT_GE(before.waves, 2u);
  EXPECT_EQ(before.failures, 1u);
  const std::vector<double> begun = times(cluster, "wave-begin");
  cluster.break_crrun();
  cluster.run_until(70'000);
  EXPECT_EQ(cluster.coordinator().state().learned, before) << "--attach";
  EXPECT_NE(status(cluster).at("wave_interval").at("limit"), "first");
  cluster.coordinator().signal(SIGTERM, {cluster.now_ms() + 1000, (cluster.now_ms() + 1000) * 1'000'000});
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), kRestartable);
  const std::uint64_t waves = cluster.saved().learned.waves;
  EXPECT_GT(waves, before.waves);
  cluster.restart_with({});
  ASSERT_TRUE(cluster.run_while([&] { return cluster.coordinator().state().learned.waves == waves; }));
  EXPECT_EQ(cluster.coordinator().state().learned.failures, 1u) << "--restart; leaving is no failure";
  EXPECT_GT(cluster.coordinator().state().learned.node_ms, before.node_ms);
  ends_well(cluster);
}

TEST_F(AutoJob, AnAttachedCrrunCountsTheIntervalFromTheLastWave) {
  model.settings.wave_share = 0.00015;  // every 20 s
  Cluster cluster(model);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("wave-commit") < 2; }));
  const std::uint64_t committed = cluster.now_ms();
  cluster.run_until(committed + 12'000);
  cluster.break_crrun();
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("wave-begin") < 3; }));
  EXPECT_NEAR(static_cast<double>(cluster.now_ms()), static_cast<double>(committed + 20'000), 500);
  ends_well(cluster);
}

TEST_F(AutoJob, FailuresAtAnyTimeAreSurvivedAndWhatIsLearnedIsSaved) {
  model.spares = 2;
  model.work_ms = 90'000;
  for (model.seed = 1; model.seed <= 12; ++model.seed) {
    SCOPED_TRACE(model.seed);
    Cluster cluster(model);
    const auto some = [&] { return 1000 + cluster.random()() % 85'000; };
    cluster.at(some(), [&] { cluster.kill_node(static_cast<NodeIndex>(cluster.random()() % 3)); });
    cluster.at(some(), [&] { cluster.kill_rank(static_cast<Rank>(cluster.random()() % 6), 9); });
    cluster.at(some(), [&] { cluster.break_crrun(); });
    ends_well(cluster);
    EXPECT_GE(cluster.saved().learned.waves, 5u);
  }
}

TEST(LearnedStateTest, ComesBackAlsoFromAStateWithoutIt) {
  State state;
  state.placement = {0, 1};
  state.incarnation = {0, 0};
  state.learned = {.waves = 1, .cost_us = 2, .last_cost_us = 3, .whole_ms = 4, .staged = 5, .staging_ms = 6, .recoveries = 7, .recovery_ms = 8, .failures = 9, .node_ms = 10};
  nlohmann::json json = to_json(state);
  EXPECT_EQ(state_from_json(json, 2), state);
  State other;
  update(other, record_from_json(nlohmann::json::parse(to_json(Record(state.learned)).dump()), 2));
  EXPECT_EQ(other.learned, state.learned);
  json.erase("learned");
  EXPECT_EQ(state_from_json(json, 2).learned, Learned{});
}

}  // namespace
}  // namespace reprise::job::sim
