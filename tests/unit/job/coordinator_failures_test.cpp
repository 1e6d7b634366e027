// SPDX-License-Identifier: GPL-2.0-only
// Jobs whose program is told of failures: nothing is restored, nothing waits for what has failed.
#include <gmock/gmock.h>

#include <csignal>

#include "crrun/coordinator/exits.h"
#include "crrun/coordinator/fences.h"
#include "simulated_job.h"

namespace reprise::job::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr int kSuccess = 0, kTerminated = -200;

Fence fence_of(const std::string& data, std::vector<Rank> members = {}) {
  Fence out;
  out.set_data(data);
  out.mutable_members()->Assign(members.begin(), members.end());
  return out;
}

TEST(FencesWithFailures, CompleteWithoutNodesThatHaveNoLivingMember) {
  Fences fences;
  const PlacementTable placement{0, 1, 1};
  EXPECT_FALSE(fences.contribute(0, fence_of("a"), placement));
  EXPECT_THAT(fences.fail({1}, placement), IsEmpty()) << "rank 2 lives there";
  const auto done = fences.fail({2}, placement);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].message.status(), kSuccess);
  EXPECT_EQ(done[0].message.data(), "a");
  Fence next = fence_of("b");
  next.set_count(1);
  const auto later = fences.contribute(0, next, placement);
  ASSERT_TRUE(later) << "nothing waits for node 1 any more";
  EXPECT_THAT(later->to, ElementsAre(0));
}

TEST(FencesWithFailures, ThoseThatNeedAllFailForAllWithOneOfThem) {
  Fences fences;
  const PlacementTable placement{0, 1, 2};
  Fence fence = fence_of("x", {0, 1, 2});
  fence.set_whole(true);
  EXPECT_FALSE(fences.contribute(0, fence, placement));
  const auto done = fences.fail({2}, placement);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].message.status(), kTerminated);
  // The one that comes later hears the same; a further one fails at once.
  EXPECT_EQ(fences.contribute(1, fence, placement)->message.status(), kTerminated);
  fence.set_count(1);
  EXPECT_EQ(fences.contribute(1, fence, placement)->message.status(), kTerminated);
  EXPECT_EQ(fences.contribute(0, fence, placement)->message.status(), kTerminated);
  EXPECT_FALSE(fences.contribute(0, fence_of("y", {0, 1}), placement)) << "it has no failed member";
  EXPECT_EQ(fences.contribute(1, fence_of("y", {0, 1}), placement)->message.status(), kSuccess);
}

TEST(FencesWithFailures, ThatHaveSucceededAreNotTakenBack) {
  Fences fences;
  const PlacementTable placement{0, 1};
  Fence fence = fence_of("x", {0, 1});
  fence.set_whole(true);
  EXPECT_FALSE(fences.contribute(0, fence, placement));
  EXPECT_EQ(fences.contribute(1, fence, placement)->message.status(), kSuccess);
  EXPECT_THAT(fences.fail({1}, placement), IsEmpty());
  EXPECT_EQ(fences.contribute(0, fence, placement)->message.status(), kSuccess);
}

TEST(ExitsOfToldFailures, TheJobSucceedsIfOneRankDoes) {
  Exits exits(3, 3);
  EXPECT_EQ(exits.exited(0, SIGKILL, false, true, Remedy::program, false), ExitMeaning::tell);
  EXPECT_EQ(exits.exited(0, SIGKILL, false, true, Remedy::program, false), ExitMeaning::tell) << "again";
  EXPECT_EQ(exits.exited(1, 0, false, true, Remedy::program, false), ExitMeaning::tell) << "without MPI_Finalize";
  EXPECT_EQ(exits.exited(2, 0, true, true, Remedy::program, false), ExitMeaning::fine);
  EXPECT_TRUE(exits.all());
  EXPECT_EQ(exits.final_code(), 0);
}

TEST(ExitsOfToldFailures, TheJobFailsIfAllRanksDo) {
  Exits exits(2, 3);
  EXPECT_EQ(exits.exited(1, SIGKILL, false, true, Remedy::program, false), ExitMeaning::tell);
  EXPECT_EQ(exits.exited(0, 3 << 8, true, true, Remedy::program, false), ExitMeaning::tell);
  EXPECT_EQ(exits.final_code(), 128 + SIGKILL) << "of the first one";
}

TEST(ExitsOfToldFailures, TheJobSucceedsIfASpawnedProcessHasTakenThePlaceOfAll) {
  Exits exits(2, 3);
  EXPECT_EQ(exits.exited(1, SIGKILL, false, true, Remedy::program, false), ExitMeaning::tell);
  exits.spawned_finished();
  EXPECT_EQ(exits.exited(0, SIGKILL, false, true, Remedy::program, false), ExitMeaning::tell);
  EXPECT_EQ(exits.final_code(), 128 + SIGKILL) << "it had ended before";
  exits.spawned_finished();
  EXPECT_EQ(exits.final_code(), 0);
}

TEST(ExitsOfToldFailures, BeforeMpiInitNobodyCanBeTold) {
  Exits exits(2, 3);
  EXPECT_EQ(exits.exited(1, SIGKILL, false, false, Remedy::program, false), ExitMeaning::end_job);
}

class TellingFailures : public SimulatedJob {
 protected:
  TellingFailures() {
    model.settings.spec.set_tells_failures(true);
    model.settings.spec.set_no_checkpoints(true);
    model.nodes = 4;
    model.spares = 1;
    model.slots = 2;
    model.ranks = 6;
  }
  /** The ranks that every living node has been told of. */
  static std::vector<Rank> told(const Cluster& cluster) { return cluster.failed(); }
};

TEST_F(TellingFailures, ARankThatDiesIsToldAndTheOthersGoOn) {
  Cluster cluster(model);
  cluster.run_until(2000);
  cluster.kill_rank(1, SIGKILL);
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_THAT(told(cluster), ElementsAre(1));
  EXPECT_TRUE(cluster.said("rank 1"));
  EXPECT_TRUE(cluster.said("the program is told"));
  EXPECT_EQ(cluster.count("recovery-begin"), 0u);
  EXPECT_EQ(cluster.count("ranks-failed"), 1u);
  EXPECT_EQ(cluster.output(0), cluster.expected_output(0));
  EXPECT_THAT(cluster.violations(), IsEmpty());
}

TEST_F(TellingFailures, ALostNodeIsToldWithAllItsRanks) {
  Cluster cluster(model);
  cluster.run_until(2000);
  const NodeIndex lost = *cluster.where(5);
  std::vector<Rank> there;
  for (Rank rank = 0; rank < model.ranks; ++rank)
    if (cluster.where(rank) == lost) there.push_back(rank);
  cluster.kill_node(lost);
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_EQ(told(cluster), there);
  EXPECT_THAT(cluster.violations(), IsEmpty());
}

TEST_F(TellingFailures, NodesAreLostUntilOneIsLeft) {
  Cluster cluster(model);
  for (int i = 2; i >= 1; --i) cluster.at(2000u * static_cast<unsigned>(3 - i), [&, i] { cluster.kill_node(static_cast<NodeIndex>(i)); });
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_EQ(told(cluster).size(), 4u);
}

TEST_F(TellingFailures, ANodeThatComesBackHasNoRanks) {
  model.work_ms = 60'000;
  Cluster cluster(model);
  cluster.run_until(2000);
  cluster.kill_node(2);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("node-lost") == 0; }));
  cluster.boot_node(2);
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_EQ(cluster.count("node-back"), 1u);
  EXPECT_THAT(cluster.violations(), IsEmpty());
}

TEST_F(TellingFailures, ANewDaemonMeansThatTheRanksOfTheOldOneHaveFailed) {
  Cluster cluster(model);
  cluster.run_until(2000);
  cluster.kill_daemon(1);
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_EQ(told(cluster).size(), 2u);
  EXPECT_THAT(cluster.violations(), IsEmpty());
}

TEST_F(TellingFailures, OfTwoRanksThatHaveLostMessagesOneIsKilled) {
  Cluster cluster(model);
  cluster.run_until(2000);
  cluster.break_link(1, 4);
  ASSERT_TRUE(cluster.run_while([&] { return told(cluster).empty(); }));
  EXPECT_THAT(told(cluster), ElementsAre(4));
  EXPECT_TRUE(cluster.said("rank 4"));
}

TEST_F(TellingFailures, SpawnedProcessesThatFailAreToldToo) {
  Cluster cluster(model);
  cluster.run_until(2000);
  cluster.spawn(0, 2, 4000);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.spawn_replies().empty(); }));
  cluster.kill_rank(7, SIGKILL);
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_THAT(told(cluster), ElementsAre(7));
}

TEST_F(TellingFailures, SpawnedProcessesMayHaveTakenThePlaceOfAllRanks) {
  Cluster cluster(model);
  cluster.run_until(2000);
  cluster.spawn(0, 2, 4000);
  cluster.run_until(3000);
  for (Rank rank = 0; rank < model.ranks; ++rank) cluster.kill_rank(rank, SIGKILL);
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_THAT(cluster.violations(), IsEmpty());
}

TEST_F(TellingFailures, SparesAndTheSlotsOfFailedRanksAreForSpawnedProcesses) {
  Cluster cluster(model);
  cluster.run_until(2000);
  cluster.kill_rank(1, SIGKILL);
  const NodeIndex freed = cluster.coordinator().placement()[1];
  ASSERT_TRUE(cluster.run_while([&] { return told(cluster).empty(); }));
  cluster.spawn(0, 3, 2000);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.spawn_replies().empty(); }));
  EXPECT_EQ(cluster.spawn_replies()[0].status(), 0);
  std::multiset<NodeIndex> where;
  for (const auto& [number, node] : cluster.spawned()) where.insert(node);
  EXPECT_EQ(where.count(freed), 1u);
  EXPECT_EQ(where.count(3), 2u) << "the spare";
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
}

TEST_F(TellingFailures, ASpawnWhoseNodeIsLostFails) {
  Cluster cluster(model);
  cluster.run_until(2000);
  cluster.kill_node(3);  // the spare, on which the processes would run
  cluster.spawn(0, 2, 2000);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.spawn_replies().empty(); }));
  EXPECT_NE(cluster.spawn_replies()[0].status(), 0);
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
}

TEST_F(TellingFailures, AnotherCrrunKnowsWhatHasFailed) {
  Cluster cluster(model);
  cluster.run_until(2000);
  cluster.kill_node(2);
  ASSERT_TRUE(cluster.run_while([&] { return told(cluster).empty(); }));
  cluster.break_crrun();
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_THAT(cluster.violations(), IsEmpty());
}

TEST_F(TellingFailures, ANodeThatIsLostWhileNoCrrunRunsIsToldAfterwards) {
  Cluster cluster(model);
  cluster.run_until(2000);
  cluster.break_crrun();
  cluster.kill_node(2);
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_EQ(told(cluster).size(), 2u);
}

/** Failures at random moments: the job ends when all ranks have ended or failed, and no rank runs twice. */
class RandomFailures : public TellingFailures, public testing::WithParamInterface<int> {};

TEST_P(RandomFailures, AreAllTold) {
  model.seed = static_cast<std::uint64_t>(GetParam());
  std::mt19937_64 random(model.seed * 6007);
  const auto any = [&](std::uint64_t below) { return random() % below; };
  model.nodes = 2 + static_cast<std::uint32_t>(any(3));
  model.spares = static_cast<std::uint32_t>(any(3));
  model.ranks = model.nodes * model.slots;
  model.work_ms = 20'000;
  Cluster cluster(model);
  const auto all = static_cast<std::uint32_t>(model.nodes + model.spares);
  bool attached = false, spawned = false;
  for (std::uint64_t i = 0, failures = 1 + any(6); i < failures; ++i) {
    const NodeIndex node = static_cast<NodeIndex>(any(all));
    const auto kind = any(9);
    const auto rank = static_cast<Rank>(any(model.ranks));
    cluster.at(1500 + any(18'000), [&, node, kind, rank] {
      switch (kind) {
        case 0: cluster.kill_node(node); break;
        case 1:
          cluster.kill_node(node);
          cluster.at(cluster.now_ms() + 4000, [&cluster, node] { cluster.boot_node(node); });
          break;
        case 2: cluster.kill_daemon(node); break;
        case 3: cluster.kill_rank(rank, SIGKILL); break;
        case 4: cluster.kill_rank(rank, 3 << 8); break;
        case 5:
          cluster.cut(node, true);
          cluster.at(cluster.now_ms() + 8000, [&cluster, node] { cluster.cut(node, false); });
          break;
        case 6:  // only a living peer can say that messages are lost
          if (cluster.where(rank) && cluster.where((rank + 1) % model.ranks)) cluster.break_link(rank, (rank + 1) % model.ranks);
          break;
        case 7:
          if (!std::exchange(attached, true)) cluster.break_crrun();
          break;
        case 8:
          if (!std::exchange(spawned, true) && cluster.where(rank)) cluster.spawn(rank, 2, 3000);
          break;
      }
    });
  }
  ASSERT_TRUE(cluster.run(1'800'000)) << "it hangs, " << name(cluster.coordinator().phase());
  EXPECT_THAT(cluster.violations(), IsEmpty());
  EXPECT_EQ(cluster.count("recovery-begin"), 0u);
  if (cluster.said("the job is ended")) return;
  // Who has not done its work has failed. The last ones to fail may leave nobody who could be told.
  const std::set<Rank> failed = cluster.coordinator().state().failed;
  std::size_t finished = 0;
  for (Rank own = 0; own < model.ranks; ++own) {
    const bool done = cluster.output(own) == cluster.expected_output(own);
    finished += done;
    EXPECT_TRUE(done || failed.count(own)) << "rank " << own;
  }
  EXPECT_TRUE(cluster.code() == 0 || finished < model.ranks) << cluster.code();
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomFailures, testing::Range(0, 300));

}  // namespace
}  // namespace reprise::job::sim
