// SPDX-License-Identifier: GPL-2.0-only
// Processes that the job has spawned: where they run, and what becomes of them when something is lost.
#include <gmock/gmock.h>

#include <csignal>

#include "crrun/coordinator/spawns.h"
#include "simulated_job.h"

namespace reprise::job::sim {
namespace {

using testing::ElementsAre;

SpawnApp app(std::uint32_t processes, const std::string& hosts = "") {
  SpawnApp out;
  out.add_argv("child");
  out.set_processes(processes);
  out.set_hosts(hosts);
  return out;
}

TEST(PlaceSpawned, TakesFreeSlotsFirstAndThenOneInTurn) {
  const std::vector<Seat> seats{{0, 2}, {1, 2}, {2, 0}};
  const std::map<NodeIndex, std::uint32_t> used{{0, 2}, {1, 1}};
  EXPECT_THAT(*place_spawned({app(1)}, seats, used, {}), ElementsAre(1));
  EXPECT_THAT(*place_spawned({app(4)}, seats, used, {}), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(*place_spawned({app(1), app(1)}, seats, used, {}), ElementsAre(1, 0));
}

TEST(PlaceSpawned, KeepsToNamedHostsAndToNodesThatCanBeUsed) {
  std::vector<Seat> seats{{0, 2}, {1, 2}};
  const std::map<std::string, NodeIndex> nodes{{"a", 0}, {"b", 1}};
  EXPECT_THAT(*place_spawned({app(3, "b:2")}, seats, {}, nodes), ElementsAre(1, 1, 1));
  EXPECT_FALSE(place_spawned({app(1, "c")}, seats, {}, nodes));
  seats[1].usable = false;
  EXPECT_FALSE(place_spawned({app(1, "b")}, seats, {}, nodes));
}

TEST(Fences, AreOfSeveralNamespacesAndGroupsHaveContexts) {
  Fences fences;
  const PlacementTable placement{0, 0, 1};
  const Fences::Others others{{7, 2}};
  Fence fence;
  for (Rank rank : {7u, 0u}) fence.add_members(rank);
  fence.set_data("x");
  EXPECT_FALSE(fences.contribute(0, fence, placement, others));
  fence.set_spawned(true);
  const auto done = fences.contribute(2, fence, placement, others);
  fence.set_spawned(false);
  ASSERT_TRUE(done);
  EXPECT_THAT(done->to, ElementsAre(0, 2));
  EXPECT_EQ(done->message.data(), "xx");

  std::uint64_t next = 5;
  const auto context = [&] { return next++; };
  fence.clear_members();
  fence.set_group("+one");
  fence.set_context(true);
  EXPECT_FALSE(fences.contribute(0, fence, placement, {}, context));
  Fence other = fence;
  other.set_group("+two");
  EXPECT_FALSE(fences.contribute(1, other, placement, {}, context));
  EXPECT_EQ(fences.contribute(1, fence, placement, {}, context)->message.context(), 5u);
  EXPECT_EQ(fences.contribute(0, other, placement, {}, context)->message.context(), 6u);
  // Somebody who has missed it hears the same, and no further id is used.
  EXPECT_EQ(fences.contribute(1, fence, placement, {}, context)->message.context(), 5u);
  EXPECT_EQ(next, 7u);
}

TEST(Board, ForgetsWhatIsToBeReadOnce) {
  Board board;
  Publish publish;
  (*publish.mutable_values())["once"] = "1";
  publish.set_once(true);
  board.publish(0, publish);
  Lookup lookup;
  lookup.add_keys("once");
  EXPECT_EQ(board.lookup(1, lookup)->reply.values().at("once"), "1");
  EXPECT_TRUE(board.lookup(1, lookup)->reply.values().empty());
  board.publish(0, publish);
  board.rolled_back();
  EXPECT_TRUE(board.lookup(1, lookup)->reply.values().empty());
}

class Spawning : public SimulatedJob {
 protected:
  Spawning() {
    model.settings.wave_interval_ms = 1000;
    model.slots = 3;  // each node has one that is free
    model.ranks = 6;
    model.settings.spec.mutable_mapping()->set_by_node(true);
  }
};

TEST_F(Spawning, TheReplyComesWhenAllRun) {
  Cluster cluster(model);
  cluster.run_until(2000);
  cluster.spawn(0, 4, 1000);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.spawn_replies().empty(); }));
  EXPECT_EQ(cluster.spawn_replies()[0].status(), 0);
  EXPECT_EQ(cluster.spawn_replies()[0].nspace(), "job@1");
  // One on each free slot, and the fourth in turn; the spare is left alone.
  EXPECT_THAT(cluster.spawned(), ElementsAre(testing::Pair(6, 0), testing::Pair(7, 1), testing::Pair(8, 2), testing::Pair(9, 0)));
  cluster.spawn(1, 1, 1000);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.spawn_replies().size() < 2; }));
  EXPECT_EQ(cluster.spawn_replies()[1].nspace(), "job@2");
  ends_well(cluster);
}

TEST_F(Spawning, WavesHaveThemWhileTheyRun) {
  Cluster cluster(model);
  cluster.run_until(2500);
  cluster.spawn(0, 2, 4000);
  cluster.run_until(3000);
  const std::size_t waves = cluster.count("wave-commit");
  cluster.coordinator().request_checkpoint(77, {cluster.now_ms() + 1000, 0});
  cluster.run_until(6000);
  EXPECT_GE(cluster.count("wave-commit"), waves + 2);
  ASSERT_TRUE(cluster.replies().count(77));
  EXPECT_TRUE(cluster.replies().at(77).first) << cluster.replies().at(77).second;
  const StoredWaves& stored = cluster.coordinator().store().waves();
  ASSERT_FALSE(stored.empty());
  ASSERT_EQ(stored.rbegin()->second.families.size(), 1u);
  EXPECT_EQ(stored.rbegin()->second.families[0].first, 6u);
  EXPECT_EQ(stored.rbegin()->second.ranks.size(), 8u);
  cluster.run_until(9000);
  EXPECT_TRUE(stored.rbegin()->second.families.empty()) << "they have ended";
  ends_well(cluster);
}

TEST_F(Spawning, NoWaveIsTakenWhileOnlySomeOfThemRun) {
  Cluster cluster(model);
  cluster.run_until(2500);
  cluster.spawn(0, 2, 6000);
  cluster.run_until(4500);
  cluster.kill_rank(7, 0);
  const std::size_t waves = cluster.count("wave-commit");
  cluster.run_until(7000);
  EXPECT_EQ(cluster.count("wave-commit"), waves);
  EXPECT_EQ(std::count_if(cluster.said().begin(), cluster.said().end(),
                          [](const std::string& text) { return text.find("no wave: some processes of MPI_Comm_spawn 1") == 0; }), 1);
  cluster.run_until(11'000);
  EXPECT_GT(cluster.count("wave-commit"), waves);
  ends_well(cluster);
}

/** Run until a wave with spawned processes is in shared storage. */
void wave_with_them(Cluster& cluster) {
  ASSERT_TRUE(cluster.run_while([&] {
    const Store& store = cluster.coordinator().store();
    return !store.newest_staged() || store.find(*store.newest_staged())->families.empty();
  }));
}

TEST_F(Spawning, ALostNodesProcessesAreRestartedElsewhere) {
  Cluster cluster(model);
  cluster.run_until(3000);
  cluster.spawn(0, 3, 5000);
  ASSERT_NO_FATAL_FAILURE(wave_with_them(cluster));
  cluster.kill_node(1);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") == 0; }));
  EXPECT_THAT(cluster.spawned(), ElementsAre(testing::Pair(6, 0), testing::Pair(7, 3), testing::Pair(8, 2)));
  ASSERT_NO_FATAL_FAILURE(wave_with_them(cluster));
  ends_well(cluster);
  EXPECT_EQ(cluster.spawn_replies().size(), 1u);
  EXPECT_EQ(cluster.count("spawn"), 1u);
}

TEST_F(Spawning, OneThatIsKilledIsRestarted) {
  Cluster cluster(model);
  cluster.run_until(3000);
  cluster.spawn(0, 2, 5000);
  ASSERT_NO_FATAL_FAILURE(wave_with_them(cluster));
  cluster.kill_rank(7, SIGKILL);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") == 0; }));
  EXPECT_EQ(cluster.spawned().size(), 2u);
  EXPECT_TRUE(cluster.said("rank 1 of job.1"));
  ends_well(cluster);
}

TEST_F(Spawning, MessagesThatTwoOfThemHaveLostComeAgain) {
  Cluster cluster(model);
  cluster.run_until(3000);
  cluster.spawn(0, 2, 5000);
  ASSERT_NO_FATAL_FAILURE(wave_with_them(cluster));
  Up up;
  up.set_from(1);
  up.set_instance(cluster.coordinator().members().at(1).instance);
  up.set_recovery(cluster.coordinator().recovery());
  up.mutable_link_lost()->set_rank(7);
  up.mutable_link_lost()->set_peer(6);
  up.mutable_link_lost()->set_error(ENODATA);
  up.mutable_link_lost()->set_recovery(cluster.coordinator().recovery());
  cluster.coordinator().message(up, {cluster.now_ms() + 1000, 0});
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") == 0; }));
  EXPECT_TRUE(cluster.said("broken connection between rank 1 of job.1"));
  ends_well(cluster);
}

TEST_F(Spawning, OnesThatHaveEndedSinceComeBack) {
  model.settings.wave_interval_ms = 0;
  Cluster cluster(model);
  cluster.run_until(2000);
  cluster.spawn(0, 2, 3000);
  cluster.run_until(3000);
  cluster.coordinator().request_checkpoint(77, {cluster.now_ms() + 1000, 0});
  ASSERT_NO_FATAL_FAILURE(wave_with_them(cluster));
  cluster.run_until(7000);
  ASSERT_TRUE(cluster.spawned().empty());
  EXPECT_EQ(cluster.count("spawn-end"), 1u);
  cluster.kill_rank(3, SIGKILL);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") == 0; }));
  EXPECT_EQ(cluster.spawned().size(), 2u);
  ends_well(cluster);
  EXPECT_EQ(cluster.count("spawn-end"), 2u);
}

TEST_F(Spawning, AnotherCrrunFindsThemInTheNewestWave) {
  Cluster cluster(model);
  cluster.run_until(3000);
  cluster.spawn(0, 2, 5000);
  ASSERT_NO_FATAL_FAILURE(wave_with_them(cluster));
  cluster.break_crrun();
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") == 0; }));
  EXPECT_EQ(cluster.spawned().size(), 2u);
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_THAT(cluster.violations(), testing::IsEmpty());
}

TEST_F(Spawning, ANodeIsDrainedOfThem) {
  Cluster cluster(model);
  cluster.run_until(3000);
  cluster.spawn(0, 2, 20'000);
  ASSERT_NO_FATAL_FAILURE(wave_with_them(cluster));
  const auto before = cluster.spawned();
  const NodeIndex node = before.begin()->second;
  cluster.coordinator().request_drain(5, "node" + std::to_string(node), {cluster.now_ms() + 1000, 0});
  ASSERT_TRUE(cluster.run_while([&] { return !cluster.replies().count(5); }));
  EXPECT_TRUE(cluster.replies().at(5).first) << cluster.replies().at(5).second;
  EXPECT_EQ(cluster.spawned().size(), before.size());
  for (const auto& [number, where] : cluster.spawned()) EXPECT_NE(where, node) << number;
  for (Rank rank = 0; rank < model.ranks; ++rank) EXPECT_NE(cluster.where(rank), node) << rank;
  EXPECT_EQ(cluster.count("recovery-begin"), 1u);
  ends_well(cluster);
}

TEST_F(Spawning, ANodeIsDrainedThatHasNothingButThem) {
  model.nodes = 4;
  model.slots = 2;
  model.settings.spec.mutable_mapping()->set_by_node(false);
  Cluster cluster(model);
  cluster.run_until(3000);
  cluster.spawn(0, 2, 20'000);
  ASSERT_NO_FATAL_FAILURE(wave_with_them(cluster));
  ASSERT_EQ(cluster.spawned().begin()->second, 3u);
  const auto node3 = [&] { return cluster.coordinator().status({cluster.now_ms() + 1000, 0}).at("nodes").at(3); };
  EXPECT_EQ(node3().at("ranks"), 2u);
  cluster.coordinator().request_drain(5, "node3", {cluster.now_ms() + 1000, 0});
  EXPECT_EQ(node3().at("state"), "draining");
  ASSERT_TRUE(cluster.run_while([&] { return !cluster.replies().count(5); }));
  EXPECT_TRUE(cluster.replies().at(5).first) << cluster.replies().at(5).second;
  ASSERT_EQ(cluster.spawned().size(), 2u);
  for (const auto& [number, where] : cluster.spawned()) EXPECT_NE(where, 3u) << number;
  EXPECT_EQ(node3().at("state"), "drained");
  ends_well(cluster);
}

TEST_F(Spawning, OnesThatBeginDuringADrainAreSpawnedAgainElsewhere) {
  Cluster cluster(model);
  cluster.run_until(3000);
  cluster.coordinator().request_drain(5, "node1", {cluster.now_ms() + 1000, 0});
  cluster.when([](const nlohmann::json& line) { return line.at("event") == "wave-commit"; }, [&] { cluster.spawn(0, 6, 20'000); });
  ASSERT_TRUE(cluster.run_while([&] { return !cluster.replies().count(5); }));
  EXPECT_TRUE(cluster.replies().at(5).first) << cluster.replies().at(5).second;
  for (const auto& [number, where] : cluster.spawned()) EXPECT_NE(where, 1u) << number;
  ends_well(cluster);
}

TEST_F(Spawning, ALostNodeEndsThemAndTheJobGoesBackToBeforeThem) {
  Cluster cluster(model);
  cluster.run_until(3000);
  cluster.spawn(0, 3, 100'000);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.spawn_replies().empty(); }));
  cluster.kill_node(1);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") == 0; }));
  EXPECT_TRUE(cluster.spawned().empty());
  // It spawns again, by another name.
  cluster.spawn(0, 3, 500);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.spawn_replies().size() < 2; }));
  EXPECT_EQ(cluster.spawn_replies()[1].nspace(), "job@2");
  for (const auto& [number, node] : cluster.spawned()) EXPECT_GE(number, 9u);
  ends_well(cluster);
}

TEST_F(Spawning, ASpawnUnderWayIsVoidedByARecovery) {
  Cluster cluster(model);
  cluster.run_until(3000);
  cluster.kill_node(2);
  cluster.spawn(0, 3, 100'000);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") == 0; }));
  EXPECT_TRUE(cluster.spawn_replies().empty());
  EXPECT_TRUE(cluster.spawned().empty());
  ends_well(cluster);
}

TEST_F(Spawning, ARankThatIsBackBeforeTheOthersIsHeardWhenAllAre) {
  Cluster cluster(model);
  cluster.run_until(3000);
  cluster.kill_node(2);
  std::uint32_t asked = 0;
  cluster.when([](const nlohmann::json& line) { return line.at("event") == "resume"; }, [&] {
    Up up;
    up.set_from(0);
    up.set_instance(cluster.coordinator().members().at(0).instance);
    up.set_recovery(cluster.coordinator().recovery());
    up.mutable_spawn()->set_id(++asked);
    up.mutable_spawn()->set_from(0);
    up.mutable_spawn()->set_recovery(cluster.coordinator().recovery());
    SpawnApp& app = *up.mutable_spawn()->add_apps();
    app.add_argv("child");
    app.add_argv("500");
    app.set_processes(2);
    EXPECT_EQ(cluster.coordinator().phase(), Coordinator::Phase::recovering);
    for (int again = 0; again < 2; ++again) cluster.coordinator().message(up, {cluster.now_ms() + 1000, 0});
  });
  ASSERT_TRUE(cluster.run_while([&] { return cluster.spawn_replies().empty(); }));
  EXPECT_EQ(asked, 1u);
  EXPECT_EQ(cluster.count("spawn"), 1u);
  ends_well(cluster);
}

TEST_F(Spawning, OneThatFailsEndsTheJob) {
  Cluster cluster(model);
  cluster.run_until(3000);
  cluster.spawn(0, 2, 100'000);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.spawn_replies().empty(); }));
  cluster.kill_rank(7, 3 << 8);
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 3);
  EXPECT_TRUE(cluster.said("rank 1 of job.1"));
}

TEST_F(Spawning, TheJobEndsWhenTheLastOneHas) {
  model.work_ms = 4000;
  Cluster cluster(model);
  cluster.run_until(3000);
  cluster.spawn(0, 2, 8000);
  ends_well(cluster);
  EXPECT_GE(cluster.now_ms(), 11'000u);
}

TEST_F(Spawning, AnotherCrrunGoesBackToBeforeThem) {
  Cluster cluster(model);
  cluster.run_until(3000);
  cluster.spawn(0, 2, 100'000);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.spawn_replies().empty(); }));
  cluster.break_crrun();
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") == 0; }));
  EXPECT_TRUE(cluster.spawned().empty());
  // What the ranks say again it cannot know for the same: it was not there when they said it first.
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_THAT(cluster.violations(), testing::IsEmpty());
}

}  // namespace
}  // namespace reprise::job::sim
