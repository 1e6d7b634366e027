// SPDX-License-Identifier: GPL-2.0-only
// What the coordinator counts and measures for --metrics, with simulated daemons.
#include <gmock/gmock.h>

#include <numeric>

#include "simulated_job.h"

namespace reprise::job::sim {
namespace {

template <class T>
std::uint64_t total(const T& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

class MetricsOfAJob : public SimulatedJob {
 protected:
  MetricsOfAJob() { model.settings.wave_interval_ms = 2000; }
  static Metrics metrics(Cluster& cluster) {
    return cluster.coordinator().take_metrics({cluster.now_ms() + 1000, 1'000'000'000ull + cluster.now_ms() * 1'000'000});
  }
  static std::uint64_t given_up(const Metrics& metrics, GivenUp why) { return metrics.tally.given_up[static_cast<std::size_t>(why)]; }
  static std::uint64_t recoveries(const Metrics& metrics, CauseKind kind) { return metrics.tally.recoveries[static_cast<std::size_t>(kind)]; }
  static Durations standstill(const Metrics& metrics, CauseKind kind) {
    return metrics.tally.recovery_standstill[static_cast<std::size_t>(kind)];
  }
  /** The counts are those of the timeline. */
  static void expect_timeline(const Metrics& metrics, const Cluster& cluster) {
    EXPECT_EQ(metrics.tally.wave.count, cluster.count("wave-commit"));
    EXPECT_EQ(metrics.tally.wave_standstill.count, cluster.count("wave-commit"));
    EXPECT_EQ(total(metrics.tally.given_up), cluster.count("wave-abort"));
    EXPECT_EQ(metrics.tally.staging.count, cluster.count("wave-staged"));
    EXPECT_EQ(total(metrics.tally.recoveries), cluster.count("recovery-begin"));
    EXPECT_EQ(metrics.tally.nodes_lost, cluster.count("node-lost"));
    std::uint64_t written = 0, staged = 0;
    for (const auto& line : cluster.timeline()) {
      if (line.at("event") == "wave-commit") written += line.at("bytes").get<std::uint64_t>();
      if (line.at("event") == "staged-rank") staged += line.at("bytes").get<std::uint64_t>() - line.at("kept").get<std::uint64_t>();
      if (line.at("event") == "wave-rank") {
        EXPECT_EQ(line.at("inherited"), line.at("bytes").get<std::uint64_t>() / 2);
      }
    }
    EXPECT_EQ(metrics.tally.written_bytes, written);
    EXPECT_EQ(metrics.tally.staged_bytes, staged);
  }
};

TEST_F(MetricsOfAJob, WithoutFailures) {
  Cluster cluster(model);
  cluster.run_until(7000);
  Metrics now = metrics(cluster);
  EXPECT_EQ(now.phase, Phase::running);
  EXPECT_EQ(now.program, "program");
  EXPECT_EQ(now.ranks, model.ranks);
  EXPECT_THAT(now.nodes, testing::UnorderedElementsAre(testing::Pair("up", model.nodes), testing::Pair("spare", model.spares)));
  EXPECT_EQ(now.wave_interval_ms, 2000u);
  EXPECT_TRUE(now.newest_wave_unix_ns);
  EXPECT_TRUE(now.newest_staged_unix_ns);
  ASSERT_TRUE(now.waves_to_stage);
  EXPECT_GE(now.tally.wave.count, 2u);
  EXPECT_GT(now.tally.wave.sum_ns, 0u);
  ends_well(cluster);
  now = metrics(cluster);
  expect_timeline(now, cluster);
  EXPECT_EQ(now.phase, Phase::finished);
  EXPECT_EQ(now.exit_code, 0);
  EXPECT_FALSE(now.lease_left_ms) << "nobody has a lease any more";
  EXPECT_EQ(total(now.tally.recoveries), 0u);
  EXPECT_EQ(now.tally.ranks_moved, 0u);
}

TEST_F(MetricsOfAJob, ALostNodeIsCountedWithTheTimeThatItCost) {
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.kill_node(1);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") == 0; }));
  const Metrics now = metrics(cluster);
  EXPECT_EQ(now.nodes.at("lost"), 1u);
  EXPECT_EQ(now.nodes.count("spare"), 0u);
  EXPECT_EQ(recoveries(now, CauseKind::node_lost), 1u);
  EXPECT_EQ(now.tally.ranks_moved, 2u);
  EXPECT_EQ(now.tally.ranks_restarted, 2u);
  const Durations cost = standstill(now, CauseKind::node_lost);
  EXPECT_EQ(cost.count, 1u);
  EXPECT_EQ(cost.last_ns, now.tally.last_recovery_standstill_ns);
  // From the last heartbeat before, so with the silence.
  EXPECT_GE(cost.sum_ns, 1'000'000'000u);
  EXPECT_LE(cost.sum_ns, (cluster.now_ms() - 6000) * 1'000'000);
  ends_well(cluster);
  expect_timeline(metrics(cluster), cluster);
}

TEST_F(MetricsOfAJob, CausesAreToldApart) {
  model.work_ms = 30'000;
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.kill_rank(3, 9);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") < 1; }));
  cluster.coordinator().request_drain(1, "node0", {cluster.now_ms() + 1000, 0});
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") < 2; }));
  const Metrics now = metrics(cluster);
  EXPECT_EQ(recoveries(now, CauseKind::rank_died), 1u);
  EXPECT_EQ(recoveries(now, CauseKind::drain), 1u);
  EXPECT_EQ(standstill(now, CauseKind::rank_died).count, 1u);
  EXPECT_EQ(standstill(now, CauseKind::drain).count, 1u);
  EXPECT_EQ(now.tally.nodes_lost, 0u);
  EXPECT_EQ(now.tally.ranks_moved, 2u) << "by the drain";
  EXPECT_EQ(now.nodes.at("drained"), 1u);
  ends_well(cluster);
  expect_timeline(metrics(cluster), cluster);
}

TEST_F(MetricsOfAJob, RecoveriesOneAfterTheOtherAreOneStandstill) {
  model.spares = 2;
  Cluster cluster(model);
  cluster.run_until(7000);
  cluster.kill_node(1);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-begin") == 0; }));
  cluster.kill_node(0);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") == 0; }));
  const Metrics now = metrics(cluster);
  EXPECT_EQ(recoveries(now, CauseKind::node_lost), 2u);
  EXPECT_EQ(standstill(now, CauseKind::node_lost).count, 1u);
  ends_well(cluster);
}

TEST_F(MetricsOfAJob, AWaveThatIsGivenUpHasItsReason) {
  Cluster cluster(model);
  cluster.when([](const nlohmann::json& line) { return line.at("event") == "wave-begin" && line.at("wave") == 2; },
               [&] { cluster.kill_node(1); });
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") == 0; }));
  EXPECT_EQ(given_up(metrics(cluster), GivenUp::recovery), 1u);
  ends_well(cluster);
  expect_timeline(metrics(cluster), cluster);
}

TEST_F(MetricsOfAJob, WavesThatAreNotCopiedWait) {
  Cluster cluster(model);
  cluster.shared_gone(true);
  cluster.run_until(9000);
  const Metrics now = metrics(cluster);
  EXPECT_GE(now.waves_to_stage.value_or(0), 2u);
  EXPECT_FALSE(now.newest_staged_unix_ns);
  EXPECT_EQ(now.tally.staged_bytes, 0u);
}

TEST(LeaseMarginTest, IsTheShortestSinceItWasAskedFor) {
  std::vector<Node> nodes(2);
  nodes[1].set_index(1);
  Membership members(nodes, 6000, 0, 400);
  EXPECT_FALSE(members.take_lease_left({0, 0})) << "no node is up";
  members.hello(0, "a", {}, {1000, 0});
  members.hello(1, "b", {}, {1000, 0});
  EXPECT_EQ(members.take_lease_left({1000, 0}), 4000) << "2/3 of the longest silence";
  const auto beat = [&](NodeIndex node, std::uint64_t ms) {
    ASSERT_TRUE(members.heard(node, node ? "b" : "a", {ms, 0}));
    members.beat(node, true, {ms, 0});
  };
  beat(0, 1400);
  beat(1, 1400);
  EXPECT_EQ(members.take_lease_left({1400, 0}), 3600) << "what it was just before";
  beat(0, 1800);
  beat(0, 2200);
  beat(1, 4900);  // late
  beat(0, 4900);
  EXPECT_LE(*members.take_lease_left({4900, 0}), 500);
  EXPECT_GT(*members.take_lease_left({4900, 0}), 500) << "it is over";
  EXPECT_LT(*members.take_lease_left({20'000, 0}), 0) << "their ranks stand still";
  members.lose(0, {20'000, 0});
  members.lose(1, {20'000, 0});
  EXPECT_FALSE(members.take_lease_left({20'000, 0}));
}

}  // namespace
}  // namespace reprise::job::sim
