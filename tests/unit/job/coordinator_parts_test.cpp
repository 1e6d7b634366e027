// SPDX-License-Identifier: GPL-2.0-only
// The parts of the coordinator one by one.
#include <gmock/gmock.h>

#include <limits>
#include <random>

#include "crrun/coordinator/coordinator.h"
#include "crrun/coordinator/slowest.h"
#include "job/relay.h"

namespace reprise::job {
namespace {

using testing::ElementsAre;

std::vector<Seat> two_and_a_spare() { return {{0, 2, false, true}, {1, 2, false, true}, {2, 2, true, true}}; }

TEST(PlacementTest, ALostNodesRanksGoToTheSpareTogether) {
  auto after = two_and_a_spare();
  after[0].usable = false;
  EXPECT_THAT(*place_again({0, 0, 1, 1}, after, true), ElementsAre(2, 2, 1, 1));
}

TEST(PlacementTest, WithoutSparesSurvivorsDoubleUpUnlessForbidden) {
  auto after = two_and_a_spare();
  after[0].usable = after[2].usable = false;
  EXPECT_THAT(*place_again({0, 0, 1, 1}, after, true), ElementsAre(1, 1, 1, 1));
  EXPECT_FALSE(place_again({0, 0, 1, 1}, after, false));
  after[1].usable = false;
  EXPECT_FALSE(place_again({0, 0, 1, 1}, after, true));
}

TEST(PlacementTest, FreeSlotsOfOthersComeBeforeDoublingUp) {
  const std::vector<Seat> after{{0, 2, false, false}, {1, 4, false, true}, {2, 1, true, true}};
  EXPECT_THAT(*place_again({0, 0, 1, 1}, after, false), ElementsAre(2, 1, 1, 1));
}

TEST(PlacementTest, ManyLostNodesFillTheSparesThenTheLeastLoaded) {
  constexpr std::uint32_t kNodes = 1000;
  std::vector<Seat> after;
  PlacementTable before;
  for (NodeIndex node = 0; node < kNodes; ++node) {
    after.push_back({node, 4, node >= 900, node >= 200});
    for (int i = 0; i < 2 && node < 900; ++i) before.push_back(node);
  }
  const PlacementTable placed = *place_again(before, after, false);
  std::vector<unsigned> ranks(kNodes);
  for (NodeIndex node : placed) ++ranks[node];
  for (NodeIndex node = 0; node < kNodes; ++node) EXPECT_EQ(ranks[node], node < 200 ? 0u : node < 900 ? 2u : 4u) << node;
  for (Rank rank = 0; rank < 400; rank += 2) EXPECT_EQ(placed[rank], placed[rank + 1]) << "of one node";
  for (Rank rank = 400; rank < 1800; ++rank) EXPECT_EQ(placed[rank], before[rank]);
}

StoredWave wave(WaveNumber number, RecoveryNumber recovery = 0) {
  StoredWave out;
  out.wave = number;
  out.recovery = recovery;
  out.ranks.resize(2);
  out.ranks[0].node = 0;
  out.ranks[1].node = 1;
  return out;
}

/** @return the newest wave that is available */
std::optional<WaveNumber> newest_of(const Store& store, const PlacementTable& nodes) {
  for (auto wave = store.waves().rbegin(); wave != store.waves().rend(); ++wave)
    if (store.available(wave->second, nodes, [](NodeIndex) { return false; })) return wave->first;
  return std::nullopt;
}

/** The wave, with processes 7 and 8 that rank 1 has spawned on nodes 1 and 2. */
StoredWave with_family(StoredWave out) {
  StoredFamily& family = out.families.emplace_back();
  family.index = 3;
  family.first = 7;
  family.count = 2;
  family.parent = 1;
  SpawnApp& app = family.apps.emplace_back();
  app.add_argv("a\"b");
  app.set_processes(2);
  for (const NodeIndex node : {1, 2}) out.ranks.emplace_back().node = node;
  return out;
}

TEST(RosterTest, HasAPlaceForEachNumber) {
  Roster roster(2);
  roster.add(7, 2);
  roster.add(12, 1);
  EXPECT_EQ(roster.size(), 5u);
  const Rank numbers[] = {0, 1, 7, 8, 12};
  for (std::size_t place = 0; place < 5; ++place) {
    EXPECT_EQ(roster.number(place), numbers[place]);
    EXPECT_EQ(roster.place(numbers[place]), place);
  }
  for (const Rank none : {2, 6, 9, 11, 13}) EXPECT_FALSE(roster.place(none)) << none;
}

TEST(RecoveryPlanTest, TakesTheNewestWaveForWhoseSpawnedProcessesThereIsAPlace) {
  Store store("/job", "/local/job");
  StoredWave old = wave(1), with = with_family(wave(2));
  for (StoredWave* one : {&old, &with})
    for (StoredRank& image : one->ranks) image.staged = true;
  store.commit(old);
  store.commit(with);
  std::vector<Seat> seats(3);
  for (NodeIndex node = 0; node < 3; ++node) seats[node].node = node, seats[node].slots = 2;
  const auto live = [](Rank) { return true; };
  const auto nobody = [](NodeIndex) { return false; };
  // Process 8 runs on node 0 by now; the image is on node 2.
  auto plan = plan_recovery({0, 1}, {{7, 1}, {8, 0}}, seats, false, store, live, nobody);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->wave, 2u);
  EXPECT_THAT(plan->nodes, ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(plan->restart, ElementsAre(8));
  // They have ended since: they come back where they were.
  plan = plan_recovery({0, 1}, {}, seats, false, store, [](Rank rank) { return rank < 2; }, nobody);
  EXPECT_THAT(plan->nodes, ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(plan->restart, ElementsAre(7, 8));
  Recover message;
  plan->fill(message, store, [](NodeIndex) { return nullptr; });
  ASSERT_EQ(message.spawned_size(), 1);
  EXPECT_THAT(message.spawned(0).node_of_rank(), ElementsAre(1, 2));
  EXPECT_EQ(message.placement(3).rank(), 8u);
  EXPECT_EQ(message.images(3).paths(0), "/local/job/wave-2/rank-8.img");
  // Node 2 is lost, and there are too few slots for its process: the wave before has none.
  seats[2].usable = false;
  seats[0].slots = seats[1].slots = 1;
  plan = plan_recovery({0, 1}, {}, seats, false, store, live, nobody);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->wave, 1u);
  EXPECT_THAT(plan->nodes, ElementsAre(0, 1));
}

TEST(StoreTest, TakesTheNewestWaveOfWhichAllCanBeHad) {
  Store store("/job", "/local/job");
  store.commit(wave(1));
  store.staged(1, 0);
  EXPECT_TRUE(store.staged(1, 1));
  store.commit(wave(2));
  EXPECT_EQ(*newest_of(store, {0, 1}), 2u);
  EXPECT_EQ(*newest_of(store, {0, 2}), 1u) << "the image of rank 1 in wave 2 is on node 1 only";
  store.node_lost(1);
  EXPECT_EQ(*newest_of(store, {0, 1}), 1u);
  store.damaged(1, 0, 0);
  EXPECT_FALSE(newest_of(store, {0, 1}));
}

TEST(StoreTest, KeepsTheTwoNewestTheTwoNewestStagedAndWhatIsBeingCopied) {
  Store store("/job", "/local/job");
  for (WaveNumber number = 1; number <= 6; ++number) store.commit(wave(number));
  for (const WaveNumber number : {1, 2, 4})
    for (const Rank rank : {0, 1}) store.staged(number, rank);
  store.staged(5, 0);
  store.commit(wave(7));
  store.commit(wave(8));
  EXPECT_THAT(store.prune({5}), ElementsAre(1, 3, 6));
  EXPECT_THAT(store.keep({}), ElementsAre(2, 4, 7, 8));
  EXPECT_THAT(store.forget_after(4), ElementsAre(5, 7, 8));
}

TEST(StoreTest, AWaveIsStagedOnceItsLastImageIs) {
  Store store("/job", "/local/job");
  store.commit(wave(1));
  EXPECT_FALSE(store.staged(1, 0));
  EXPECT_FALSE(store.staged(1, 0)) << "a second time";
  EXPECT_TRUE(store.staged(1, 1));
  EXPECT_FALSE(store.staged(1, 1));
  store.damaged(1, 0, 0);
  EXPECT_TRUE(store.staged(1, 0)) << "again";
}

TEST(StoreTest, ImagesThatANodeHasAreFound) {
  Store store("/job", "/local/job");
  store.commit(wave(1));
  store.node_lost(1);
  EXPECT_FALSE(newest_of(store, {0, 2}));
  store.found(1, 2, {1});
  EXPECT_EQ(*newest_of(store, {0, 2}), 1u);
  EXPECT_FALSE(newest_of(store, {0, 1}));
  // A later crrun learns of it.
  StoredWaves again;
  for (const StoreChange& change : store.take_changes()) {
    const Record record = record_from_json(nlohmann::json::parse(to_json(Record(change)).dump()), 2);
    update(again, std::get<StoreChange>(record));
  }
  EXPECT_EQ(again, store.waves());
}

TEST(StoreTest, NamesTheLocalImageFirst) {
  Store store("/job", "/local/job");
  store.commit(wave(7));
  store.staged(7, 1);
  EXPECT_THAT(store.place(7, 1, 1).paths(), ElementsAre("/local/job/wave-7/rank-1.img", "/job/wave-7/rank-1.img"));
  EXPECT_THAT(store.place(7, 1, 0).paths(), ElementsAre("/job/wave-7/rank-1.img"));
}

TEST(StagingTest, AFewNodesAtATimeAndWhatWasBegunFirst) {
  Store store("/job", "/local/job");
  store.commit(wave(1));
  Staging staging(1);
  const auto up = [](NodeIndex) { return true; };
  auto orders = staging.next(store, up, {});
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].node, 0u);
  EXPECT_TRUE(staging.next(store, up, {}).empty());
  store.commit(wave(2));
  store.staged(1, 0);
  staging.finished(0, true, {});
  orders = staging.next(store, up, {});
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].wave, 1u);
  store.staged(1, 1);
  staging.finished(1, true, {});
  EXPECT_EQ(staging.next(store, up, {})[0].wave, 2u);
}

TEST(StagingTest, AWaveThatCannotBeCompletedIsLeftForTheNext) {
  Store store("/job", "/local/job");
  store.commit(wave(1));
  Staging staging(1);
  const auto up = [](NodeIndex) { return true; };
  EXPECT_EQ(staging.next(store, up, {})[0].node, 0u);
  store.node_lost(1);
  EXPECT_TRUE(staging.next(store, up, {}).empty()) << "node 0 still copies";
  store.commit(wave(2));
  EXPECT_TRUE(staging.next(store, up, {}).empty());
  store.staged(1, 0);
  staging.finished(0, true, {});
  const auto orders = staging.next(store, up, {});
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].wave, 2u);
}

TEST(StagingTest, AnOrderHasOnlyWhatIsNotStagedYet) {
  Store store("/job", "/local/job");
  StoredWave all_on_one = wave(1);
  all_on_one.ranks[1].node = 0;
  store.commit(all_on_one);
  Staging staging(1);
  const auto up = [](NodeIndex) { return true; };
  EXPECT_THAT(staging.next(store, up, {})[0].ranks, ElementsAre(0, 1));
  store.staged(1, 0);
  staging.finished(0, false, {});
  EXPECT_THAT(staging.next(store, up, {40'000, 0})[0].ranks, ElementsAre(1));
}

TEST(StagingTest, ANodeThatComesLaterIsAskedThen) {
  Store store("/job", "/local/job");
  store.commit(wave(1));
  Staging staging(1);
  bool second = false;
  const auto up = [&](NodeIndex node) { return node == 0 || second; };
  EXPECT_TRUE(staging.next(store, up, {}).empty()) << "the wave cannot be completed";
  second = true;
  staging.node_joined();
  EXPECT_EQ(staging.next(store, up, {}).size(), 1u);
}

TEST(StagingTest, AfterAnErrorTheNodeWaits) {
  Store store("/job", "/local/job");
  store.commit(wave(1));
  Staging staging(2);
  const auto up = [](NodeIndex) { return true; };
  EXPECT_EQ(staging.next(store, up, {}).size(), 2u);
  staging.finished(0, false, {1000, 0});
  EXPECT_TRUE(staging.next(store, up, {2000, 0}).empty());
  EXPECT_EQ(staging.next(store, up, {40'000, 0}).size(), 1u);
}

TEST(ExitsTest, CodesAreMpirunsOnes) {
  Exits exits(3, 3);
  EXPECT_EQ(exits.exited(0, 0, true, true, Remedy::images, false), ExitMeaning::fine);
  EXPECT_EQ(exits.exited(1, 3 << 8, false, true, Remedy::images, true), ExitMeaning::end_job);
  EXPECT_EQ(exits.exited(2, 4 << 8, false, true, Remedy::images, true), ExitMeaning::end_job);
  EXPECT_EQ(exits.code(), 3) << "that of the first one";
  Exits early(1, 3);
  EXPECT_EQ(early.exited(0, 0, false, true, Remedy::images, false), ExitMeaning::end_job) << "without MPI_Finalize";
  EXPECT_EQ(early.code(), 1);
  Exits plain(1, 3);
  EXPECT_EQ(plain.exited(0, 0, false, false, Remedy::images, false), ExitMeaning::fine) << "no MPI program";
}

TEST(ExitsTest, ARankThatDiesOfSignalsIsRestartedSoOften) {
  Exits exits(1, 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(exits.exited(0, 11, false, true, Remedy::images, true), ExitMeaning::restart);
    exits.rolled_back();
  }
  exits.progressed();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(exits.exited(0, 11, false, true, Remedy::images, true), ExitMeaning::restart);
    exits.rolled_back();
  }
  EXPECT_EQ(exits.exited(0, 11, false, true, Remedy::images, true), ExitMeaning::end_job);
  EXPECT_EQ(exits.code(), 128 + 11);
}

TEST(ExitsTest, ACrashBeforeTheFirstWaveEndsTheJobButAKillDoesNot) {
  Exits exits(2, 3);
  EXPECT_EQ(exits.exited(0, 9, false, true, Remedy::images, false), ExitMeaning::restart);
  EXPECT_EQ(exits.exited(1, 11, false, true, Remedy::images, false), ExitMeaning::end_job);
}

TEST(FencesTest, CompleteWhenEveryNodeWithMembersHasSpoken) {
  Fences fences;
  Fence fence;
  fence.set_count(1);
  fence.set_data("b");
  EXPECT_FALSE(fences.contribute(1, fence, {0, 0, 1}));
  EXPECT_FALSE(fences.contribute(1, fence, {0, 0, 1})) << "the same one again";
  fence.set_data("a");
  const auto done = fences.contribute(0, fence, {0, 0, 1});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->message.data(), "ab");
  EXPECT_THAT(done->to, ElementsAre(0, 1));
  fence.add_members(2);
  EXPECT_TRUE(fences.contribute(1, fence, {0, 0, 1})) << "only rank 2 takes part";
  fence.add_members(0);
  EXPECT_FALSE(fences.contribute(0, fence, {0, 0, 1}));
  fences.reset();
  EXPECT_EQ(fences.open(), 0u);
}

TEST(FencesTest, BothServersOfANodeSpeakIfRanksMeetSpawnedProcesses) {
  Fences fences;
  Fence fence;
  for (const Rank member : {1u, 2u, 3u}) fence.add_members(member);
  fence.set_data("own");
  const Fences::Others spawned{{2, 0}, {3, 1}};
  EXPECT_FALSE(fences.contribute(0, fence, {0, 0}, spawned));
  EXPECT_FALSE(fences.contribute(0, fence, {0, 0}, spawned)) << "the same one again";
  fence.set_spawned(true);
  fence.set_data("spawned");
  EXPECT_FALSE(fences.contribute(0, fence, {0, 0}, spawned)) << "spawned process 3 is on another node";
  const auto done = fences.contribute(1, fence, {0, 0}, spawned);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->message.data(), "ownspawnedspawned");
  EXPECT_THAT(done->to, ElementsAre(0, 1));
}

TEST(FencesTest, AServerWhoseMembersHaveAllFailedIsNotAwaited) {
  Fences fences;
  Fence fence;
  fence.add_members(0);
  fence.add_members(2);
  const Fences::Others spawned{{2, 0}};
  EXPECT_FALSE(fences.contribute(0, fence, {0, 0}, spawned));
  const auto done = fences.fail({2}, {0, 0}, spawned);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_THAT(done[0].to, ElementsAre(0));
}

TEST(ModexTest, AnswersComeWhenTheDataDoes) {
  Modex modex;
  ModexRequest request;
  request.set_id(5);
  request.set_rank(1);
  EXPECT_FALSE(modex.ask(3, request));
  ModexBlob blob;
  blob.set_rank(1);
  blob.set_data("x");
  const auto answers = modex.put(blob);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].to, 3u);
  EXPECT_EQ(answers[0].reply.data(), "x");
  EXPECT_TRUE(modex.ask(0, request));
}

TEST(BoardTest, PublishedNamesAreFoundAndWaitedFor) {
  Board board;
  Lookup lookup;
  lookup.set_id(1);
  lookup.add_keys("port");
  EXPECT_LT(board.lookup(0, lookup)->reply.status(), 0);
  lookup.set_wait(true);
  EXPECT_FALSE(board.lookup(2, lookup));
  Publish publish;
  publish.set_publisher("job.0");
  (*publish.mutable_values())["port"] = "tcp";
  const auto answers = board.publish(1, publish);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].to, 1u);  // who publishes waits until it is taken
  EXPECT_EQ(answers[0].reply.id(), publish.id());
  EXPECT_EQ(answers[1].to, 2u);
  EXPECT_EQ(answers[1].reply.values().at("port"), "tcp");
}

TEST(OutputStreamTest, WhatIsSaidAgainIsDroppedUpToTheFirstDifference) {
  OutputStream stream;
  EXPECT_EQ(stream.said(0, "one two ", 1000).data, "one two ");
  EXPECT_EQ(stream.said(8, "three", 1000).data, "three");
  stream.rolled_back(4);
  EXPECT_EQ(stream.said(4, "tw", 1000).data, "");
  const auto rest = stream.said(6, "o three four", 1000);
  EXPECT_EQ(rest.data, " four");
  EXPECT_EQ(rest.take_back, 0u);
  stream.rolled_back(8);
  const auto other = stream.said(8, "thirty", 1000);
  EXPECT_EQ(other.data, "irty");
  EXPECT_EQ(other.take_back, std::string("ree four").size());
  EXPECT_EQ(stream.printed(), 14u);
}

TEST(OutputStreamTest, ALineThatDiffersIsPrintedFromItsBeginning) {
  // A program prints how long its start took, and is rolled back to before that.
  OutputStream stream;
  const std::string first = "start\ntook 0.062 s\nstep 1\nste";
  stream.said(0, first, 1000);
  stream.rolled_back(0);
  EXPECT_EQ(stream.said(0, "start\nto", 1000).data, "");
  const auto other = stream.said(8, "ok 0.1", 1000);
  EXPECT_EQ(other.data, "took 0.1");
  EXPECT_EQ(other.take_back, first.size() - std::string("start\n").size());
  EXPECT_EQ(stream.said(14, "00 s\nstep 1\n", 1000).data, "00 s\nstep 1\n");
  EXPECT_EQ(stream.printed(), 26u);
  // The line that was printed last had no end yet: the rest of it follows.
  stream.said(26, "step 2: 0.3", 1000);
  stream.rolled_back(26);
  EXPECT_EQ(stream.said(26, "step 2: 0.4 s\n", 1000).data, "4 s\n");
  // The beginning of the line is not kept any more.
  OutputStream forgetful;
  forgetful.said(0, "a long line\nnext\n", 1000);
  forgetful.forget(4);
  forgetful.rolled_back(4);
  EXPECT_EQ(forgetful.said(4, "ng word", 1000).data, "word");
  // The daemon no longer has it.
  OutputStream told;
  told.said(0, "a long line\nnext\n", 1000);
  told.rolled_back(4);
  told.told = 4;
  EXPECT_EQ(told.said(4, "ng word", 1000).data, "word");
}

TEST(OutputStreamTest, MemoryIsBoundedAndWhatIsUnknownIsPrintedAgain) {
  OutputStream stream;
  std::string all;
  for (int i = 0; i < 1000; ++i) {
    const std::string line = std::to_string(i) + " line\n";
    stream.said(all.size(), line, 100);
    all += line;
    EXPECT_LE(stream.kept(), 200u);
  }
  stream.rolled_back(0);
  EXPECT_EQ(stream.said(0, "0 line\n", 100).data, "0 line\n");
}

TEST(OutputStreamTest, WhatADaemonSendsAgainWithoutARollbackIsNotPrintedTwice) {
  // A daemon that has been away sends again what it was not told to forget: crrun does not tell it at every line.
  OutputStream stream;
  EXPECT_EQ(stream.said(0, "one two ", 1000).data, "one two ");
  stream.forget(8);  // the waves that count were taken after that
  const auto again = stream.said(0, "one two three", 1000);
  EXPECT_EQ(again.data, "three");
  EXPECT_EQ(again.take_back, 0u);
  EXPECT_EQ(stream.said(0, "one", 1000).data, "");
  EXPECT_EQ(stream.printed(), 13u);

  OutputStream attached;  // a new crrun, which knows what the last one has written
  attached.continues(8, "");
  EXPECT_EQ(attached.said(0, "one two three", 1000).data, "three");
}

TEST(OutputStreamTest, GapsAreToldUnlessCrrunCameLate) {
  OutputStream stream;
  stream.said(0, "a", 100);
  EXPECT_EQ(stream.said(5, "b", 100).missing, 4u);
  OutputStream late;
  late.joined_late();
  const auto first = late.said(500, "x", 100);
  EXPECT_EQ(first.missing, 0u);
  EXPECT_EQ(first.data, "x");
}

TEST(InputStreamTest, IsGivenAgainFromAnOffset) {
  InputStream input(10);
  input.supply("abcdef");
  EXPECT_EQ(*input.from(2), "cdef");
  input.forget(3);
  EXPECT_FALSE(input.from(2));
  EXPECT_EQ(*input.from(6), "");
  input.supply("0123456789");
  EXPECT_FALSE(input.from(3)) << "too much to keep";
  EXPECT_EQ(*input.from(6), "0123456789");
}

TEST(MembershipTest, SilenceIsLossAndSuspicionMakesItSooner) {
  std::vector<Node> nodes(2);
  nodes[1].set_index(1);
  Membership members(nodes, 3000, 0, 500);
  members.hello(0, "a", {}, {0, 0});
  members.hello(1, "b", {}, {0, 0});
  members.suspect(1);
  EXPECT_TRUE(members.silent({2400, 0}).empty());
  ASSERT_EQ(members.silent({2500, 0}).size(), 1u);
  EXPECT_FALSE(members.heard(1, "b", {2600, 0})) << "given up is given up";
  EXPECT_TRUE(members.silent({2900, 0}).empty());
  members.excuse(1000);
  EXPECT_TRUE(members.silent({3900, 0}).empty());
  EXPECT_EQ(members.silent({4000, 0}).size(), 1u);
}

TEST(ArrivalsTest, LearnsHowLateHeartbeatsUsuallyCome) {
  Arrivals regular, rough;
  EXPECT_EQ(regular.limit_ms(), std::numeric_limits<std::uint64_t>::max()) << "nothing is known yet";
  std::mt19937 random(1);
  std::normal_distribution<> late(400, 100);
  std::uint64_t at = 1000, rough_at = 1000;
  for (int i = 0; i < 64; ++i) {
    regular.beat(at += 400);
    rough.beat(rough_at += static_cast<std::uint64_t>(std::max(1.0, late(random))));
  }
  EXPECT_EQ(regular.limit_ms(), 800u) << "twice the longest interval";
  EXPECT_GT(rough.limit_ms(), 800u);
  EXPECT_LT(rough.limit_ms(), 1600u);
  regular.beat(at += 3000);
  EXPECT_GE(regular.limit_ms(), 6000u) << "what has happened once may happen again";
  for (int i = 0; i < 64; ++i) regular.beat(at += 400);
  EXPECT_EQ(regular.limit_ms(), 800u) << "and is forgotten";
  regular.excuse(5000);
  regular.beat(at += 5400);
  EXPECT_EQ(regular.limit_ms(), 800u);
}

TEST(MembershipTest, GivesUpEarlierWhatIsUsuallyRegularButNeverDuringALease) {
  std::vector<Node> nodes(1);
  Membership members(nodes, 10'000, 0, 400);
  members.hello(0, "a", {}, {0, 0});
  EXPECT_TRUE(members.silent({9999, 0}).empty()) << "nothing is known of it yet";
  std::uint64_t at = 0, lease = 0;
  for (int i = 0; i < 20; ++i) {
    at += 400;
    ASSERT_TRUE(members.heard(0, "a", {at, 0}));
    lease = members.beat(0, false, {at, 0});
  }
  EXPECT_EQ(lease, 2000u * 4 / 6) << "five heartbeats";
  EXPECT_TRUE(members.silent({at + 1999, 0}).empty());
  Membership again = members;
  EXPECT_EQ(again.silent({at + 2000, 0}).size(), 1u);
  again = members;
  EXPECT_EQ(again.beat(0, true, {at, 0}), 4000u * 4 / 6) << "twice the time for what has a reason";
  // It answers late under load: it gets more time, and at most the longest.
  for (int i = 0; i < 5; ++i) {
    at += 1800;
    ASSERT_TRUE(members.silent({at, 0}).empty());
    ASSERT_TRUE(members.heard(0, "a", {at, 0}));
    lease = members.beat(0, false, {at, 0});
  }
  EXPECT_GE(lease, 3600u * 4 / 6);
  EXPECT_TRUE(members.silent({at + lease, 0}).empty()) << "its ranks may still run";
  again = members;
  again.suspect(0);
  EXPECT_TRUE(again.silent({at + lease, 0}).empty());
  EXPECT_EQ(members.beat(0, true, {at, 0}), std::min<std::uint64_t>(10'000, members.at(0).arrivals.limit_ms() * 2) * 4 / 6);
  // A new process of its daemon begins anew: the answer to its Hello is a lease of full length.
  members.lose(0, {at, 0});
  members.hello(0, "b", {}, {at, 0});
  EXPECT_TRUE(members.silent({at + 9999, 0}).empty());
}

TEST(MembershipTest, ANodeThatComesBackMustBeCleanFirst) {
  std::vector<Node> nodes(1);
  Membership members(nodes, 3000, 0, 500);
  members.hello(0, "a", {}, {0, 0});
  members.lose(0, {1, 0});
  Hello dirty;
  dirty.add_ranks()->set_rank(3);
  EXPECT_EQ(members.hello(0, "a", dirty, {2, 0}), Greeting::stale);
  EXPECT_EQ(members.hello(0, "a", {}, {3, 0}), Greeting::rejoined);
  EXPECT_TRUE(members.at(0).node.spare());
  EXPECT_EQ(members.hello(0, "b", {}, {4, 0}), Greeting::replaced);
}

TEST(WaveTest, AnErrorThatStaysWeighsMoreThanOneOfTheMoment) {
  WaveRound round(1, 0, 2, {0, 0}, 1000);
  WaveDone done;
  done.set_wave(1);
  RankWave& first = *done.add_ranks();
  first.set_rank(0);
  first.set_error("in MPI_Init");
  first.set_again(true);
  round.done(done);
  EXPECT_EQ(round.verdict({1, 0}), WaveRound::Verdict::again);
  done.mutable_ranks(0)->set_rank(1);
  done.mutable_ranks(0)->set_error("disk full");
  done.mutable_ranks(0)->set_again(false);
  round.done(done);
  EXPECT_EQ(round.verdict({1, 0}), WaveRound::Verdict::failed);
  EXPECT_EQ(round.why(), "rank 1: disk full");
  WaveRound silent(2, 0, 3, {0, 0}, 1000);
  EXPECT_EQ(silent.verdict({999, 0}), WaveRound::Verdict::pending);
  EXPECT_EQ(silent.verdict({1000, 0}), WaveRound::Verdict::late);
  EXPECT_EQ(silent.why(), "no answer from ranks 0-2");
}

TEST(StateTest, ComesBackAsItWas) {
  State state;
  state.id = "cr-1";
  state.phase = "running";
  state.recovery = 4;
  state.next_wave = 9;
  state.placement = {0, 3};
  state.incarnation = {0, 4};
  state.lost = {1};
  state.waves[8] = wave(8, 4);
  state.waves[8].ranks[1].staged = true;
  state.waves[8].ranks[1].checksum = ~0ull;
  state.waves[8].ranks[1].offsets[1] = 77;
  const auto json = to_json(state);
  EXPECT_EQ(to_json(state_from_json(nlohmann::json::parse(json.dump()), 2)), json);
  EXPECT_THROW(state_from_json(json, 3), std::runtime_error);
  EXPECT_THROW(state_from_json(nlohmann::json::object(), 2), std::runtime_error);
}

TEST(StateTest, HasTheSpawnedProcessesOfAWave) {
  State state;
  state.placement = {0, 1};
  state.incarnation = {0, 0};
  state.waves[1] = with_family(wave(1));
  const nlohmann::json json = to_json(state);
  EXPECT_EQ(state_from_json(nlohmann::json::parse(json.dump()), 2), state);
  const auto changed = [&](const char* field, std::uint64_t value) {
    nlohmann::json out = json;
    out["waves"][0]["families"][0][field] = value;
    return out;
  };
  EXPECT_THROW(state_from_json(changed("count", 3), 2), std::runtime_error);
  EXPECT_THROW(state_from_json(changed("count", 1'000'000'000), 2), std::runtime_error);
  EXPECT_THROW(state_from_json(changed("first", 1), 2), std::runtime_error) << "a rank of the job itself";
  nlohmann::json old = json;
  old["waves"][0].erase("families");
  EXPECT_THROW(state_from_json(old, 2), std::runtime_error);
}

TEST(StateTest, AWaveThatDoesNotFitIsRefused) {
  State state;
  state.placement = {0, 1, 2};
  state.incarnation = {0, 0, 0};
  StoredWave& stored = state.waves[1] = wave(1);
  stored.ranks.resize(3);
  for (Rank rank = 0; rank < 3; ++rank) stored.ranks[rank].checksum = rank;
  stored.ranks[1].local = stored.ranks[2].local = false;
  const nlohmann::json json = to_json(state);
  EXPECT_EQ(state_from_json(json, 3), state);
  const auto changed = [&](const char* field, nlohmann::json value) {
    nlohmann::json out = json;
    out["waves"][0][field] = std::move(value);
    return out;
  };
  EXPECT_THROW(state_from_json(changed("checksum", {1, 2}), 3), std::runtime_error);
  EXPECT_THROW(state_from_json(changed("checksum", {1, 2, "x"}), 3), std::runtime_error);
  EXPECT_THROW(state_from_json(changed("not_local", {1, 3}), 3), std::runtime_error);
  EXPECT_THROW(state_from_json(changed("staged", {-1, 2}), 3), std::runtime_error);
  EXPECT_THROW(state_from_json(changed("of", 4), 3), std::runtime_error);
}

TEST(TimelineTest, OfALargeJobHasEachNodesSlowestRank) {
  PlacementTable placement(kWholeTables + 2);
  for (Rank rank = 0; rank < placement.size(); ++rank) placement[rank] = rank / 2;
  const auto told = [&] {
    Slowest slowest(placement);
    for (Rank rank : {3u, 2u, 8u, 9u, 99'999u}) slowest.add(rank, rank == 2 ? 100 : rank);
    std::vector<Rank> out;
    for (Rank rank : {2u, 3u, 4u, 8u, 9u, 99'999u})
      if (slowest.is(rank)) out.push_back(rank);
    return out;
  };
  EXPECT_THAT(told(), ElementsAre(2, 9));
  placement.resize(kWholeTables);
  EXPECT_THAT(told(), ElementsAre(2, 3, 4, 8, 9, 99'999));
}

TEST(TreeTest, EveryNodeHasOneParentAndIsBelowIt) {
  const Tree tree(10'000, 64);
  std::size_t top = 0;
  for (std::uint32_t node = 0; node < 10'000; ++node) {
    const auto parent = tree.parent(node);
    if (!parent) {
      ++top;
      continue;
    }
    const auto children = tree.children(*parent);
    EXPECT_NE(std::find(children.begin(), children.end(), node), children.end()) << node;
  }
  EXPECT_EQ(top, 64u);
  std::size_t all = 0;
  for (std::uint32_t node = 0; node < 64; ++node) all += tree.below(node).size();
  EXPECT_EQ(all, 10'000u);
}

TEST(RelayTest, JoinsAnswersAndSendsErrorsAtOnce) {
  Relay relay(0, "r", {{1, {1}}, {2, {2}}}, 100);
  relay.placement({0, 1, 2});
  const auto answer = [](Rank rank, const std::string& error) {
    Up up;
    up.set_from(rank);
    up.mutable_wave_done()->set_wave(1);
    up.mutable_wave_done()->add_ranks()->set_rank(rank);
    up.mutable_wave_done()->mutable_ranks(0)->set_error(error);
    return up;
  };
  EXPECT_TRUE(relay.up(answer(0, ""), 0).empty());
  EXPECT_TRUE(relay.up(answer(1, ""), 0).empty());
  const auto all = relay.up(answer(2, ""), 0);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].wave_done().ranks_size(), 3);
  EXPECT_EQ(all[0].from(), 0u);

  Relay other(0, "r", {{1, {1}}, {2, {2}}}, 100);
  other.placement({0, 1, 2});
  EXPECT_TRUE(other.up(answer(0, ""), 0).empty());
  ASSERT_EQ(other.up(answer(1, "bad"), 0).size(), 1u);
  EXPECT_EQ(other.up(answer(2, ""), 0).size(), 1u) << "all the others have been told of already";
  Relay late(0, "r", {{1, {1}}}, 100);
  late.placement({0, 1});
  EXPECT_TRUE(late.up(answer(0, ""), 0).empty());
  EXPECT_TRUE(late.tick(99).empty());
  ASSERT_EQ(late.tick(100).size(), 1u);
}

TEST(RelayTest, ItsHeartbeatSpeaksForThoseBelowOnce) {
  Relay relay(0, "r", {{1, {1, 5}}}, 100);
  Up beat;
  beat.set_from(1);
  beat.set_instance("one");
  beat.set_recovery(2);
  beat.mutable_heartbeat()->set_unix_ns(11);
  beat.mutable_heartbeat()->set_seen(7);
  beat.mutable_heartbeat()->set_sent(8);
  beat.mutable_heartbeat()->mutable_standing()->set_stood_ms(9);
  RelayedBeat& other = *beat.mutable_heartbeat()->add_below();
  other.set_node(5);
  other.set_unix_ns(55);
  EXPECT_FALSE(relay.beats_since());
  EXPECT_TRUE(relay.up(beat, 40).empty());
  EXPECT_EQ(relay.beats_since(), 40u);
  beat.mutable_heartbeat()->set_unix_ns(12);
  EXPECT_TRUE(relay.up(beat, 60).empty());
  EXPECT_EQ(relay.beats_since(), 40u);
  Up own;
  own.set_from(0);
  own.mutable_heartbeat();
  const auto out = relay.up(own, 80);
  ASSERT_EQ(out.size(), 1u);
  const auto& below = out[0].heartbeat().below();
  ASSERT_EQ(below.size(), 2);
  EXPECT_EQ(below[0].node(), 1u);
  EXPECT_EQ(below[0].instance(), "one");
  EXPECT_EQ(below[0].recovery(), 2u);
  EXPECT_EQ(below[0].unix_ns(), 12u) << "the newest";
  EXPECT_EQ(below[0].seen(), 7u);
  EXPECT_EQ(below[0].sent(), 8u);
  EXPECT_EQ(below[0].standing().stood_ms(), 9u);
  EXPECT_EQ(below[1].unix_ns(), 55u);
  EXPECT_FALSE(relay.beats_since());
  EXPECT_EQ(relay.up(own, 80)[0].heartbeat().below_size(), 0);
}

Up wave_done(Rank rank) {
  Up up;
  up.set_from(rank);
  up.set_recovery(rank + 10);
  up.mutable_wave_done()->set_wave(1);
  up.mutable_wave_done()->add_ranks()->set_rank(rank);
  return up;
}

TEST(RelayTest, AHeartbeatComesAfterWhatWasSaidBefore) {
  Relay relay(0, "r", {{1, {1}}, {2, {2}}}, 100);
  relay.placement({0, 1, 2});
  EXPECT_TRUE(relay.up(wave_done(1), 0).empty());
  Up own;
  own.set_from(0);
  own.set_instance("r");
  own.set_recovery(3);
  own.mutable_heartbeat();
  const auto out = relay.up(own, 10);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_TRUE(out[0].has_wave_done());
  EXPECT_EQ(out[0].recovery(), 3u) << "of its own state alone it speaks, not of that of those below";
  EXPECT_TRUE(out[1].has_heartbeat());
}

TEST(RelayTest, NobodyBelowSpeaksForTheDaemonItself) {
  Relay relay(0, "r", {{1, {1}}}, 100);
  EXPECT_TRUE(relay.heard(1, 5));
  EXPECT_FALSE(relay.heard(1, 0));
  EXPECT_FALSE(relay.heard(0, 5));
  Up beat;
  beat.set_from(1);
  beat.mutable_heartbeat()->add_below()->set_node(0);
  EXPECT_TRUE(relay.up(beat, 0).empty());
  Up own;
  own.set_from(0);
  own.set_instance("r");
  own.mutable_heartbeat();
  const auto all = relay.up(own, 0);
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(all[0].heartbeat().below_size(), 1);
  EXPECT_EQ(all[0].heartbeat().below(0).node(), 1u);
}

TEST(RelayTest, LearnsWhoIsBelowAndForgets) {
  Relay relay(0, "r", {}, 100);
  relay.placement({0, 1, 2});
  Down all, some;
  some.add_to(2);
  EXPECT_TRUE(relay.down(all).empty());
  relay.heard(1, 1);
  relay.heard(1, 2);
  EXPECT_THAT(relay.down(all), ElementsAre(1));
  EXPECT_THAT(relay.down(some), ElementsAre(1));
  EXPECT_TRUE(relay.up(wave_done(1), 0).empty()) << "those of the others are awaited";
  Down answer;
  for (NodeIndex node : {0u, 2u, 3u}) {
    answer.add_to(node);
    answer.mutable_heartbeat()->add_below()->set_node(node);
  }
  EXPECT_THAT(relay.answer_for(1, answer).to(), ElementsAre(2));
  EXPECT_EQ(relay.answer_for(1, answer).heartbeat().below_size(), 1);
  relay.heard(3, 2);  // it has another parent now
  EXPECT_THAT(relay.down(some), ElementsAre(3));
  relay.child_lost(1);
  relay.child_lost(3);
  EXPECT_TRUE(relay.down(all).empty());
  EXPECT_EQ(relay.up(wave_done(0), 0).size(), 1u) << "there is nobody to wait for";
}

// The sign of life of a node below another one is its own, with its own instance, and so is the answer.
TEST(CoordinatorTest, HeartbeatsOfNodesBelowOthersCountAndAreAnswered) {
  Settings settings;
  settings.spec.set_ranks(2);
  settings.spec.set_heartbeat_ms(400);
  settings.lost_after_ms = 2500;
  for (NodeIndex node = 0; node < 2; ++node) {
    Node one;
    one.set_index(node);
    one.set_host("n" + std::to_string(node));
    one.set_slots(1);
    settings.nodes.push_back(one);
  }
  Coordinator coordinator(settings, [] { return std::string(32, 'n'); });
  coordinator.start({1000, 1});
  const auto up = [](NodeIndex node, const std::string& instance) {
    Up out;
    out.set_from(node);
    out.set_instance(instance);
    return out;
  };
  for (NodeIndex node = 0; node < 2; ++node) {
    Up hello = up(node, "i");
    hello.mutable_hello()->set_module_loaded(true);
    coordinator.message(hello, {1000, 1});
  }
  coordinator.take();
  const auto beat = [&](std::uint64_t ms, const std::string& instance) {
    Up message = up(0, "i");
    message.mutable_heartbeat()->set_unix_ns(ms);
    RelayedBeat& below = *message.mutable_heartbeat()->add_below();
    below.set_node(1);
    below.set_instance(instance);
    below.set_unix_ns(ms + 7);
    below.set_load(3);
    coordinator.message(message, {ms, ms});
    std::optional<Down> answer;
    for (Effect& effect : coordinator.take())
      if (auto* send = std::get_if<SendDown>(&effect); send && send->down.has_heartbeat()) answer = send->down;
    return answer;
  };
  auto answer = beat(2000, "i");
  ASSERT_TRUE(answer);
  EXPECT_THAT(answer->to(), ElementsAre(0, 1));
  EXPECT_EQ(answer->heartbeat().unix_ns(), 2000u);
  ASSERT_EQ(answer->heartbeat().below_size(), 1);
  EXPECT_EQ(answer->heartbeat().below(0).unix_ns(), 2007u);
  EXPECT_EQ(coordinator.members().at(1).heard_ms, 2000u);
  EXPECT_EQ(coordinator.members().at(1).load, 3);
  // Another process of that node's does not count, and must not take the answer for a lease.
  answer = beat(3000, "other");
  ASSERT_TRUE(answer);
  EXPECT_THAT(answer->to(), ElementsAre(0));
  EXPECT_EQ(coordinator.members().at(1).heard_ms, 2000u);
  beat(4400, "other");
  coordinator.tick({4400, 1});
  EXPECT_TRUE(coordinator.members().up(1));
  beat(4500, "other");
  coordinator.tick({4500, 1});
  EXPECT_FALSE(coordinator.members().up(1));
  EXPECT_TRUE(coordinator.members().up(0));
}

TEST(LinksTest, APairThatCannotConnectForAMinuteIsTold) {
  Links links(5);
  const auto lost = [&](Rank rank, int error, std::uint64_t ms) {
    LinkLost message;
    message.set_rank(rank);
    message.set_peer(7);
    message.set_error(error);
    return links.lost(message, "ranks", {ms, 0});
  };
  EXPECT_EQ(lost(1, EHOSTUNREACH, 5'000), LinkMeaning::retry);
  EXPECT_EQ(lost(1, EHOSTUNREACH, 35'000), LinkMeaning::retry);
  EXPECT_EQ(lost(2, EHOSTUNREACH, 60'000), LinkMeaning::retry) << "another rank";
  EXPECT_EQ(lost(1, EHOSTUNREACH, 65'000), LinkMeaning::unreachable);
  EXPECT_EQ(lost(1, EHOSTUNREACH, 95'000), LinkMeaning::retry) << "it was told";
  // It is reached, and breaks again later.
  EXPECT_EQ(lost(1, ECONNRESET, 200'000), LinkMeaning::retry);
  EXPECT_EQ(lost(1, ETIMEDOUT, 230'000), LinkMeaning::retry);
  EXPECT_EQ(lost(1, ETIMEDOUT, 260'000), LinkMeaning::unreachable);
}

}  // namespace
}  // namespace reprise::job
