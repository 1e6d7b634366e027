// SPDX-License-Identifier: GPL-2.0-only
// Which node each rank starts on; jobs of several programs in the simulation.
#include "crrun/coordinator/mapping.h"
#include "job/programs.h"
#include "job/slot_list.h"
#include "simulated_job.h"

namespace reprise::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Parts parts(std::uint32_t packages, std::uint32_t cores, std::uint32_t threads = 1) {
  Parts out;
  out.set_packages(packages);
  out.set_numas(packages);
  out.set_cores(cores);
  out.set_hwthreads(cores * threads);
  return out;
}

/** Two nodes of two packages with two cores each, and a spare. */
std::vector<Seat> seats(std::uint32_t slots = 4, const Parts& have = parts(2, 4)) {
  return {{0, slots, false, true, "a", have}, {1, slots, false, true, "b", have}, {2, slots, true, true, "c", have}};
}

JobSpec job(std::uint32_t ranks, const std::string& bind_to = "none") {
  JobSpec out;
  out.set_ranks(ranks);
  out.set_bind_to(bind_to);
  return out;
}

PlacementTable placed(const JobSpec& job, const std::vector<Seat>& on, bool oversubscribe = false) {
  Mapped mapped = map_at_launch(job, on, oversubscribe);
  if (const auto* why = std::get_if<std::string>(&mapped)) {
    ADD_FAILURE() << *why;
    return {};
  }
  return std::get<PlacementTable>(mapped);
}

std::string refusal(const JobSpec& job, const std::vector<Seat>& on, bool oversubscribe = false) {
  const Mapped mapped = map_at_launch(job, on, oversubscribe);
  const auto* why = std::get_if<std::string>(&mapped);
  return why ? *why : "it is mapped";
}

TEST(MappingTest, BySlotAndByNode) {
  JobSpec it = job(4);
  EXPECT_THAT(placed(it, seats(2)), ElementsAre(0, 0, 1, 1));
  it.mutable_mapping()->set_by_node(true);
  EXPECT_THAT(placed(it, seats(2)), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(refusal(job(5), seats(2)), testing::AllOf(HasSubstr("4 slots for 5 ranks"), HasSubstr("--oversubscribe")));
  EXPECT_THAT(placed(job(5), seats(2), true), ElementsAre(0, 0, 1, 1, 0));
  it.set_ranks(6);
  EXPECT_THAT(placed(it, {{0, 1, false, true, "a", {}}, {1, 3, false, true, "b", {}}}, true), ElementsAre(0, 1, 1, 1, 0, 1))
      << "first the slots, then one on each in turn";
  it.set_ranks(5);
  it.add_apps()->set_processes(3);
  it.add_apps()->set_processes(2);
  EXPECT_THAT(placed(it, seats(3)), ElementsAre(0, 1, 0, 1, 0)) << "the second program goes on where the first has ended";
}

TEST(MappingTest, SoManyOnEachPart) {
  JobSpec it = job(4);
  it.mutable_mapping()->set_per_part(2);
  EXPECT_THAT(placed(it, seats()), ElementsAre(0, 0, 1, 1));
  it.mutable_mapping()->set_part(Mapping::PACKAGE);
  it.set_ranks(8);
  EXPECT_THAT(placed(it, seats()), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  it.set_ranks(6);
  EXPECT_THAT(placed(it, seats()), ElementsAre(0, 0, 0, 0, 1, 1));
  it.set_ranks(9);
  EXPECT_THAT(refusal(it, seats()), HasSubstr("ppr:2:package has room for 8 ranks on these nodes, not for 9"));
  it.set_ranks(8);
  EXPECT_THAT(refusal(it, seats(3)), testing::AllOf(HasSubstr("4 ranks on a, which has 3 slots"), HasSubstr("--oversubscribe")));
  EXPECT_EQ(placed(it, seats(3), true).size(), 8u);
}

TEST(MappingTest, SpanTakesTheNodesInProportionToTheirParts) {
  JobSpec it = job(6);
  it.mutable_mapping()->set_part(Mapping::PACKAGE);
  std::vector<Seat> on = seats(4);
  on[1].parts = parts(1, 4);
  EXPECT_THAT(placed(it, on), ElementsAre(0, 0, 0, 0, 1, 1)) << "otherwise one node after the other";
  it.mutable_mapping()->set_span(true);
  EXPECT_THAT(placed(it, on), ElementsAre(0, 0, 1, 0, 0, 1));
  it.set_ranks(8);
  EXPECT_THAT(placed(it, on), ElementsAre(0, 0, 1, 0, 0, 1, 1, 1)) << "no more than slots";
}

TEST(MappingTest, CoresOfARankMustExistAndBeFree) {
  JobSpec it = job(4, "core");
  it.mutable_mapping()->set_pe(2);
  EXPECT_THAT(placed(it, seats()), ElementsAre(0, 0, 1, 1)) << "with four slots, but cores for two ranks";
  it.set_ranks(5);
  EXPECT_THAT(refusal(it, seats()), HasSubstr("4 slots for 5 ranks of 2 cores each"));
  it.mutable_mapping()->set_pe(8);
  EXPECT_THAT(refusal(it, seats()), HasSubstr("pe=8: a has 4 cores"));
  it.mutable_mapping()->set_pe(3);
  it.mutable_mapping()->set_part(Mapping::PACKAGE);
  EXPECT_THAT(refusal(it, seats()), HasSubstr("pe=3: a package of a has 2 cores"));
  it.mutable_mapping()->set_pe(0);
  it.set_ranks(12);
  EXPECT_THAT(refusal(it, seats(6)), testing::AllOf(HasSubstr("a gets 6 ranks"), HasSubstr("overload-allowed")));
  it.mutable_mapping()->set_overload(true);
  EXPECT_EQ(placed(it, seats(6)).size(), 12u);
  EXPECT_THAT(refusal(job(1, "core"), seats(4, {})), HasSubstr("a does not tell its cores"));
  EXPECT_EQ(placed(job(1), seats(4, {})).size(), 1u) << "nothing needs to be known of them";
}

TEST(MappingTest, HardwareThreadsCountWhereRanksAreBoundToThem) {
  const JobSpec it = job(16, "hwthread");
  EXPECT_EQ(placed(it, seats(8, parts(2, 4, 2))).size(), 16u);
  EXPECT_THAT(refusal(it, seats(8, parts(2, 4))), HasSubstr("4 hardware threads"));
}

TEST(MappingTest, ProgramsFollowEachOther) {
  JobSpec it = job(5);
  it.add_apps()->set_processes(3);
  it.add_apps()->set_processes(2);
  EXPECT_THAT(placed(it, seats(3)), ElementsAre(0, 0, 0, 1, 1));
  it.mutable_apps(0)->set_hosts("b");
  EXPECT_THAT(placed(it, seats(3)), ElementsAre(1, 1, 1, 0, 0));
  it.mutable_apps(1)->set_hosts("b");
  EXPECT_THAT(refusal(it, seats(3)), HasSubstr("0 slots for 2 ranks"));
  it.mutable_apps(0)->set_hosts("gone");
  it.mutable_apps(1)->set_hosts("");
  EXPECT_THAT(placed(it, seats(3)), ElementsAre(0, 0, 0, 1, 1)) << "a job that is restarted has other nodes";
}

TEST(MappingTest, RankfilesSayTheNode) {
  JobSpec it = job(3, "none");
  for (const char* host : {"b", "a", "b"}) it.add_rankfile()->set_host(host);
  it.mutable_rankfile(2)->set_where("file:3");
  EXPECT_THAT(placed(it, seats(2)), ElementsAre(1, 0, 1));
  EXPECT_THAT(refusal(it, seats(1)), HasSubstr("file:3: b has 1 slot, "));
  it.mutable_rankfile(1)->set_host("gone");
  EXPECT_THAT(placed(it, seats(2)), ElementsAre(1, 0, 1)) << "a free slot";
}

TEST(ProgramsTest, RanksFollowTheOrderOfThePrograms) {
  JobSpec it = job(5);
  it.add_argv("a");
  it.set_working_directory("/one");
  EXPECT_EQ(program_of(it, 4).argv(0), "a");
  EXPECT_EQ(program_of(it, 4).working_directory(), "/one");
  EXPECT_EQ(program_number(it, 4), 0u);
  for (const auto& [name, count] : {std::pair("a", 2u), std::pair("b", 3u)}) {
    SpawnApp& app = *it.add_apps();
    app.add_argv(name);
    app.set_processes(count);
  }
  EXPECT_EQ(program_number(it, 1), 0u);
  EXPECT_EQ(program_number(it, 2), 1u);
  EXPECT_EQ(program_of(it, 4).argv(0), "b");
  EXPECT_THAT(command_line(it), ElementsAre("a", ":", "b"));
}

TEST(SlotListTest, CoresOfTheNodeAndOfPackages) {
  const auto groups = parse_slot_list("0:1;1:0-2,5;3-4;2:*");
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_EQ(groups[0].package, 0u);
  EXPECT_THAT(groups[1].ranges, ElementsAre(std::pair(0u, 2u), std::pair(5u, 5u)));
  EXPECT_FALSE(groups[2].package);
  EXPECT_TRUE(groups[3].ranges.empty());
  for (const char* wrong : {"", "x", "1-", "2-1", "1:", "0,", ":1", "-1", "1;;2"}) EXPECT_THROW(parse_slot_list(wrong), std::runtime_error) << wrong;
}

}  // namespace
}  // namespace reprise::job

namespace reprise::job::sim {
namespace {

using Programs = SimulatedJob;

TEST_F(Programs, GoOnAfterTheLossOfANodeFromAWave) {
  model.settings.wave_interval_ms = 2000;
  for (int app = 0; app < 2; ++app) model.settings.spec.add_apps()->set_processes(3);
  Cluster cluster(model);
  cluster.at(6000, [&] { cluster.kill_node(1); });
  ends_well(cluster);
  EXPECT_FALSE(cluster.recoveries().empty());
}

TEST_F(Programs, BeginAnewEachWithItsOwnRanks) {
  for (const auto& [name, count] : {std::pair("first", 2u), std::pair("second", 4u)}) {
    SpawnApp& app = *model.settings.spec.add_apps();
    app.add_argv(name);
    app.set_processes(count);
  }
  Cluster cluster(model);
  cluster.at(6000, [&] { cluster.kill_node(1); });
  ends_well(cluster);
  EXPECT_GE(cluster.count("recovery-begin"), 1u);
  // What the daemons start from the beginning, now and in a recovery without a wave, is in the job that each has.
  for (const JobSpec& job : cluster.welcomed()) {
    EXPECT_EQ(program_of(job, 1).argv(0), "first");
    EXPECT_EQ(program_of(job, 2).argv(0), "second");
  }
  EXPECT_EQ(cluster.welcomed().size(), model.nodes + model.spares);
}

TEST_F(Programs, AreMappedOneByOneSoManyOnEachNode) {
  model.nodes = 2;
  model.ranks = 4;
  model.settings.spec.mutable_mapping()->set_per_part(1);
  for (int app = 0; app < 2; ++app) model.settings.spec.add_apps()->set_processes(2);
  Cluster cluster(model);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("launch") == 0; }));
  EXPECT_THAT(cluster.coordinator().placement(), testing::ElementsAre(0, 1, 0, 1));
}

TEST_F(Programs, AMappingThatIsNotPossibleEndsTheJobInWords) {
  model.settings.spec.set_bind_to("core");
  model.settings.spec.mutable_mapping()->set_pe(99);
  Cluster cluster(model);
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 1);
  EXPECT_TRUE(cluster.said("pe=99: node0 has 2 cores"));
}

}  // namespace
}  // namespace reprise::job::sim
