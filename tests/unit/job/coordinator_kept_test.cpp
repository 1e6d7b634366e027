// SPDX-License-Identifier: GPL-2.0-only
// Copies of kept memory that programs ask for: who keeps them, when the rank is told, and what a recovery gives to a restarted rank.
#include "crrun/coordinator/kept_copies.h"
#include "simulated_job.h"

namespace reprise::job {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class KeptCopiesTest : public testing::Test {
 protected:
  KeptCopiesTest() { address_.add_endpoints("tcp://10.0.0.1:1"); }
  static HasCopy copy(std::uint64_t version, WaveNumber wave = 3, Rank rank = 7, const std::string& name = "log") {
    HasCopy out;
    out.mutable_copy()->set_rank(rank);
    out.mutable_copy()->set_name(name);
    out.mutable_copy()->set_version(version);
    out.mutable_copy()->set_wave(wave);
    return out;
  }
  void asks(std::uint64_t version) {
    HasCopy message = copy(version);
    message.set_asked(true);
    copies_.has(home_, message);
  }
  void fails(NodeIndex node, std::uint64_t version) {
    HasCopy message = copy(version);
    message.set_error("no space");
    copies_.has(node, message);
  }
  /** @return "TO<SOURCES" of orders, then "TO=STATUS" of answers */
  std::vector<std::string> next() {
    KeptCopies::Step step = copies_.next([this](Rank) { return std::optional(home_); },
                                         [this](NodeIndex node, std::size_t most) {
                                           std::vector<NodeIndex> out;
                                           for (NodeIndex i = 1; i < 5 && out.size() < most; ++i)
                                             if (up_.count((node + i) % 5)) out.push_back((node + i) % 5);
                                           return out;
                                         },
                                         serving());
    std::vector<std::string> out;
    for (const KeepCopy& order : step.orders) {
      out.push_back(std::to_string(order.to()) + "<");
      for (const ImageSource& source : order.sources()) out.back() += std::to_string(source.node());
    }
    for (const auto& [to, answer] : step.answers) out.push_back(std::to_string(to) + "=" + std::to_string(answer.status()));
    return out;
  }
  Serving serving() const {
    return [this](NodeIndex node) { return up_.count(node) ? &address_ : nullptr; };
  }
  /** @return "RANK:VERSION<SOURCES" of what a recovery to @p wave gives to rank 7 on node 4 */
  std::vector<std::string> given(WaveNumber wave) {
    Recover message;
    message.set_wave(wave);
    message.add_restart(7);
    Placement& place = *message.add_placement();
    place.set_rank(7);
    place.set_node(4);
    copies_.fill(message, serving());
    std::vector<std::string> out;
    for (const KeepCopy& order : message.kept()) {
      EXPECT_EQ(order.to(), 4u);
      out.push_back(std::to_string(order.copy().rank()) + ":" + std::to_string(order.copy().version()) + "<");
      for (const ImageSource& source : order.sources()) out.back() += std::to_string(source.node());
    }
    return out;
  }
  Relaying address_;
  std::set<NodeIndex> up_{0, 1, 2, 3, 4};
  NodeIndex home_ = 0;
  KeptCopies copies_{1};
};

TEST_F(KeptCopiesTest, TheRankIsToldWhenAnotherNodeHasIt) {
  EXPECT_THAT(next(), IsEmpty());
  asks(1);
  EXPECT_THAT(next(), ElementsAre("1<0"));
  EXPECT_THAT(next(), IsEmpty()) << "it is ordered once";
  copies_.has(1, copy(1));
  EXPECT_THAT(next(), ElementsAre("0=0"));
  EXPECT_THAT(next(), IsEmpty()) << "and told once";
  asks(2);
  EXPECT_THAT(next(), ElementsAre("1<0")) << "the same node replaces its copy";
  EXPECT_THAT(given(3), ElementsAre("7:2<0"));
  copies_.node_lost(0);
  EXPECT_THAT(given(3), ElementsAre("7:1<1")) << "the older one is complete, the newer one is not";
}

TEST_F(KeptCopiesTest, AsManyNodesAsAreWanted) {
  copies_ = KeptCopies(2);
  asks(1);
  EXPECT_THAT(next(), ElementsAre("1<0", "2<0"));
  copies_.has(1, copy(1));
  EXPECT_THAT(next(), IsEmpty());
  fails(2, 1);
  EXPECT_THAT(next(), ElementsAre("3<01"));
  up_.erase(3);
  copies_.node_lost(3);
  EXPECT_THAT(next(), ElementsAre("4<01"));
  copies_.has(4, copy(1));
  EXPECT_THAT(next(), ElementsAre("0=0"));
}

TEST_F(KeptCopiesTest, SaysWhenNoNodeCanKeepIt) {
  up_ = {0, 1};
  asks(1);
  EXPECT_THAT(next(), ElementsAre("1<0"));
  fails(1, 1);
  EXPECT_THAT(next(), ElementsAre("0=" + std::to_string(EHOSTUNREACH)));
  up_ = {0, 1, 2};
  copies_.look_again();
  EXPECT_THAT(next(), ElementsAre("1<0")) << "the loss of the rank's node would still cost it";
  up_ = {0};
  asks(2);
  copies_.node_lost(1);
  EXPECT_THAT(next(), ElementsAre("0=" + std::to_string(EHOSTUNREACH)));
}

TEST_F(KeptCopiesTest, AnotherNodeKeepsItWhenOneIsLostOrTheRankHasMoved) {
  asks(1);
  next();
  copies_.has(1, copy(1));
  next();
  copies_.node_lost(1);
  EXPECT_THAT(next(), ElementsAre("1<0")) << "it is up again";
  copies_.has(1, copy(1));
  next();
  up_.erase(0);
  copies_.node_lost(0);
  home_ = 1;
  EXPECT_THAT(next(), ElementsAre("2<1")) << "the rank is where the copy is";
  copies_.has(2, copy(1));
  EXPECT_THAT(next(), IsEmpty()) << "nobody waits";
}

TEST_F(KeptCopiesTest, ARecoveryGivesWhatIsNewerThanTheImage) {
  asks(1);
  next();
  copies_.has(1, copy(1));
  EXPECT_THAT(given(3), ElementsAre("7:1<01"));
  EXPECT_THAT(given(2), ElementsAre("7:1<01"));
  EXPECT_THAT(given(4), IsEmpty());
  copies_.prune(3);
  EXPECT_EQ(copies_.size(), 1u);
  copies_.prune(4);
  EXPECT_EQ(copies_.size(), 0u) << "all images are newer";
}

TEST_F(KeptCopiesTest, SoManyOfARankAtMost) {
  for (std::size_t i = 0; i < 2 * KeptCopies::kMost; ++i) copies_.has(0, copy(1, 3, 7, "name" + std::to_string(i)));
  EXPECT_EQ(copies_.size(), KeptCopies::kMost);
  copies_.has(0, copy(1, 3, 8));
  EXPECT_EQ(copies_.size(), KeptCopies::kMost + 1);
}

}  // namespace

namespace sim {
namespace {

class KeptJob : public RedundantJob {
 protected:
  KeptJob() { model.settings.wave_interval_ms = 3000; }
  /** @return the version that rank 3 is given by the last recovery; 0: none */
  static std::uint64_t given(const Cluster& cluster) {
    for (const KeepCopy& order : cluster.recoveries().back().kept())
      if (order.copy().rank() == 3) return order.copy().version();
    return 0;
  }
  /** Rank 3 asks for a copy, and is told that it is on another node. */
  static void copied(Cluster& cluster) {
    ASSERT_TRUE(cluster.run_while([&] { return !safe(cluster); }));
    cluster.copy_kept(3);
    ASSERT_TRUE(cluster.run_while([&] { return cluster.kept_answers().empty(); }));
    EXPECT_EQ(cluster.kept_answers()[0].status(), 0);
    EXPECT_EQ(cluster.kept_answers()[0].copy().rank(), 3u);
    EXPECT_EQ(cluster.copy_on(2, 3), cluster.copy_on(1, 3)) << "rank 3 is on node 1";
    EXPECT_NE(cluster.copy_on(1, 3), 0u);
  }
};

TEST_F(KeptJob, ARankThatMovesGetsWhatWasCopied) {
  Cluster cluster(model);
  ASSERT_NO_FATAL_FAILURE(copied(cluster));
  const std::uint64_t version = cluster.copy_on(1, 3);
  cluster.kill_node(1);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") == 0; }));
  EXPECT_EQ(given(cluster), version);
  EXPECT_EQ(cluster.copy_on(*cluster.where(3), 3), version);
  // And once more: the spare's memory has gone on, but a copy is not lost with any node.
  cluster.kill_node(*cluster.where(3));
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") == 1; }));
  EXPECT_TRUE(given(cluster) == version || given(cluster) == 0) << "0: a wave was taken since";
  ends_well(cluster);
}

TEST_F(KeptJob, APartnerIsLostWhileItCopies) {
  Cluster cluster(model);
  ASSERT_TRUE(cluster.run_while([&] { return !safe(cluster); }));
  cluster.cut(2, true);
  cluster.copy_kept(3);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.kept_answers().empty(); }));
  EXPECT_EQ(cluster.kept_answers()[0].status(), 0);
  EXPECT_EQ(cluster.copy_on(2, 3), 0u);
  ends_well(cluster);
}

// The node that copies has no ranks, so its loss is no recovery; and of two spawned processes one has ended, so that no wave is taken.
TEST_F(KeptJob, APartnerWithoutRanksIsLostWhileNoWaveCanBeTaken) {
  model.nodes = 1;
  model.spares = 3;
  model.ranks = 2;
  model.slots = 4;
  Cluster cluster(model);
  ASSERT_TRUE(cluster.run_while([&] { return !safe(cluster); }));
  cluster.spawn(0, 2, 60'000);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.spawned().size() < 2; }));
  cluster.end_spawned(2);
  cluster.cut(1, true);
  cluster.copy_kept(1);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.kept_answers().empty() && cluster.now_ms() < 60'000; }));
  ASSERT_FALSE(cluster.kept_answers().empty()) << "it waits for ever";
  EXPECT_EQ(cluster.kept_answers()[0].status(), 0);
  EXPECT_EQ(cluster.copy_on(2, 1), cluster.copy_on(0, 1));
  ends_well(cluster);
}

TEST_F(KeptJob, ANodeThatKeepsNoneIsLeftOut) {
  Cluster cluster(model);
  ASSERT_TRUE(cluster.run_while([&] { return !safe(cluster); }));
  cluster.keeps_none(2, true);
  cluster.copy_kept(3);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.kept_answers().empty(); }));
  EXPECT_EQ(cluster.kept_answers()[0].status(), 0);
  EXPECT_EQ(cluster.copy_on(3, 3), cluster.copy_on(1, 3));
  EXPECT_EQ(cluster.times_said("could not keep a copy of kept memory log of rank 3"), 1u);
  cluster.keeps_none(2, false);
  ends_well(cluster);
}

TEST_F(KeptJob, AnotherCrrunIsToldOfTheCopies) {
  model.settings.wave_interval_ms = 60'000;
  Cluster cluster(model);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("launch") == 0 || !cluster.where(3); }));
  cluster.at(cluster.now_ms() + 500, [&] { cluster.coordinator().request_checkpoint(1, {cluster.now_ms() + 1000, 0}); });
  ASSERT_NO_FATAL_FAILURE(copied(cluster));
  const std::uint64_t version = cluster.copy_on(1, 3);
  cluster.break_crrun();
  cluster.kill_node(1);  // no crrun sees it
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") == 0; }));
  EXPECT_EQ(given(cluster), version);
  ends_well(cluster);
}

TEST_F(KeptJob, WhoAsksBeforeCrrunDiesIsToldByTheNextOne) {
  Cluster cluster(model);
  ASSERT_TRUE(cluster.run_while([&] { return !safe(cluster); }));
  cluster.copy_kept(3);
  cluster.break_crrun();
  ASSERT_TRUE(cluster.run_while([&] { return cluster.kept_answers().empty(); }));
  EXPECT_EQ(cluster.kept_answers()[0].status(), 0);
  ends_well(cluster);
}

}  // namespace
}  // namespace sim
}  // namespace reprise::job
