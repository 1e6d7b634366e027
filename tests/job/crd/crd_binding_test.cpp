// SPDX-License-Identifier: GPL-2.0-only
// To which processors ranks are bound, on nodes that hwloc makes up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include "crd/binding.h"

namespace reprise::crd {
namespace {

using job::Mapping;
using testing::ElementsAre;
using testing::HasSubstr;

/** Two packages with four cores each. */
const char* const kTwoPackages = "package:2 [numa] core:4 pu:1";

job::JobSpec job(const std::string& bind_to, Mapping::Part part = Mapping::NODE) {
  job::JobSpec out;
  out.set_ranks(16);
  out.set_bind_to(bind_to);
  out.mutable_mapping()->set_part(part);
  return out;
}

std::vector<std::string> launch(const Topology& node, const job::JobSpec& job, std::uint32_t ranks) {
  Binder binder(node, job, "a");
  std::vector<std::string> out;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) out.push_back(node.words(binder.bind(rank, ranks).cpus));
  return out;
}

TEST(TopologyTest, HasThePartsOfADescription) {
  const Topology node = Topology::synthetic("package:2 [numa] core:4 pu:2");
  EXPECT_EQ(node.counts().packages(), 2u);
  EXPECT_EQ(node.counts().numas(), 2u);
  EXPECT_EQ(node.counts().cores(), 8u);
  EXPECT_EQ(node.counts().hwthreads(), 16u);
  EXPECT_EQ(node.all().count(), 16u);
  EXPECT_EQ(node.words(node.parts(Mapping::PACKAGE)[1]), "package[1][core:4-7]");
  EXPECT_EQ(node.words(node.all()), "package[0][core:0-3] package[1][core:4-7]");
  EXPECT_EQ(node.words(node.parts(Mapping::HWTHREAD)[3]), "package[0][hwt:3]");
  EXPECT_THROW(Topology::synthetic("nonsense:x"), std::runtime_error);
}

TEST(TopologyTest, OfThisNodeIsWhatThisProcessMayUse) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(Topology::here().all().count(), static_cast<std::size_t>(CPU_COUNT(&before)));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  Cpus one;
  one.set(static_cast<std::size_t>(first));
  const cpu_set_t only = cpu_set(one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof only, &only), 0);
  EXPECT_EQ(Topology::here().all(), one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(BindingTest, CoresInTurn) {
  const Topology node = Topology::synthetic(kTwoPackages);
  EXPECT_THAT(launch(node, job("core"), 3), ElementsAre("package[0][core:0]", "package[0][core:1]", "package[0][core:2]"));
  // As mpirun 5.0.7 has it: each package gets its share of the ranks, in their order.
  EXPECT_THAT(launch(node, job("core", Mapping::PACKAGE), 3), ElementsAre("package[0][core:0]", "package[0][core:1]", "package[1][core:4]"));
  job::JobSpec span = job("core", Mapping::PACKAGE);
  span.mutable_mapping()->set_span(true);
  EXPECT_THAT(launch(node, span, 3), ElementsAre("package[0][core:0]", "package[1][core:4]", "package[0][core:1]"));
  EXPECT_THAT(launch(node, job("core", Mapping::CORE), 2), ElementsAre("package[0][core:0]", "package[0][core:1]"));
  EXPECT_THAT(launch(node, job("none", Mapping::PACKAGE), 1), ElementsAre(""));
}

TEST(BindingTest, SeveralCoresForEachRank) {
  const Topology node = Topology::synthetic(kTwoPackages);
  job::JobSpec it = job("core");
  it.mutable_mapping()->set_pe(3);
  EXPECT_THAT(launch(node, it, 2), ElementsAre("package[0][core:0-2]", "package[1][core:4-6]")) << "of one package, if it has so many";
  it = job("core", Mapping::PACKAGE);
  it.mutable_mapping()->set_pe(2);
  EXPECT_THAT(launch(node, it, 3), ElementsAre("package[0][core:0-1]", "package[0][core:2-3]", "package[1][core:4-5]"));
}

TEST(BindingTest, SoManyOnEachPackage) {
  const Topology node = Topology::synthetic(kTwoPackages);
  job::JobSpec it = job("core", Mapping::PACKAGE);
  it.mutable_mapping()->set_per_part(2);
  EXPECT_THAT(launch(node, it, 4), ElementsAre("package[0][core:0]", "package[0][core:1]", "package[1][core:4]", "package[1][core:5]"));
  it.set_bind_to("package");
  EXPECT_THAT(launch(node, it, 3), ElementsAre("package[0][core:0-3]", "package[0][core:0-3]", "package[1][core:4-7]"));
}

TEST(BindingTest, PartsOfTheNode) {
  const Topology node = Topology::synthetic("package:2 [numa] core:2 pu:1");
  EXPECT_THAT(launch(node, job("package", Mapping::PACKAGE), 3), ElementsAre("package[0][core:0-1]", "package[0][core:0-1]", "package[1][core:2-3]"));
  EXPECT_THAT(launch(node, job("numa"), 3), ElementsAre("package[0][core:0-1]", "package[0][core:0-1]", "package[1][core:2-3]"))
      << "the first one until it has a rank for each core";
}

TEST(BindingTest, HardwareThreads) {
  const Topology node = Topology::synthetic("package:1 core:2 pu:2");
  EXPECT_THAT(launch(node, job("hwthread"), 2), ElementsAre("package[0][hwt:0]", "package[0][hwt:1]"));
  EXPECT_THAT(launch(node, job("hwthread", Mapping::CORE), 2), ElementsAre("package[0][hwt:0]", "package[0][hwt:2]"));
  EXPECT_THAT(launch(node, job("core"), 2), ElementsAre("package[0][core:0]", "package[0][core:1]"));
}

TEST(BindingTest, WithoutAFreeCoreARankIsNotBoundUnlessTheUserSaysSo) {
  const Topology node = Topology::synthetic("package:1 core:2 pu:1");
  job::JobSpec it = job("core");
  EXPECT_THAT(launch(node, it, 3), ElementsAre("package[0][core:0]", "package[0][core:1]", ""));
  Binder binder(node, it, "a");
  for (std::uint32_t rank = 0; rank < 2; ++rank) binder.bind(rank, 3);
  EXPECT_EQ(binder.bind(2, 3).why_not, "the node has no free core");
  it.mutable_mapping()->set_overload(true);
  EXPECT_THAT(launch(node, it, 4), ElementsAre("package[0][core:0]", "package[0][core:1]", "package[0][core:0]", "package[0][core:1]"));
}

TEST(BindingTest, RanksThatComeLaterGetWhatIsFree) {
  const Topology node = Topology::synthetic(kTwoPackages);
  job::JobSpec it = job("core", Mapping::PACKAGE);
  it.mutable_mapping()->set_per_part(2);
  Binder binder(node, it, "a");
  Binding there;
  there.part = 0;
  there.cpus = node.parts(Mapping::CORE)[1];
  binder.has(3, there);
  EXPECT_EQ(node.words(binder.bind(8, 0).cpus), "package[0][core:0]");
  EXPECT_EQ(node.words(binder.bind(9, 0).cpus), "package[1][core:4]");
  EXPECT_EQ(node.words(binder.bind(10, 0).cpus), "package[1][core:5]");
  EXPECT_EQ(node.words(binder.bind(11, 0).cpus), "package[0][core:2]") << "more ranks than the pattern has: where it is emptiest";
  for (std::uint32_t rank = 12; rank < 15; ++rank) EXPECT_TRUE(binder.bind(rank, 0).cpus.any()) << rank;
  EXPECT_TRUE(binder.bind(15, 0).cpus.none());
}

TEST(BindingTest, AFullPackageDoesNotKeepARankFromAFreeCore) {
  const Topology node = Topology::synthetic(kTwoPackages);
  job::JobSpec it = job("core", Mapping::PACKAGE);
  Binder binder(node, it, "a");
  Binding all;
  all.part = 1;
  all.cpus = node.parts(Mapping::PACKAGE)[0];
  binder.has(1, all);
  EXPECT_EQ(node.words(binder.bind(2, 0).cpus), "package[1][core:4]");
}

TEST(RankfileTest, LinesNameCores) {
  const Topology node = Topology::synthetic(kTwoPackages);
  EXPECT_EQ(node.words(cpus_of_slots(node, "0,2-3")), "package[0][core:0,2-3]");
  EXPECT_EQ(node.words(cpus_of_slots(node, "1:0-1")), "package[1][core:4-5]");
  EXPECT_EQ(node.words(cpus_of_slots(node, "0:*")), "package[0][core:0-3]");
  EXPECT_EQ(node.words(cpus_of_slots(node, "0:1;1:2")), "package[0][core:1] package[1][core:6]");
  const std::map<std::string, std::string> wrong{{"8", "no core 8, the node has 8"}, {"1:4", "no core 4, the package has 4"}, {"2:0", "no package 2"}};
  for (const auto& [slots, what] : wrong) {
    try {
      cpus_of_slots(node, slots);
      ADD_FAILURE() << slots;
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), HasSubstr(what));
    }
  }
}

TEST(RankfileTest, CountsOnTheNodeThatItNamesAndWhereItsCoresAreFree) {
  const Topology node = Topology::synthetic(kTwoPackages);
  job::JobSpec it = job("none");
  for (const char* slots : {"0-1", "1-2", "9"}) {
    job::RankSlots& line = *it.add_rankfile();
    line.set_host("a");
    line.set_slots(slots);
    line.set_where("file:3");
  }
  EXPECT_THAT(launch(node, it, 2), ElementsAre("package[0][core:0-1]", "package[0][core:1-2]")) << "ranks may share cores that the file names";
  Binder here(node, it, "a"), elsewhere(node, it, "b");
  try {
    here.bind(2, 3);
    ADD_FAILURE();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("file:3: slot=9"), HasSubstr("the node has 8")));
  }
  EXPECT_EQ(node.words(elsewhere.bind(0, 0).cpus), "package[0][core:0-1]");
  EXPECT_EQ(node.words(elsewhere.bind(1, 0).cpus), "package[0][core:2-3]") << "as many free ones";
  EXPECT_EQ(node.words(elsewhere.bind(2, 0).cpus), "package[1][core:4]") << "cores that this node does not have";
}

Cpus cpus(std::initializer_list<std::size_t> numbers) {
  Cpus out;
  for (const std::size_t number : numbers) out.set(number);
  return out;
}

TEST(CarriedOver, ThreadsKeepTheirPlaceWithinTheirRank) {
  EXPECT_EQ(carried_over(cpus({4, 5}), cpus({4, 5}), cpus({0, 2})), cpus({0, 2}));
  EXPECT_EQ(carried_over(cpus({5}), cpus({4, 5}), cpus({0, 2})), cpus({2}));
  EXPECT_EQ(carried_over(cpus({5}), cpus({4, 5}), cpus({1})), cpus({1})) << "less than it had";
  EXPECT_EQ(carried_over(cpus({7}), cpus({4, 5}), cpus({0, 2})), cpus({0, 2})) << "the kernel could not give it what it had";
  EXPECT_EQ(carried_over(cpus({3}), {}, cpus({0, 2})), cpus({0, 2}));
}

TEST(CarriedOver, AllThreadsOfAProcessAreBound) {
  const Topology node = Topology::here();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::pause();
    ::_exit(0);
  }
  const Cpus one = node.parts(Mapping::HWTHREAD).back();
  EXPECT_EQ(bind_process(pid, {}, one), "");
  cpu_set_t set;
  EXPECT_EQ(::sched_getaffinity(pid, sizeof set, &set), 0);
  const cpu_set_t wanted = cpu_set(one);
  EXPECT_TRUE(CPU_EQUAL(&set, &wanted));
  EXPECT_NE(bind_process(pid, {}, cpus({CPU_SETSIZE - 1})), "") << "there is no such processor";
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

}  // namespace
}  // namespace reprise::crd
