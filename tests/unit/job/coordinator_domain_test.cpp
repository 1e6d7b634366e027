// SPDX-License-Identifier: GPL-2.0-only
// Recoveries that take only spawned processes back while the job's own ranks run on, and why others do not.
#include <gmock/gmock.h>

#include <csignal>

#include "crrun/coordinator/domain.h"
#include "simulated_job.h"

namespace reprise::job::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/** Two ranks on nodes 0 and 1, and two spawned processes, numbers 2 and 3, on node 2, which is lost; node 3 is free. */
class Choice : public testing::Test {
 protected:
  Choice() : store("/shared/job", "/local/job") {
    store.commit(wave(5));
    Family family;
    family.index = 1;
    family.first = 2;
    family.wave = 4;
    family.nodes = {2, 2};
    spawns.add(family);
    plan.placement = {0, 1};
    plan.wave = 5;
    plan.nodes = {0, 1, 3, 3};
    plan.restart = {2, 3};
    border.wave_begins(5);
    border.committed(5);
  }
  static StoredWave wave(WaveNumber number) {
    StoredWave out;
    out.wave = number;
    for (NodeIndex node : {0u, 1u, 2u, 2u}) out.ranks.push_back({node});
    out.families.push_back({1, 2, 2, 0, {}});
    return out;
  }
  DomainChoice choose() const {
    return choose_domain({.cause = cause, .running = running, .placement = placement, .plan = plan, .store = store, .spawns = spawns,
                          .ended = ended, .pinned = pinned, .draining = draining, .collective = collective, .link_broken = link_broken,
                          .quiet = border.quiet_since(plan.wave)});
  }
  void expect_all(const std::string& why) const {
    EXPECT_EQ(choose().domain, Domain::all);
    EXPECT_THAT(choose().why_all, HasSubstr(why));
  }
  CauseKind cause = CauseKind::node_lost;
  bool running = true, ended = false, pinned = false, draining = false, collective = false, link_broken = false;
  PlacementTable placement{0, 1};
  RecoveryPlan plan;
  Store store;
  Spawns spawns;
  Border border;
};

TEST_F(Choice, OnlySpawnedProcessesGoBackIfTheyAloneAreLost) {
  for (CauseKind loss : {CauseKind::node_lost, CauseKind::new_daemon, CauseKind::rank_died}) {
    cause = loss;
    EXPECT_EQ(choose().domain, Domain::spawned) << choose().why_all;
    EXPECT_EQ(choose().why_all, "");
  }
}

TEST_F(Choice, NothingIsSaidOfItIfItIsNoLossOrThereAreNone) {
  for (CauseKind other : {CauseKind::hang, CauseKind::request, CauseKind::drain, CauseKind::restart, CauseKind::attach, CauseKind::failed,
                          CauseKind::link_broken}) {
    cause = other;
    EXPECT_EQ(choose().domain, Domain::all);
    EXPECT_EQ(choose().why_all, "");
  }
  cause = CauseKind::node_lost;
  spawns = {};
  StoredWave alone = wave(6);
  alone.ranks.resize(2);
  alone.families.clear();
  store.commit(alone);
  plan.wave = 6;
  EXPECT_EQ(choose().domain, Domain::all);
  EXPECT_EQ(choose().why_all, "");
}

TEST_F(Choice, AllIfAnotherRecoveryWasNotOver) {
  running = false;
  expect_all("another recovery");
}

TEST_F(Choice, AnEarlierWaveWillDoIfNothingHasCrossedSince) {
  for (WaveNumber later : {6u, 7u}) {
    border.wave_begins(later);
    border.committed(later);
    store.commit(wave(later));
    EXPECT_EQ(choose().domain, Domain::spawned) << choose().why_all;
  }
  border.wave_begins(8);  // it is given up
  EXPECT_EQ(choose().domain, Domain::spawned) << choose().why_all;
  border.wave_begins(9);
  border.crossed();
  border.committed(9);
  expect_all("met by PMIx");
  plan.wave = 9;
  store.commit(wave(9));
  expect_all("met by PMIx");
}

TEST_F(Choice, AllIfItIsTooOldOrThereIsNone) {
  for (WaveNumber later : {6u, 7u, 8u}) {
    border.wave_begins(later);
    border.committed(later);
  }
  expect_all("old");
  plan.wave = 0;
  expect_all("no wave");
}

TEST_F(Choice, WavesThatCountNoMoreAreForgotten) {
  for (WaveNumber later : {6u, 7u}) {
    border.wave_begins(later);
    border.committed(later);
  }
  border.taken_back_to(5);
  for (WaveNumber later : {8u, 9u}) {
    border.wave_begins(later);
    border.committed(later);
  }
  EXPECT_EQ(choose().domain, Domain::spawned) << choose().why_all;
  EXPECT_FALSE(border.quiet_since(6));
}

TEST_F(Choice, AllIfARankIsRestartedOrMoves) {
  plan.restart.insert(1);
  expect_all("ranks of the job itself were lost");
  plan.restart.erase(1);
  plan.placement = {0, 3};
  expect_all("ranks of the job itself were lost");
}

TEST_F(Choice, AllIfARankHasEnded) {
  ended = true;
  expect_all("has ended");
}

TEST_F(Choice, AllIfOtherProcessesRunThanInTheWave) {
  Family late;
  late.index = 2;
  late.first = 4;
  late.wave = 5;
  late.nodes = {3};
  Family& family = spawns.add(late);
  expect_all("other spawned processes");
  family.ended = true;
  expect_all("other spawned processes");
  family.wave = 4;
  EXPECT_EQ(choose().domain, Domain::spawned) << "it had come and gone before the wave";
  family.wave = 5;
  family.voided = true;
  EXPECT_EQ(choose().domain, Domain::spawned) << "an earlier recovery has ended it";
  spawns.find(2)->ended = true;
  expect_all("other spawned processes");
}

TEST_F(Choice, SpawnedAlsoIfTheyShareANodeWithRanks) {
  plan.nodes = {0, 1, 3, 1};
  EXPECT_EQ(choose().domain, Domain::spawned);
  plan.nodes = {0, 1, 3, 3};
  spawns.find(2)->nodes = {2, 0};
  EXPECT_EQ(choose().domain, Domain::spawned);
}

TEST_F(Choice, AllWhileSomethingElseGoesOn) {
  pinned = true;
  expect_all("a wave to which all go back");
  pinned = false, draining = true;
  expect_all("drained");
  draining = false, link_broken = true;
  expect_all("lost with a connection");
  link_broken = false, collective = true;
  expect_all("wait in a PMIx operation");
}

TEST_F(Choice, AllIfTheyMayHaveMetByPmixSinceTheWaveBegan) {
  border.crossed();
  expect_all("met by PMIx");
  border.wave_begins(6);
  border.crossed();
  border.committed(6);
  store.commit(wave(6));
  plan.wave = 6;
  expect_all("met by PMIx");
  border.wave_begins(7);
  border.committed(7);
  store.commit(wave(7));
  plan.wave = 7;
  EXPECT_EQ(choose().domain, Domain::spawned) << choose().why_all;
  border = {};
  expect_all("an earlier crrun's");
}

TEST(Fences, OfSpawnedProcessesAreVoidWhenTheseGoBack) {
  Fences fences;
  const PlacementTable placement{0, 1};
  const Fences::Others others{{7, 2}, {8, 3}};
  const auto fence = [](std::vector<Rank> members, bool spawned = false) {
    Fence out;
    for (Rank rank : members) out.add_members(rank);
    out.set_spawned(spawned);
    return out;
  };
  EXPECT_FALSE(is_mixed(fence({}), 2));
  EXPECT_FALSE(is_mixed(fence({0, 1}), 2));
  EXPECT_FALSE(is_mixed(fence({7, 8}), 2));
  EXPECT_TRUE(is_mixed(fence({7, 1}), 2));
  EXPECT_FALSE(fences.contribute(2, fence({7, 8}, true), placement, others));
  EXPECT_FALSE(fences.await_own(2));
  fences.others_went_back(2);
  EXPECT_EQ(fences.open(), 0u);
  EXPECT_FALSE(fences.contribute(0, fence({0, 7}), placement, others));
  EXPECT_TRUE(fences.await_own(2));
  EXPECT_TRUE(fences.contribute(2, fence({0, 7}, true), placement, others));
  fences.others_went_back(2);
  EXPECT_FALSE(fences.contribute(0, fence({0, 7}), placement, others)) << "the result of the last one counts no more";
  fences.others_went_back(2);
  EXPECT_FALSE(fences.contribute(0, fence({}), placement, others));
  EXPECT_TRUE(fences.await_own(2));
  fences.others_went_back(2);
  EXPECT_TRUE(fences.contribute(1, fence({}), placement, others)) << "that of the job's own ranks goes on";
}

/** Ranks on nodes 0 and 1; nodes 2 and 3 are for spawned processes, node 4 is a spare. */
class SpawnedDomain : public SimulatedJob {
 protected:
  SpawnedDomain() {
    model.nodes = 4;
    model.ranks = 4;
    model.work_ms = 20'000;
    model.settings.wave_interval_ms = 2000;
  }
  /** Run until a wave with spawned processes is in shared storage. */
  void family(Cluster& cluster) {
    cluster.run_until(3000);
    cluster.spawn(0, 4, 8000);
    ASSERT_TRUE(cluster.run_while([&] {
      const Store& store = cluster.coordinator().store();
      return !store.newest_staged() || store.find(*store.newest_staged())->families.empty();
    }));
    ASSERT_THAT(cluster.spawned(), ElementsAre(testing::Pair(4, 2), testing::Pair(5, 2), testing::Pair(6, 3), testing::Pair(7, 3)));
  }
  static std::vector<std::string> domains(const Cluster& cluster) {
    std::vector<std::string> out;
    for (const nlohmann::json& line : cluster.timeline())
      if (line.at("event") == "recovery-begin") out.push_back(line.at("domain"));
    return out;
  }
  std::vector<std::uint64_t> progress(const Cluster& cluster) const {
    std::vector<std::uint64_t> out;
    for (Rank rank = 0; rank < model.ranks; ++rank) out.push_back(cluster.progress_ms(rank).value_or(0));
    return out;
  }
  static bool recovered(const Cluster& cluster) { return cluster.count("recovery-done") > 0; }
};

TEST_F(SpawnedDomain, ALostNodeOfSpawnedProcessesLeavesTheRanksAsTheyAre) {
  Cluster cluster(model);
  ASSERT_NO_FATAL_FAILURE(family(cluster));
  cluster.kill_node(3);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-begin") == 0; }));
  const auto before = progress(cluster);
  ASSERT_TRUE(cluster.run_while([&] { return !recovered(cluster); }));
  const auto after = progress(cluster);
  for (Rank rank = 0; rank < model.ranks; ++rank) EXPECT_GE(after[rank], before[rank]) << rank;
  EXPECT_THAT(domains(cluster), ElementsAre("spawned"));
  EXPECT_TRUE(cluster.said("only spawned processes go back"));
  ASSERT_EQ(cluster.recoveries().size(), 1u);
  EXPECT_TRUE(cluster.recoveries()[0].stay());
  EXPECT_THAT(cluster.recoveries()[0].restart(), ElementsAre(6, 7));
  EXPECT_THAT(cluster.spawned(), ElementsAre(testing::Pair(4, 2), testing::Pair(5, 2), testing::Pair(6, 4), testing::Pair(7, 4)));
  EXPECT_EQ(cluster.coordinator().status({}).at("last_recovery").at("domain"), "spawned");
  // The next wave has all again, and the next loss of ranks goes back to it.
  const std::size_t waves = cluster.count("wave-commit");
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("wave-commit") < waves + 2; }));
  cluster.kill_node(1);
  ends_well(cluster);
  EXPECT_THAT(domains(cluster), ElementsAre("spawned", "all"));
}

TEST_F(SpawnedDomain, TheyGoBackToAnEarlierWaveIfTheNewestIsNotCopied) {
  model.spares = 2;
  Cluster cluster(model);
  ASSERT_NO_FATAL_FAILURE(family(cluster));
  const WaveNumber staged = *cluster.coordinator().store().newest_staged();
  for (bool crosses : {false, true}) {
    ASSERT_TRUE(cluster.run_while([&] {
      const Store& store = cluster.coordinator().store();
      return store.newest() == store.newest_staged() || store.newest_staged() < staged + 2 * crosses;
    }));
    if (crosses) cluster.cross({2});
    const WaveNumber wave = *cluster.coordinator().store().newest_staged();
    const std::size_t before = cluster.count("recovery-done");
    cluster.kill_node(crosses ? 4 : 3);
    ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") == before; }));
    EXPECT_EQ(cluster.recoveries().back().wave(), wave);
    EXPECT_TRUE(cluster.said("is not completely available: the job goes back to wave"));
  }
  ends_well(cluster);
  EXPECT_THAT(domains(cluster), ElementsAre("spawned", "spawned", "all"));
}

TEST_F(SpawnedDomain, SoDoesAKilledOneAndTheSameAgain) {
  Cluster cluster(model);
  ASSERT_NO_FATAL_FAILURE(family(cluster));
  cluster.kill_rank(5, SIGKILL);
  ASSERT_TRUE(cluster.run_while([&] { return !recovered(cluster); }));
  cluster.kill_daemon(3);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") < 2; }));
  EXPECT_THAT(domains(cluster), ElementsAre("spawned", "spawned"));
  EXPECT_EQ(cluster.recoveries()[0].wave(), cluster.recoveries()[1].wave());
  ends_well(cluster);
}

TEST_F(SpawnedDomain, InATreeToo) {
  model.fan_out = 2;
  Cluster cluster(model);
  ASSERT_NO_FATAL_FAILURE(family(cluster));
  cluster.kill_node(3);
  ends_well(cluster);
  EXPECT_THAT(domains(cluster), ElementsAre("spawned"));
}

TEST_F(SpawnedDomain, ARankThatCannotStayTakesAllBack) {
  Cluster cluster(model);
  ASSERT_NO_FATAL_FAILURE(family(cluster));
  cluster.cross({1});
  cluster.kill_node(3);
  ASSERT_TRUE(cluster.run_while([&] { return !recovered(cluster); }));
  EXPECT_THAT(domains(cluster), ElementsAre("spawned", "all"));
  EXPECT_TRUE(cluster.said("all go back, not only the spawned processes: rank 1 on node0: messages have crossed"));
  EXPECT_FALSE(cluster.said("could not be"));
  EXPECT_EQ(cluster.count("node-lost"), 1u);
  ends_well(cluster);
  EXPECT_EQ(cluster.count("recovery-begin"), 2u);
}

TEST_F(SpawnedDomain, RanksThatCannotStayCountForNoFailedRecovery) {
  model.settings.max_failed_recoveries = 1;
  model.work_ms = 40'000;
  Cluster cluster(model);
  ASSERT_NO_FATAL_FAILURE(family(cluster));
  for (std::size_t times = 1; times <= 2; ++times) {
    cluster.cross({0, 1, 2, 3});
    cluster.kill_rank(6, SIGKILL);
    ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") < times; }));
    EXPECT_EQ(cluster.count("recovery-failed"), times);
  }
  ends_well(cluster);
}

TEST_F(SpawnedDomain, ARankThatDoesNotAnswerTakesAllBack) {
  Cluster cluster(model);
  ASSERT_NO_FATAL_FAILURE(family(cluster));
  cluster.compute({2});
  cluster.kill_node(3);
  ASSERT_TRUE(cluster.run_while([&] { return !recovered(cluster); }));
  EXPECT_THAT(domains(cluster), ElementsAre("spawned", "all"));
  EXPECT_TRUE(cluster.said("rank 2 on node1: it has not communicated for 3 s"));
  ends_well(cluster);
}

TEST_F(SpawnedDomain, ARankThatIsLostMeanwhileTakesAllBack) {
  for (const char* moment : {"recovery-begin", "resume"}) {
    Cluster cluster(model);
    ASSERT_NO_FATAL_FAILURE(family(cluster));
    cluster.when([moment](const nlohmann::json& line) { return line.at("event") == moment; }, [&] { cluster.kill_rank(3, SIGKILL); });
    cluster.kill_node(3);
    ASSERT_TRUE(cluster.run_while([&] { return !recovered(cluster); }));
    EXPECT_THAT(domains(cluster), ElementsAre("spawned", "all")) << moment;
    ends_well(cluster);
  }
}

TEST_F(SpawnedDomain, ANodeOfRanksThatIsLostMeanwhileTakesAllBack) {
  Cluster cluster(model);
  ASSERT_NO_FATAL_FAILURE(family(cluster));
  cluster.when([](const nlohmann::json& line) { return line.at("event") == "recovery-begin"; }, [&] { cluster.kill_node(0); });
  cluster.kill_node(3);
  ASSERT_TRUE(cluster.run_while([&] { return !recovered(cluster); }));
  EXPECT_THAT(domains(cluster), ElementsAre("spawned", "all"));
  ends_well(cluster);
}

TEST_F(SpawnedDomain, ARankThatWasNotAskedWhetherItStaysIsNotHeard) {
  Cluster cluster(model);
  ASSERT_NO_FATAL_FAILURE(family(cluster));
  cluster.when([](const nlohmann::json& line) { return line.at("event") == "recovery-begin"; }, [&] {
    for (const char* error : {"", "it cannot"}) {
      Up up;
      up.set_from(0);
      up.set_instance(cluster.coordinator().members().at(0).instance);
      up.mutable_restored()->set_recovery(cluster.coordinator().recovery());
      RankRestored& rank = *up.mutable_restored()->add_ranks();
      rank.set_rank(0);
      rank.set_stays(true);
      rank.set_error(error);
      cluster.coordinator().message(up, {cluster.now_ms() + 1000, 0});
    }
  });
  cluster.kill_node(1);
  ends_well(cluster);
  EXPECT_THAT(domains(cluster), ElementsAre("all"));
}

TEST_F(SpawnedDomain, AnotherCrrunTakesAllBack) {
  for (const char* moment : {"recovery-begin", "resume"}) {
    Cluster cluster(model);
    ASSERT_NO_FATAL_FAILURE(family(cluster));
    cluster.when([moment](const nlohmann::json& line) { return line.at("event") == moment; }, [&] { cluster.break_crrun(); });
    cluster.kill_node(3);
    ASSERT_TRUE(cluster.run_while([&] { return !recovered(cluster); })) << moment;
    EXPECT_THAT(domains(cluster), ElementsAre("spawned", "all")) << moment;
    ASSERT_TRUE(cluster.run());
    EXPECT_EQ(cluster.code(), 0);
    EXPECT_THAT(cluster.violations(), IsEmpty());
  }
}

TEST_F(SpawnedDomain, AnotherCrrunHearsRanksThatHaveStayed) {
  Cluster cluster(model);
  ASSERT_NO_FATAL_FAILURE(family(cluster));
  cluster.kill_node(3);
  ASSERT_TRUE(cluster.run_while([&] { return !recovered(cluster); }));
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("spawn-end") == 0; }));
  cluster.break_crrun();
  ends_well(cluster);
  EXPECT_THAT(domains(cluster), ElementsAre("spawned"));
}

TEST_F(SpawnedDomain, SpawnedProcessesOnNodesWithRanksGoBackAlone) {
  model.slots = 3;
  Cluster cluster(model);
  cluster.run_until(3000);
  cluster.spawn(0, 4, 8000);
  ASSERT_TRUE(cluster.run_while([&] {
    const Store& store = cluster.coordinator().store();
    return !store.newest_staged() || store.find(*store.newest_staged())->families.empty();
  }));
  cluster.kill_rank(4, SIGKILL);
  ASSERT_TRUE(cluster.run_while([&] { return !recovered(cluster); }));
  EXPECT_THAT(domains(cluster), ElementsAre("spawned"));
  ends_well(cluster);
}

class RandomSpawned : public SpawnedDomain, public testing::WithParamInterface<int> {};

TEST_P(RandomSpawned, EndsOrGoesOn) {
  model.seed = static_cast<std::uint64_t>(GetParam());
  std::mt19937_64 random(model.seed * 104'729);
  const auto any = [&](std::uint64_t below) { return random() % below; };
  model.spares = 1 + static_cast<std::uint32_t>(any(3));
  model.slots = 2 + static_cast<std::uint32_t>(any(2));  // with 3, spawned processes share nodes with ranks
  model.image_us = any(2) ? 20'000 : 800'000;
  model.again = any(3) ? 0 : 0.2;
  model.fan_out = any(3) ? 0 : 2;
  Cluster cluster(model);
  cluster.run_until(2000 + any(2000));
  cluster.spawn(static_cast<Rank>(any(4)), 1 + static_cast<std::uint32_t>(any(4)), 15'000);
  const char* const moments[] = {"wave-begin", "wave-commit", "recovery-begin", "resume", "recovery-done", "recovery-failed"};
  bool attached = false;
  for (std::uint64_t i = 0, failures = 1 + any(4); i < failures; ++i) {
    const NodeIndex node = static_cast<NodeIndex>(any(3) ? 2 + any(2) : any(model.nodes + model.spares));
    const auto kind = any(9);
    const auto rank = static_cast<Rank>(any(3) ? 4 + any(4) : any(4));
    const auto act = [&, node, kind, rank] {
      switch (kind) {
        case 0: case 1: cluster.kill_node(node); break;
        case 2: cluster.kill_daemon(node); break;
        case 3: cluster.kill_rank(rank, SIGKILL); break;
        case 4:
          cluster.cut(node, true);
          cluster.at(cluster.now_ms() + 10'000, [&cluster, node] { cluster.cut(node, false); });
          break;
        case 5: cluster.cross({static_cast<Rank>(rank % 4)}); break;
        case 6:
          cluster.compute({static_cast<Rank>(rank % 4)});
          cluster.at(cluster.now_ms() + 5000, [&cluster] { cluster.compute({}); });
          break;
        case 7:
          if (!std::exchange(attached, true)) cluster.break_crrun();
          break;
        case 8: cluster.coordinator().request_drain(100 + node, "node" + std::to_string(node), {cluster.now_ms() + 1000, 0}); break;
      }
    };
    at_random(cluster, any, 4000, 15'000, moments, act);
  }
  ends_clearly(cluster, attached);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomSpawned, testing::Range(0, 300));

}  // namespace
}  // namespace reprise::job::sim
