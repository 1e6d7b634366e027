// SPDX-License-Identifier: GPL-2.0-only
// Images that nodes keep of each other: what the store knows of them, who copies what, and that no node's loss costs a safe wave.
#include "crrun/coordinator/protection.h"
#include "crrun/coordinator/state.h"
#include "simulated_job.h"

namespace reprise::job {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

Redundancy parity(std::uint32_t nodes) {
  Redundancy out;
  out.set_kind(Redundancy::XOR);
  out.set_count(nodes);
  return out;
}

Redundancy partner(std::uint32_t copies) {
  Redundancy out;
  out.set_kind(Redundancy::PARTNER);
  out.set_count(copies);
  return out;
}

/** A wave with a rank on each of these nodes. */
StoredWave wave(WaveNumber number, const PlacementTable& nodes) {
  StoredWave out;
  out.wave = number;
  for (NodeIndex node : nodes) out.ranks.emplace_back().node = node;
  for (std::size_t place = 0; place < nodes.size(); ++place) out.ranks[place].bytes = 100, out.ranks[place].checksum = 7 * number + place;
  return out;
}

struct Cluster {
  Relaying address;
  std::set<NodeIndex> up{0, 1, 2, 3, 4, 5};
  Cluster() { address.add_endpoints("tcp://10.0.0.1:1"); }
  Serving serving() const {
    return [this](NodeIndex node) { return up.count(node) ? &address : nullptr; };
  }
  Serves serves() const {
    return [this](NodeIndex node) { return up.count(node) > 0; };
  }
};

/** What is ordered, as receiver, source, ranks. */
std::vector<std::tuple<NodeIndex, NodeIndex, std::vector<Rank>>> words(const std::vector<Protection::Order>& orders) {
  std::vector<std::tuple<NodeIndex, NodeIndex, std::vector<Rank>>> out;
  for (const Protection::Order& order : orders)
    for (const ImageSource& source : order.message.sources()) {
      std::vector<Rank> ranks;
      for (const StoredImage& image : source.images()) ranks.push_back(image.rank());
      out.emplace_back(order.to, source.node(), ranks);
    }
  return out;
}

using Words = std::tuple<NodeIndex, NodeIndex, std::vector<Rank>>;

class ProtectionTest : public testing::Test {
 protected:
  std::vector<Words> next(std::uint64_t ms = 0) {
    Protection::Step step = protection.next(store, cluster.serving(), cluster.serves(), {ms, 0});
    for (StoredSet& set : step.formed) store.formed(step.wave, std::move(set));
    return words(step.orders);
  }
  void answer_parity(NodeIndex from, WaveNumber wave) {
    ProtectDone done;
    done.set_wave(wave);
    done.set_finished(true);
    store.parity_kept(wave, from);
    protection.done(from, done, {});
  }
  /** The nodes of each set. */
  std::vector<std::vector<NodeIndex>> sets(WaveNumber wave) const {
    std::vector<std::vector<NodeIndex>> out;
    for (const StoredSet& set : store.find(wave)->sets) {
      out.emplace_back();
      for (const StoredSet::Member& member : set.members) out.back().push_back(member.node);
    }
    return out;
  }
  void answer(NodeIndex from, WaveNumber wave, const std::vector<Rank>& ranks, const std::string& error = "", std::uint64_t ms = 0) {
    ProtectDone done;
    done.set_wave(wave);
    done.set_finished(true);
    for (Rank rank : ranks) {
      RankStaged& one = *done.add_ranks();
      one.set_rank(rank);
      one.set_error(error);
    }
    if (error.empty()) store.found(wave, from, ranks);
    protection.done(from, done, {ms, 0});
  }
  Store store{"/job", "/local/job"};
  Cluster cluster;
  Protection protection{partner(1), {}, 6};
};

TEST(StoredCopiesTest, AWaveIsSafeWhenEachImageIsOnTwoNodesOrStaged) {
  Store store("/job", "/local/job");
  store.commit(wave(1, {0, 1}));
  EXPECT_FALSE(store.safe(1));
  store.found(1, 1, {0, 0});
  EXPECT_FALSE(store.safe(1)) << "a rank that is named twice counts once";
  store.found(1, 2, {1});
  EXPECT_TRUE(store.safe(1));
  EXPECT_EQ(store.newest_safe(), 1u);
  EXPECT_FALSE(store.newest_staged());
  store.node_lost(1);
  EXPECT_FALSE(store.safe(1));
  EXPECT_THAT(store.find(1)->ranks[0].copies, IsEmpty());
  EXPECT_FALSE(store.find(1)->ranks[1].local);
  EXPECT_EQ(store.find(1)->unsafe(), 2u);
  store.staged(1, 0);
  EXPECT_EQ(store.find(1)->unsafe(), 1u);
  store.staged(1, 1);
  EXPECT_TRUE(store.safe(1));
}

TEST(StoredCopiesTest, TheWavesThatOutliveALossStay) {
  Store store("/job", "/local/job");
  for (WaveNumber number = 1; number <= 6; ++number) {
    store.commit(wave(number, {0, 1}));
    if (number <= 3) store.found(number, 1, {0}), store.found(number, 0, {1});
  }
  EXPECT_THAT(store.prune({4}), ElementsAre(1));
  EXPECT_THAT(store.keep({}), ElementsAre(2, 3, 5, 6));
}

TEST(StoredCopiesTest, WhatIsNotIntactIsWhatTheNodeHasRead) {
  Store store("/job", "/local/job");
  store.commit(wave(1, {0, 1}));
  store.found(1, 2, {0});
  store.staged(1, 0);
  store.damaged(1, 0, 0);
  const StoredRank& image = store.find(1)->ranks[0];
  EXPECT_FALSE(image.local || image.staged);
  EXPECT_THAT(image.copies, ElementsAre(2)) << "node 0 has not read that";
  store.damaged(1, 0, 3);
  EXPECT_THAT(image.copies, IsEmpty()) << "node 3 can only have read the copies";
}

TEST(StoredCopiesTest, ALaterCrrunKnowsThem) {
  Store store("/job", "/local/job");
  store.commit(wave(1, {0, 0, 1, 1}));
  store.found(1, 2, {0, 1, 3});
  store.found(1, 1, {0});
  store.commit(wave(2, {0, 0, 1, 1}));
  store.node_lost(0);
  store.found(1, 3, {1});
  store.found(1, 3, {0});
  store.damaged(1, 3, 2);
  StoredWaves again;
  for (const StoreChange& change : store.take_changes())
    update(again, std::get<StoreChange>(record_from_json(nlohmann::json::parse(to_json(Record(change)).dump()), 4)));
  EXPECT_EQ(again, store.waves());
  State state;
  state.incarnation.resize(4);
  state.waves = store.waves();
  EXPECT_EQ(state_from_json(nlohmann::json::parse(to_json(state).dump()), 4), state);
  EXPECT_THAT(again.at(1).ranks[0].copies, ElementsAre(1, 2));
}

TEST(StoredCopiesTest, AStateWithCopiesOfRanksThatAreNotThereIsRefused) {
  State state;
  state.incarnation.resize(2);
  state.waves[1] = wave(1, {0, 1});
  nlohmann::json json = to_json(state);
  json["waves"][0]["copies"] = {{{"node", 1}, {"of", {0, 2}}}};
  EXPECT_THROW(state_from_json(json, 2), std::runtime_error);
}

TEST(RedundantPlanTest, ReadsFromNodesThatHaveACopy) {
  Store store("/job", "/local/job");
  store.commit(wave(4, {0, 1, 1}));
  store.found(4, 2, {1, 2});
  store.found(4, 3, {1});
  store.node_lost(1);
  Cluster cluster;
  std::vector<Seat> seats(5);
  for (NodeIndex node = 0; node < 5; ++node) seats[node].node = node, seats[node].slots = node == 4 ? 2 : 0, seats[node].usable = node != 1, seats[node].spare = node == 4;
  seats[0].slots = 1;
  const auto live = [](Rank rank) { return rank == 0; };
  const auto plan = plan_recovery({0, 1, 1}, {}, seats, false, store, live, cluster.serves());
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->wave, 4u);
  EXPECT_THAT(plan->restart, ElementsAre(1, 2));
  Recover message;
  plan->fill(message, store, cluster.serving());
  EXPECT_THAT(message.images(1).paths(), IsEmpty());
  EXPECT_EQ(message.images(1).checksum(), 29u);
  ASSERT_EQ(message.fetch_size(), 2);
  for (const Fetch& fetch : message.fetch()) {
    EXPECT_EQ(fetch.to(), 4u);
    ASSERT_EQ(fetch.ranks_size(), 1);
    const Rank rank = fetch.ranks(0);
    ASSERT_EQ(fetch.sources_size(), rank == 1 ? 2 : 1);
    EXPECT_EQ(fetch.sources(0).node(), 2u);
    EXPECT_EQ(fetch.sources(0).from().endpoints(0), "tcp://10.0.0.1:1");
    EXPECT_EQ(fetch.sources(0).images(0).rank(), rank);
    EXPECT_EQ(fetch.sources(0).images(0).wave(), 4u);
    EXPECT_EQ(fetch.sources(0).images(0).checksum(), 28u + rank);
  }
  cluster.up.erase(2);
  EXPECT_EQ(plan_recovery({0, 1, 1}, {}, seats, false, store, live, cluster.serves())->wave, 0u) << "nobody hands out the image of rank 2";
}

TEST(RedundantPlanTest, ARankOnANodeWithACopyNeedsNoNetwork) {
  Store store("/job", "/local/job");
  store.commit(wave(4, {0, 1}));
  store.found(4, 0, {1});
  store.node_lost(1);
  Cluster cluster;
  std::vector<Seat> seats(2);
  for (NodeIndex node = 0; node < 2; ++node) seats[node].node = node, seats[node].slots = 2, seats[node].usable = node == 0;
  const auto plan = plan_recovery({0, 1}, {}, seats, true, store, [](Rank) { return false; }, cluster.serves());
  ASSERT_TRUE(plan);
  Recover message;
  plan->fill(message, store, cluster.serving());
  EXPECT_THAT(message.images(1).paths(), ElementsAre("/local/job/wave-4/rank-1.img"));
  EXPECT_THAT(message.fetch(), IsEmpty());
}

TEST_F(ProtectionTest, EachNodeCopiesFromTheOneBeforeIt) {
  store.commit(wave(1, {0, 0, 1, 2}));
  EXPECT_THAT(next(), UnorderedElementsAre(Words{1, 0, {0, 1}}, Words{2, 1, {2}}, Words{0, 2, {3}}));
  EXPECT_EQ(protection.wave(), 1u);
  EXPECT_TRUE(protection.busy(1));
  EXPECT_THAT(next(), IsEmpty()) << "all is ordered";
  answer(1, 1, {0, 1});
  answer(2, 1, {2});
  EXPECT_THAT(next(), IsEmpty());
  answer(0, 1, {3});
  EXPECT_TRUE(store.safe(1));
  EXPECT_THAT(next(), IsEmpty());
  EXPECT_EQ(protection.wave(), 0u);
  store.commit(wave(2, {0, 0, 1, 2}));
  EXPECT_THAT(next(), UnorderedElementsAre(Words{1, 0, {0, 1}}, Words{2, 1, {2}}, Words{0, 2, {3}})) << "the same partners";
}

TEST_F(ProtectionTest, PartnersAreOfOtherFailureGroupsAndDifferent) {
  protection = Protection(partner(2), {0, 0, 1, 1, 2, 2}, 6);
  store.commit(wave(1, {0, 1, 2, 3}));
  std::map<NodeIndex, std::set<NodeIndex>> partners;
  std::map<NodeIndex, int> load;
  for (const auto& [to, from, ranks] : next()) {
    EXPECT_NE(to, from);
    partners[from].insert(to);
    ++load[to];
  }
  EXPECT_THAT(partners[0], UnorderedElementsAre(2, 3));
  EXPECT_THAT(partners[1], UnorderedElementsAre(2, 3));
  EXPECT_THAT(partners[2], UnorderedElementsAre(0, 1));
  EXPECT_THAT(partners[3], UnorderedElementsAre(0, 1));
  for (const auto& [node, copies] : load) EXPECT_EQ(copies, 2) << node;
}

TEST_F(ProtectionTest, AnEmptyNodeKeepsCopiesOnlyIfOtherwiseThereAreTooFew) {
  store.commit(wave(1, {0, 1}));
  EXPECT_THAT(next(), UnorderedElementsAre(Words{1, 0, {0}}, Words{0, 1, {1}}));
  protection = Protection(partner(2), {}, 6);
  std::map<NodeIndex, std::set<NodeIndex>> partners;
  for (const auto& [to, from, ranks] : next()) partners[from].insert(to);
  EXPECT_THAT(partners[0], UnorderedElementsAre(1, 2));
  EXPECT_THAT(partners[1], UnorderedElementsAre(0, 3));
}

TEST_F(ProtectionTest, CopiesThatALossHasCostAreMadeAgain) {
  store.commit(wave(1, {0, 1, 2}));
  next();
  answer(1, 1, {0});
  answer(2, 1, {1});
  answer(0, 1, {2});
  ASSERT_TRUE(store.safe(1));
  // Node 1 is lost: with it its own image and the copy of rank 0. Rank 1 is restarted on node 3 from the copy on node 2.
  cluster.up.erase(1);
  store.node_lost(1);
  protection.node_lost(1);
  protection.reset();
  store.found(1, 3, {1});
  EXPECT_THAT(next(), UnorderedElementsAre(Words{2, 0, {0}}));
}

TEST_F(ProtectionTest, AfterErrorsItWaitsAndThenAsksAnother) {
  store.commit(wave(1, {0, 1, 2}));
  next();
  answer(2, 1, {1});
  answer(0, 1, {2});
  std::uint64_t ms = 0;
  for (const std::uint64_t pause : {1000, 2000}) {
    answer(1, 1, {0}, "no space left", ms);
    EXPECT_THAT(next(ms), IsEmpty()) << "not at once";
    ms += pause;
    EXPECT_THAT(next(ms), ElementsAre(Words{1, 0, {0}}));
  }
  answer(1, 1, {0}, "no space left", ms);
  EXPECT_THAT(next(ms), ElementsAre(Words{2, 0, {0}}));
}

TEST_F(ProtectionTest, TheWaveThatWasBegunIsFinishedBeforeANewerOne) {
  store.commit(wave(1, {0, 1}));
  next();
  store.commit(wave(2, {0, 1}));
  store.commit(wave(3, {0, 1}));
  EXPECT_THAT(next(), IsEmpty());
  answer(1, 1, {0});
  EXPECT_THAT(next(), IsEmpty());
  answer(0, 1, {1});
  EXPECT_THAT(next(), UnorderedElementsAre(Words{1, 0, {0}}, Words{0, 1, {1}}));
  EXPECT_EQ(protection.wave(), 3u);
}

TEST_F(ProtectionTest, AWaveThatWasDroppedMeanwhileGivesWayToTheNewest) {
  store.commit(wave(1, {0, 1}));
  next();
  store.commit(wave(2, {0, 1}));
  store.forget_after(1);
  store.commit(wave(3, {0, 1}));
  store.prune({});
  answer(1, 1, {0}, "there is no wave 1");
  answer(0, 1, {1}, "there is no wave 1");
  next();
  store.commit(wave(4, {0, 1}));
  store.commit(wave(5, {0, 1}));
  store.prune({});
  EXPECT_FALSE(store.find(1));
  protection.node_joined(5);
  EXPECT_THAT(next(100'000), UnorderedElementsAre(Words{1, 0, {0}}, Words{0, 1, {1}}));
  EXPECT_EQ(protection.wave(), 5u);
}

TEST_F(ProtectionTest, SetsHaveNodesOfDifferentGroupsAndNoneIsAlone) {
  protection = Protection(parity(3), {0, 0, 0, 1, 1, 1}, 6);
  store.commit(wave(1, {0, 1, 2, 3, 4, 5, 5}));
  next();
  EXPECT_THAT(sets(1), ElementsAre(ElementsAre(0, 3, 1), ElementsAre(4, 2, 5)));
  protection = Protection(parity(3), {}, 6);
  for (const auto& [nodes, expected] : std::vector<std::pair<PlacementTable, std::vector<std::vector<NodeIndex>>>>{
           {{0, 1, 2, 3}, {{0, 1, 2, 3}}}, {{0, 1, 2, 3, 4}, {{0, 1, 2}, {3, 4}}}, {{3, 1}, {{1, 3}}}, {{2, 2}, {}}}) {
    store.forget_after(0);
    protection.reset();
    store.commit(wave(1, nodes));
    next();
    EXPECT_EQ(sets(1), expected);
  }
}

TEST_F(ProtectionTest, AWaveIsSafeWhenAllOfASetHaveTheirParity) {
  protection = Protection(parity(3), {}, 6);
  store.commit(wave(1, {0, 0, 1, 2}));
  const std::vector<Words> orders = next();
  ASSERT_EQ(orders.size(), 9u);
  for (NodeIndex node = 0; node < 3; ++node) EXPECT_THAT(orders, testing::IsSupersetOf({Words{node, 0, {0, 1}}, Words{node, 1, {2}}, Words{node, 2, {3}}}));
  for (NodeIndex node = 0; node < 3; ++node) {
    EXPECT_FALSE(store.safe(1));
    answer_parity(node, 1);
    EXPECT_THAT(next(), IsEmpty());
  }
  EXPECT_TRUE(store.safe(1));
  EXPECT_TRUE(store.find(1)->safe(3));
  // Another crrun knows it.
  StoredWaves again;
  for (const StoreChange& change : store.take_changes())
    update(again, std::get<StoreChange>(record_from_json(nlohmann::json::parse(to_json(Record(change)).dump()), 4)));
  EXPECT_EQ(again, store.waves());
  State state;
  state.incarnation.resize(4);
  state.waves = again;
  EXPECT_EQ(state_from_json(nlohmann::json::parse(to_json(state).dump()), 4), state);
  // One lost node is made good by the others, two are not.
  store.node_lost(0);
  EXPECT_FALSE(store.safe(1));
  const auto serves = cluster.serves();
  EXPECT_TRUE(store.available(*store.find(1), {4, 4, 1, 2}, serves));
  cluster.up.erase(1);
  EXPECT_FALSE(store.available(*store.find(1), {4, 4, 1, 2}, serves)) << "node 1 does not hand its parity out";
  cluster.up.insert(1);
  store.node_lost(2);
  EXPECT_FALSE(store.available(*store.find(1), {4, 4, 1, 5}, serves));
}

TEST_F(ProtectionTest, AfterALossOnlySetsThatAreNotWholeAreFormedAgain) {
  protection = Protection(parity(3), {}, 7);
  cluster.up.insert(6);
  store.commit(wave(1, {0, 1, 2, 3, 4, 5}));
  next();
  for (NodeIndex node = 0; node < 6; ++node) answer_parity(node, 1);
  ASSERT_TRUE(store.safe(1));
  cluster.up.erase(4);
  store.node_lost(4);
  protection.node_lost(4);
  protection.reset();
  EXPECT_THAT(next(), IsEmpty()) << "the image of rank 4 is nowhere yet";
  store.found(1, 6, {4});
  EXPECT_EQ(next().size(), 9u);
  EXPECT_THAT(sets(1), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 5, 6)));
  for (NodeIndex node : {3, 5, 6}) answer_parity(node, 1);
  EXPECT_TRUE(store.safe(1));
}

TEST_F(ProtectionTest, ANodeThatTakesOverRanksOfAnotherSetJoinsBoth) {
  protection = Protection(parity(3), {}, 6);
  store.commit(wave(1, {0, 1, 2, 3, 4, 5}));
  next();
  for (NodeIndex node = 0; node < 6; ++node) answer_parity(node, 1);
  cluster.up.erase(4);
  store.node_lost(4);
  protection.reset();
  store.found(1, 0, {4});
  EXPECT_EQ(next().size(), 3 * 3 + 2 * 2u);
  EXPECT_THAT(sets(1), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 5)));
  EXPECT_THAT(store.find(1)->sets[0].members[0].ranks, ElementsAre(0, 4));
}

TEST_F(ProtectionTest, ParityNeedsAllMembersAtTheSameTime) {
  protection = Protection(parity(3), {}, 6);
  store.commit(wave(1, {0, 1, 2}));
  EXPECT_EQ(next().size(), 9u);
  ProtectDone done;
  done.set_wave(1);
  done.set_finished(true);
  done.add_unreachable(2);
  protection.done(0, done, {});
  EXPECT_THAT(next(500), IsEmpty());
  EXPECT_THAT(next(1500), IsEmpty()) << "the others are still at it";
  answer_parity(1, 1);
  answer_parity(2, 1);
  EXPECT_EQ(next(1500).size(), 3u);
}

TEST(RedundantPlanTest, ASetRebuildsWhatItsLostNodeHad) {
  Store store("/job", "/local/job");
  store.commit(wave(4, {0, 1, 2, 2}));
  store.formed(4, {{{0, {0}, false}, {1, {1}, false}, {2, {2, 3}, false}}});
  for (NodeIndex node = 0; node < 3; ++node) store.parity_kept(4, node);
  store.node_lost(2);
  Cluster cluster;
  std::vector<Seat> seats(4);
  for (NodeIndex node = 0; node < 4; ++node) seats[node].node = node, seats[node].slots = node == 3 ? 2 : 1, seats[node].usable = node != 2, seats[node].spare = node == 3;
  const auto live = [](Rank rank) { return rank < 2; };
  const auto plan = plan_recovery({0, 1, 2, 2}, {}, seats, false, store, live, cluster.serves());
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->wave, 4u);
  Recover message;
  plan->fill(message, store, cluster.serving());
  ASSERT_EQ(message.fetch_size(), 1);
  const Fetch& fetch = message.fetch(0);
  EXPECT_EQ(fetch.to(), 3u);
  EXPECT_THAT(fetch.ranks(), ElementsAre(2, 3));
  ASSERT_EQ(fetch.sources_size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(fetch.sources(i).node(), static_cast<NodeIndex>(i));
    EXPECT_EQ(fetch.sources(i).has_from(), i < 2);
  }
  EXPECT_EQ(fetch.sources(2).images_size(), 2);
  // The images were rebuilt from damaged ones: nothing of the set counts.
  store.damaged(4, 2, 3);
  EXPECT_THAT(store.find(4)->sets, IsEmpty());
}

TEST_F(ProtectionTest, ANodeThatDoesNotServeYetIsWaitedFor) {
  cluster.up = {0, 1};
  store.commit(wave(1, {0, 1, 2}));
  EXPECT_THAT(next(), IsEmpty());
  cluster.up.insert(2);
  protection.node_joined(2);
  EXPECT_EQ(next().size(), 3u);
}

}  // namespace

namespace sim {
namespace {

TEST_F(RedundantJob, WithoutSharedStorageALostNodeCostsAWaveAtMost) {
  Cluster cluster(model);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("wave-commit") == 0; }));
  const auto status = [&] { return cluster.coordinator().status({cluster.now_ms() + 1000, 0}); };
  EXPECT_EQ(status().at("redundancy"), "partner:1");
  EXPECT_EQ(status().at("waves").at(0).at("safe"), false);
  ASSERT_TRUE(cluster.run_while([&] { return !safe(cluster); }));
  EXPECT_EQ(status().at("waves").at(0).at("safe"), true);
  EXPECT_EQ(status().at("waves").at(0).at("safe_ranks"), model.ranks);
  EXPECT_EQ(status().at("waves").at(0).at("staged"), false);
  const Metrics metrics = cluster.coordinator().take_metrics({cluster.now_ms() + 1000, 0});
  EXPECT_TRUE(metrics.newest_safe_unix_ns);
  EXPECT_EQ(metrics.tally.copied_bytes, model.ranks * model.image_bytes);
  cluster.kill_node(1);
  ends_well(cluster);
  EXPECT_EQ(begun_anew(cluster), 0u);
  EXPECT_EQ(cluster.count("recovery-done"), 1u);
  EXPECT_GT(cluster.count("wave-safe"), 1u);
  EXPECT_GT(cluster.count("protected-rank"), 8u);
}

TEST_F(RedundantJob, WithoutRedundancyItBeginsAnew) {
  set(Redundancy::NONE, 0);
  Cluster cluster(model);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("wave-commit") < 2; }));
  cluster.kill_node(1);
  ends_well(cluster);
  EXPECT_EQ(begun_anew(cluster), 1u);
}

TEST_F(RedundantJob, OneNodeAfterTheOther) {
  model.work_ms = 60'000;
  Cluster cluster(model);
  for (const NodeIndex node : {2, 0}) {
    ASSERT_TRUE(cluster.run_while([&] { return !safe(cluster) || cluster.coordinator().phase() != Phase::running; }));
    const std::size_t before = cluster.count("recovery-done");
    cluster.kill_node(node);
    ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") == before; }));
  }
  ends_well(cluster);
  EXPECT_EQ(begun_anew(cluster), 0u);
}

TEST_F(RedundantJob, ANodeIsDrainedWithoutSharedStorage) {
  Cluster cluster(model);
  cluster.at(1500, [&] { cluster.coordinator().request_drain(1, "node2", {cluster.now_ms() + 1000, 0}); });
  ASSERT_TRUE(cluster.run_while([&] { return !cluster.replies().count(1); }));
  EXPECT_TRUE(cluster.replies().at(1).first) << cluster.replies().at(1).second;
  cluster.kill_node(2);
  ends_well(cluster);
  EXPECT_EQ(begun_anew(cluster), 0u);
}

TEST_F(RedundantJob, ANodeWithoutRoomIsReplacedAsAPartner) {
  model.work_ms = 30'000;
  Cluster cluster(model);
  cluster.keeps_none(1, true);
  ASSERT_TRUE(cluster.run_while([&] { return !safe(cluster); }));
  EXPECT_EQ(cluster.times_said("could not keep images"), 1u);
  EXPECT_EQ(cluster.times_said("keep images of each other again"), 1u);
  cluster.kill_node(0);
  ends_well(cluster);
  EXPECT_EQ(begun_anew(cluster), 0u);
}

TEST_F(RedundantJob, AnotherCrrunKnowsWhereTheCopiesAre) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    model.seed = seed;
    if (seed > 5) set(Redundancy::XOR, 3);
    Cluster cluster(model);
    ASSERT_TRUE(cluster.run_while([&] { return !safe(cluster); }));
    cluster.break_crrun();
    cluster.kill_node(3);  // no crrun sees it
    ends_well(cluster);
    EXPECT_EQ(begun_anew(cluster), 0u) << seed;
  }
}

TEST_F(RedundantJob, ParityMakesGoodWhatALostNodeHad) {
  set(Redundancy::XOR, 3);
  Cluster cluster(model);
  ASSERT_TRUE(cluster.run_while([&] { return !safe(cluster); }));
  cluster.kill_node(1);
  ends_well(cluster);
  EXPECT_EQ(begun_anew(cluster), 0u);
  EXPECT_EQ(cluster.count("recovery-done"), 1u);
  EXPECT_GT(cluster.count("parity-kept"), 4u);
}

TEST_F(RedundantJob, ANodeIsDrainedWithParity) {
  set(Redundancy::XOR, 3);
  Cluster cluster(model);
  cluster.at(1500, [&] { cluster.coordinator().request_drain(1, "node2", {cluster.now_ms() + 1000, 0}); });
  ASSERT_TRUE(cluster.run_while([&] { return !cluster.replies().count(1); }));
  EXPECT_TRUE(cluster.replies().at(1).first) << cluster.replies().at(1).second;
  ends_well(cluster);
  EXPECT_EQ(begun_anew(cluster), 0u);
}

TEST_F(RedundantJob, NoNodesLossCostsASafeWave) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    model.seed = seed;
    model.work_ms = 20'000;
    model.image_us = seed % 3 ? 20'000 : 400'000;
    model.again = seed % 5 ? 0 : 0.3;
    model.shared = seed % 7 == 0;
    if (seed % 2)
      set(Redundancy::XOR, 3 + seed / 2 % 2);
    else
      set(Redundancy::PARTNER, 1 + seed / 2 % 2);
    model.settings.failure_groups = seed % 8 < 4 ? std::vector<std::uint32_t>{} : std::vector<std::uint32_t>{0, 0, 1, 1, 2, 2};
    Cluster cluster(model);
    std::mt19937_64 random(seed);
    const auto some = [&](std::uint64_t limit) { return std::uniform_int_distribution<std::uint64_t>(0, limit)(random); };
    unsigned lost = 0;
    while (lost < 3 && cluster.code() < 0) {
      // At any moment at which a wave is safe: between waves, in one, while it is copied, in a recovery.
      cluster.run_until(cluster.now_ms() + some(3000));
      if (!cluster.run_while([&] { return !safe(cluster) && cluster.code() < 0; })) break;
      if (cluster.code() >= 0) break;
      std::vector<NodeIndex> alive;
      for (NodeIndex node = 0; node < model.nodes + model.spares; ++node)
        if (cluster.coordinator().members().up(node)) alive.push_back(node);
      if (alive.size() < 3) break;
      const NodeIndex node = alive[some(alive.size() - 1)];
      ++lost;
      if (some(2))
        cluster.kill_node(node);
      else
        cluster.kill_daemon(node);
      if (!some(3)) cluster.break_crrun();
      // The next one is lost only when crrun knows of this one.
      const std::size_t known = cluster.count("node-lost");
      if (!cluster.run_while([&] { return cluster.count("node-lost") == known && cluster.code() < 0; })) break;
    }
    ends_well(cluster);
    EXPECT_EQ(begun_anew(cluster), 0u);
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace sim
}  // namespace reprise::job
